//! Files a prompt names: read below the project's root, shown as the read tool shows them (R16).

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::beneath::{Below, PathError, Root};
use crate::input::Query;

/// The most that is read of a file.
const LARGEST: u64 = 10 << 20;
/// Lines shown unless the client names a range, and at most.
const LINES: usize = 2_000;
/// Letters of a line that are shown.
const WIDTH: usize = 2_000;
/// Bytes shown in all.
const BYTES: usize = 50 << 10;
/// Entries of a directory that are looked at.
const ENTRIES: usize = 100_000;
/// Entries of a directory that are shown.
const LISTED: usize = 2_000;

/// A path of a `file:` URL, and which of its lines are wanted, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    pub(super) start: Option<usize>,
    pub(super) end: Option<usize>,
}

impl Named {
    /// Reads a `file:` URL; nothing for another one.
    pub(super) fn of(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("file:")?;
        let rest = rest.strip_prefix("//localhost/").map_or_else(
            || rest.strip_prefix("//").unwrap_or(rest).to_owned(),
            |path| format!("/{path}"),
        );
        let (path, query) = rest.split_once('?').unwrap_or((&rest, ""));
        let path = path.split('#').next().unwrap_or(path);
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let query = Query::of(query);
        let number = |key: &str| query.filled(key)?.parse::<usize>().ok();
        Some(Self { path: PathBuf::from(path), start: number("start"), end: number("end") })
    }

    /// The path as it is told.
    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// The input of the read tool that would show the same.
    pub(super) fn call(&self) -> serde_json::Value {
        let mut call = serde_json::json!({ "filePath": self.shown() });
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
pub(super) type Refusal = String;

/// Looks a path up below `root`, and hands it to `read`; a link is followed if it stays inside.
fn inside<T>(
    root: &Path,
    named: &Named,
    read: impl Fn(&Root, &Below) -> Result<T, PathError>,
) -> Result<T, Refusal> {
    let shown = named.shown();
    let refused = |error: PathError| match error {
        PathError::Missing(_) => format!("File not found: {shown}"),
        PathError::Outside(_) | PathError::Link(_) => {
            format!("{shown} is outside of the project {}", root.display())
        }
        PathError::Kind(_) => format!("{shown} is neither a file nor a directory"),
        PathError::TooLarge(_) => format!("{shown} is too large to be read"),
        PathError::Io(error) => format!("{shown} cannot be read: {error}"),
    };
    let open = Root::open(root).map_err(refused)?;
    let below = |path: &Path| match path.strip_prefix(root) {
        Ok(inner) => Below::parse(&inner.to_string_lossy()),
        Err(_) => Err(PathError::Outside(String::new())),
    };
    let found = below(&named.path).and_then(|path| read(&open, &path));
    match found {
        Err(PathError::Outside(_) | PathError::Link(_)) => {
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
pub(super) fn bytes(root: &Path, named: &Named) -> Result<Vec<u8>, Refusal> {
    inside(root, named, |open, path| open.read(path, LARGEST))
}

/// A directory as the read tool shows it; nothing if it is none.
pub(super) fn directory(root: &Path, named: &Named) -> Option<String> {
    let entries = inside(root, named, |open, path| open.list(path, ENTRIES)).ok()?;
    let count = entries.len();
    let mut names: Vec<String> = entries
        .into_iter()
        .map(|entry| if entry.is_dir { format!("{}/", entry.name) } else { entry.name })
        .collect();
    names.sort();
    names.truncate(LISTED);
    let more = match count - names.len() {
        0 => String::new(),
        more => format!("\n… and {more} more"),
    };
    let (path, names) = (named.shown(), names.join("\n"));
    Some(format!(
        "<path>{path}</path>\n<type>directory</type>\n<entries>\n{names}{more}\n\n({count} entries)\n\
         </entries>"
    ))
}

/// A text as the read tool shows it: its lines with their numbers.
pub(super) fn text(root: &Path, named: &Named) -> Result<String, Refusal> {
    let bytes = bytes(root, named)?;
    let shown = named.shown();
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
    let wanted = lines.iter().enumerate().skip(first - 1).take(LINES);
    for (index, line) in wanted.take_while(|(index, _)| *index < last) {
        let line = match line.char_indices().nth(WIDTH) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => (*line).to_owned(),
        };
        if body.len() + line.len() > BYTES {
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
    fn a_file_url_names_a_path_and_lines() {
        let named = Named::of("file:///a%20b/c.rs?start=3&end=5").expect("a file");
        assert_eq!(named.path, Path::new("/a b/c.rs"));
        assert_eq!((named.start, named.end), (Some(3), Some(5)));
        assert_eq!(named.call()["limit"], 3);
        assert_eq!(Named::of("data:text/plain,x"), None);
    }

    #[test]
    fn lines_are_numbered_and_a_range_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs_err::canonicalize(dir.path()).expect("real");
        fs_err::write(root.join("a.txt"), "one\ntwo\nthree\n").expect("written");
        let url = format!("file://{}/a.txt", root.display());
        let whole = text(&root, &Named::of(&url).expect("a file")).expect("read");
        assert!(whole.contains("\n1: one\n2: two\n3: three\n\n(End of file - total 3 lines)\n"));
        let named = Named::of(&format!("{url}?start=2&end=2")).expect("a file");
        let some = text(&root, &named).expect("read");
        assert!(
            some.contains("<content>\n2: two\n\n(Lines 2-2 of 3; read on from line 3)"),
            "{some}"
        );
    }
}
