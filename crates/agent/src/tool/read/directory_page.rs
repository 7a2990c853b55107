//! A page of the names in a directory.

use std::io;
use std::path::Path;

/// More names of one directory are not sorted.
const MAX_ENTRIES: usize = 200_000;

/// Some names of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectoryPage {
    /// The names, sorted; those of directories end in `/`.
    pub(super) names: Vec<String>,
    /// How many there are.
    pub(super) total: usize,
}

/// Lists `limit` names of a directory from `offset` on (the first is 1).
pub(super) fn list_page(path: &Path, (offset, limit): (u64, u64)) -> io::Result<DirectoryPage> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(path)?.take(MAX_ENTRIES) {
        let entry = entry?;
        // Of a link it matters what it leads to.
        let is_directory = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => entry.path().is_dir(),
            Ok(kind) => kind.is_dir(),
            Err(_) => false,
        };
        let name = entry.file_name().to_string_lossy().replace('\n', "\\n");
        names.push(if is_directory { format!("{name}/") } else { name });
    }
    names.sort();
    let total = names.len();
    let first = usize::try_from(offset.saturating_sub(1)).unwrap_or(usize::MAX);
    let count = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(DirectoryPage { names: names.into_iter().skip(first).take(count).collect(), total })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn names_are_sorted_and_directories_are_marked() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["b.txt", "a.txt", "line\nbreak"] {
            fs_err::write(dir.path().join(name), "").expect("written");
        }
        fs_err::create_dir(dir.path().join("sub")).expect("made");
        symlink("sub", dir.path().join("link")).expect("linked");
        symlink("gone", dir.path().join("dangling")).expect("linked");
        let all = list_page(dir.path(), (1, 100)).expect("listed");
        assert_eq!(all.names, ["a.txt", "b.txt", "dangling", "line\\nbreak", "link/", "sub/"]);
        let some = list_page(dir.path(), (3, 2)).expect("listed");
        assert_eq!(some.names, ["dangling", "line\\nbreak"]);
        assert_eq!(some.total, 6);
    }
}
