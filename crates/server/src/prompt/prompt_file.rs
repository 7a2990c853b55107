//! Files a prompt names: read below the project's root, shown as the read tool shows them (R16).

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::confined_path::{ConfinedPath, ConfinedPathError, ConfinedRoot};
use crate::request_input::QueryParams;

/// The most that is read of a file.
const MAX_FILE_BYTES: u64 = 10 << 20;
/// Lines shown unless the client names a range, and at most.
const MAX_LINES: usize = 2_000;
/// Letters of a line that are shown.
const MAX_LINE_CHARS: usize = 2_000;
/// Bytes shown in all.
const MAX_SHOWN_BYTES: usize = 50 << 10;
/// Entries of a directory that are looked at.
const MAX_ENTRIES: usize = 100_000;
/// Entries of a directory that are shown.
const MAX_LISTED: usize = 2_000;

/// A path of a `file:` URL, and which of its lines are wanted, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileUrl {
    pub(super) path: PathBuf,
    pub(super) start: Option<usize>,
    pub(super) end: Option<usize>,
}

impl FileUrl {
    /// Reads a `file:` URL; nothing for another one.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("file:")?;
        let rest = rest.strip_prefix("//localhost/").map_or_else(
            || rest.strip_prefix("//").unwrap_or(rest).to_owned(),
            |path| format!("/{path}"),
        );
        let (path, query) = rest.split_once('?').unwrap_or((&rest, ""));
        let path = path.split('#').next().unwrap_or(path);
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let query = QueryParams::parse(query);
        let number = |key: &str| query.non_empty(key)?.parse::<usize>().ok();
        Some(Self { path: PathBuf::from(path), start: number("start"), end: number("end") })
    }

    /// The path as it is shown.
    pub(super) fn display(&self) -> String {
        self.path.display().to_string()
    }

    /// The input of the read tool that would show the same.
    pub(super) fn read_tool_input(&self) -> serde_json::Value {
        let mut call = serde_json::json!({ "filePath": self.display() });
        if let Some(start) = self.start {
            call["offset"] = start.into();
            if let Some(end) = self.end.filter(|end| *end >= start) {
                call["limit"] = (end - start + 1).into();
            }
        }
        call
    }
}

/// Why a file was not read, in words for a person and a model.
pub(super) type FileReadError = String;

/// Looks a path up below `root`, and hands it to `read`; a link is followed if it stays inside.
fn with_confined_path<T>(
    root: &Path,
    named: &FileUrl,
    read: impl Fn(&ConfinedRoot, &ConfinedPath) -> Result<T, ConfinedPathError>,
) -> Result<T, FileReadError> {
    let shown = named.display();
    let refused = |error: ConfinedPathError| match error {
        ConfinedPathError::Missing(_) => format!("File not found: {shown}"),
        ConfinedPathError::Outside(_) | ConfinedPathError::Symlink(_) => {
            format!("{shown} is outside of the project {}", root.display())
        }
        ConfinedPathError::WrongKind(_) => format!("{shown} is neither a file nor a directory"),
        ConfinedPathError::TooLarge(_) => format!("{shown} is too large to be read"),
        ConfinedPathError::Io(error) => format!("{shown} cannot be read: {error}"),
    };
    let open = ConfinedRoot::open(root).map_err(refused)?;
    let below = |path: &Path| match path.strip_prefix(root) {
        Ok(inner) => ConfinedPath::parse(&inner.to_string_lossy()),
        Err(_) => Err(ConfinedPathError::Outside(String::new())),
    };
    let found = below(&named.path).and_then(|path| read(&open, &path));
    match found {
        Err(ConfinedPathError::Outside(_) | ConfinedPathError::Symlink(_)) => {
            // Where it really is decides; opened from there no link is followed any more.
            let real = fs_err::canonicalize(&named.path).map_err(|error| {
                if error.kind() == std::io::ErrorKind::NotFound {
                    return format!("File not found: {shown}");
                }
                format!("{shown} cannot be read: {error}")
            })?;
            below(&real).and_then(|path| read(&open, &path)).map_err(refused)
        }
        found => found.map_err(refused),
    }
}

/// The bytes of a file.
pub(super) fn read_bytes(root: &Path, named: &FileUrl) -> Result<Vec<u8>, FileReadError> {
    with_confined_path(root, named, |open, path| open.read(path, MAX_FILE_BYTES))
}

/// A directory as the read tool shows it; nothing if it is none.
pub(super) fn render_directory(root: &Path, named: &FileUrl) -> Option<String> {
    let entries =
        with_confined_path(root, named, |open, path| open.list(path, MAX_ENTRIES)).ok()?;
    let count = entries.len();
    let mut names: Vec<String> = entries
        .into_iter()
        .map(|entry| if entry.is_dir { format!("{}/", entry.name) } else { entry.name })
        .collect();
    names.sort();
    names.truncate(MAX_LISTED);
    let more = match count - names.len() {
        0 => String::new(),
        more => format!("\n… and {more} more"),
    };
    let (path, names) = (named.display(), names.join("\n"));
    Some(format!(
        "<path>{path}</path>\n<type>directory</type>\n<entries>\n{names}{more}\n\n({count} entries)\n\
         </entries>"
    ))
}

/// A text as the read tool shows it: its lines with their numbers.
pub(super) fn render_text(root: &Path, named: &FileUrl) -> Result<String, FileReadError> {
    let bytes = read_bytes(root, named)?;
    let shown = named.display();
    if bytes.contains(&0) {
        return Err(format!("Cannot read binary file: {shown}"));
    }
    let whole = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = whole.lines().collect();
    let first = named.start.unwrap_or(1).max(1);
    if first > lines.len().max(1) {
        let total = lines.len();
        return Err(format!("{shown} has {total} lines; there is no line {first}"));
    }
    let last = named.end.filter(|end| *end >= first).unwrap_or(usize::MAX);
    let (mut body, mut used) = (String::new(), first - 1);
    let wanted = lines.iter().enumerate().skip(first - 1).take(MAX_LINES);
    for (index, line) in wanted.take_while(|(index, _)| *index < last) {
        let line = match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => (*line).to_owned(),
        };
        if body.len() + line.len() > MAX_SHOWN_BYTES {
            break;
        }
        body.push_str(&format!("{}: {line}\n", index + 1));
        used = index + 1;
    }
    let total = lines.len();
    let end = if used >= total {
        format!("(End of file - total {total} lines)")
    } else {
        format!("(Lines {first}-{used} of {total}; read on from line {})", used + 1)
    };
    Ok(format!("<path>{shown}</path>\n<type>file</type>\n<content>\n{body}\n{end}\n</content>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_url_parses_path_and_lines() {
        let named = FileUrl::parse("file:///a%20b/c.rs?start=3&end=5").expect("a file");
        assert_eq!(named.path, Path::new("/a b/c.rs"));
        assert_eq!((named.start, named.end), (Some(3), Some(5)));
        assert_eq!(named.read_tool_input()["limit"], 3);
        assert_eq!(FileUrl::parse("data:text/plain,x"), None);
    }

    #[test]
    fn lines_are_numbered_and_a_range_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs_err::canonicalize(dir.path()).expect("real");
        fs_err::write(root.join("a.txt"), "one\ntwo\nthree\n").expect("written");
        let url = format!("file://{}/a.txt", root.display());
        let whole = render_text(&root, &FileUrl::parse(&url).expect("a file")).expect("read");
        assert!(whole.contains("\n1: one\n2: two\n3: three\n\n(End of file - total 3 lines)\n"));
        let named = FileUrl::parse(&format!("{url}?start=2&end=2")).expect("a file");
        let some = render_text(&root, &named).expect("read");
        assert!(
            some.contains("<content>\n2: two\n\n(Lines 2-2 of 3; read on from line 3)"),
            "{some}"
        );
    }
}
