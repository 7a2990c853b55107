//! The difference between two texts, as the clients of OpenCode render it.

use std::time::Duration;

use similar::{ChangeTag, DiffOp, TextDiff};

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 4;
/// A longer patch is cut: it is shown to people, and nothing is decided by it.
const MAX_PATCH_BYTES: usize = 256 << 10;
/// From then on the difference is an approximation.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// What differs between two texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextPatch {
    /// The patch in the form of the JavaScript library `diff`, without common indentation.
    pub(crate) patch: String,
    /// Lines that were added.
    pub(crate) additions: usize,
    /// Lines that were removed.
    pub(crate) deletions: usize,
}

/// Compares two texts line by line.
pub(crate) fn diff_texts(name: &str, old: &str, new: &str) -> TextPatch {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let mut lines = Vec::new();
    let (mut additions, mut deletions) = (0, 0);
    for hunk in diff.grouped_ops(CONTEXT_LINES) {
        lines.push(hunk_header(&hunk));
        for change in hunk.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Insert => '+',
                ChangeTag::Delete => '-',
            };
            additions += usize::from(sign == '+');
            deletions += usize::from(sign == '-');
            let text = change.value().strip_suffix('\n').unwrap_or(change.value());
            lines.push(format!("{sign}{text}"));
            if change.missing_newline() {
                lines.push("\\ No newline at end of file".to_owned());
            }
        }
    }
    remove_common_indentation(&mut lines);
    let mut patch = format!("Index: {name}\n{}\n--- {name}\n+++ {name}\n", "=".repeat(67));
    for line in &lines {
        if patch.len() + line.len() > MAX_PATCH_BYTES {
            patch.push_str("\\ The rest of the difference is not shown\n");
            break;
        }
        patch.push_str(line);
        patch.push('\n');
    }
    TextPatch { patch, additions, deletions }
}

fn hunk_header(hunk: &[DiffOp]) -> String {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return String::new() };
    let side = |start: usize, end: usize| {
        let count = end - start;
        // A side without lines is named by the line before it.
        (start + usize::from(count > 0), count)
    };
    let (old, old_count) = side(first.old_range().start, last.old_range().end);
    let (new, new_count) = side(first.new_range().start, last.new_range().end);
    format!("@@ -{old},{old_count} +{new},{new_count} @@")
}

/// Removes the white space that all lines of a patch begin with.
fn remove_common_indentation(lines: &mut [String]) {
    let is_content = |line: &str| line.starts_with([' ', '+', '-']);
    let indentation = |line: &str| {
        let text = line.get(1..).unwrap_or_default();
        let blank = text.len() - text.trim_start_matches([' ', '\t']).len();
        (!text.trim().is_empty()).then_some(blank)
    };
    let content = lines.iter().filter(|line| is_content(line));
    let common = content.filter_map(|line| indentation(line)).min().unwrap_or(0);
    if common == 0 {
        return;
    }
    for line in lines.iter_mut().filter(|line| is_content(line)) {
        let rest = line.get(1 + common..).unwrap_or_default().to_owned();
        line.truncate(1);
        line.push_str(&rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_has_the_form_that_clients_render() {
        let found = diff_texts("/w/a.rs", "one\ntwo\nthree", "one\n2\nthree\n");
        let line = "=".repeat(67);
        assert_eq!(
            found.patch,
            format!(
                "Index: /w/a.rs\n{line}\n--- /w/a.rs\n+++ /w/a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n\
                 -three\n\\ No newline at end of file\n+2\n+three\n"
            )
        );
        assert_eq!((found.additions, found.deletions), (2, 2));
    }

    #[test]
    fn new_file_has_no_old_lines() {
        let found = diff_texts("f", "", "a\nb\n");
        assert!(found.patch.contains("@@ -0,0 +1,2 @@\n+a\n+b\n"), "{}", found.patch);
        assert_eq!(diff_texts("f", "same\n", "same\n").additions, 0);
    }

    #[test]
    fn common_indentation_is_removed_from_a_patch() {
        let found = diff_texts("f", "    a\n\n      b\n", "    a\n\n      c\n");
        assert!(found.patch.ends_with("@@ -1,3 +1,3 @@\n a\n \n-  b\n+  c\n"), "{}", found.patch);
    }

    #[test]
    fn long_patch_is_cut() {
        let new = "x".repeat(100).repeat(3) + "\n";
        let found = diff_texts("f", "", &new.repeat(2_000));
        assert!(found.patch.len() < MAX_PATCH_BYTES + 100);
        assert!(found.patch.ends_with("is not shown\n"));
        assert_eq!(found.additions, 2_000);
    }
}
