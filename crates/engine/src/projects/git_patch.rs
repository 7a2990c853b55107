//! A patch of git, split by file.

use turnstone_process::{ChangeKind, ChangedFile};

/// What changed in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The file, from the root.
    pub file: String,
    /// Its patch; `None` for a file whose content is not shown.
    pub patch: Option<String>,
    /// Lines that were added.
    pub additions: usize,
    /// Lines that were removed.
    pub deletions: usize,
    /// `added`, `deleted` or `modified`.
    pub status: &'static str,
}

impl FilePatch {
    /// A file whose changed lines are counted and not shown.
    pub(super) fn counted(file: &ChangedFile) -> Self {
        let status = match file.kind {
            ChangeKind::Added => "added",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Modified => "modified",
        };
        Self {
            file: file.path.to_string_lossy().into_owned(),
            patch: Some(String::new()),
            additions: file.additions,
            deletions: file.deletions,
            status,
        }
    }

    /// A new file whose content is not shown.
    pub(super) fn without_patch(file: String) -> Self {
        Self { file, patch: None, additions: 0, deletions: 0, status: "added" }
    }
}

/// Splits a patch of git by file.
pub(super) fn split_patch(text: &str) -> Vec<FilePatch> {
    let mut files: Vec<FilePatch> = Vec::new();
    let (mut in_hunk, mut again) = (false, false);
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("diff --git ") {
            let file = patch_file_name(rest.trim_end());
            in_hunk = false;
            again = files.last().is_some_and(|last| last.file == file);
            // A file that became a link is removed and added: one file, in two pieces.
            if !again {
                let patch = Some(String::new());
                files.push(FilePatch {
                    status: "modified",
                    patch,
                    ..FilePatch::without_patch(file)
                });
            }
        }
        let Some(file) = files.last_mut() else { continue };
        if let Some(patch) = &mut file.patch {
            patch.push_str(line);
        }
        match line.as_bytes().first() {
            _ if line.starts_with("@@ ") => in_hunk = true,
            Some(b'+') if in_hunk => file.additions += 1,
            Some(b'-') if in_hunk => file.deletions += 1,
            _ if in_hunk => {}
            _ if line.starts_with("new file mode") && again => file.status = "modified",
            _ if line.starts_with("new file mode") => file.status = "added",
            _ if line.starts_with("deleted file mode") => file.status = "deleted",
            _ => {}
        }
    }
    files
}

/// The name in `a/name b/name`: both are the same, because renames are not detected.
fn patch_file_name(both: &str) -> String {
    if both.starts_with('"') {
        let end = both.len() / 2;
        return unquote(both.get(..end).unwrap_or(both));
    }
    // `a/` and `b/` and a space leave twice the name.
    let length = both.len().saturating_sub(5) / 2;
    both.get(2..2 + length).unwrap_or(both).to_owned()
}

/// A name in quotes, with its bytes written as `\303\244`.
fn unquote(text: &str) -> String {
    let inner = text.trim().trim_matches('"');
    let inner = inner.strip_prefix("a/").unwrap_or(inner);
    let mut bytes = Vec::new();
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits: Vec<u8> = (0..3).map_while(|_| rest.next_if(u8::is_ascii_digit)).collect();
        if digits.is_empty() {
            let letter = rest.next().unwrap_or(b'\\');
            bytes.push(match letter {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'a' => 7,
                b'b' => 8,
                b'v' => 11,
                b'f' => 12,
                other => other,
            });
        } else {
            let value = digits.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
            bytes.push(u8::try_from(value).unwrap_or(b'?'));
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::split_patch;

    #[test]
    fn patch_is_split_by_file_with_line_counts() {
        let text = "diff --git a/a b.txt b/a b.txt\nindex 1..2 100644\n--- a/a b.txt\n+++ b/a b.txt\n\
            @@ -1 +1,2 @@\n-old\n+new\n+++ more\ndiff --git a/gone b/gone\ndeleted file mode 100644\n\
            --- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
            diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nnew file mode 100644\n";
        let files = split_patch(text);
        let decision: Vec<_> =
            files.iter().map(|f| (f.file.as_str(), f.status, f.additions, f.deletions)).collect();
        let wanted =
            [("a b.txt", "modified", 2, 1), ("gone", "deleted", 0, 1), ("ä", "added", 0, 0)];
        assert_eq!(decision, wanted);
        assert_eq!(files.iter().filter_map(|f| f.patch.clone()).collect::<String>(), text);
    }

    #[test]
    fn quoted_names_are_read_as_git_writes_them() {
        let names = r#""a/\a\b\t\n\v\f\r\"\\\001ä" "b/\a\b\t\n\v\f\r\"\\\001ä""#;
        let files = split_patch(&format!("diff --git {names}\n"));
        assert_eq!(files[0].file, "\u{7}\u{8}\t\n\u{b}\u{c}\r\"\\\u{1}ä");
    }
}
