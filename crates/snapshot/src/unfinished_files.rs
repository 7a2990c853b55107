//! Files that may be unfinished when a capture is made, because a program is saving them.
//!
//! Whether a file that was written a moment ago is complete cannot be seen in it. That a process still
//! has it open for writing can, and that it was emptied: many programs save by truncating a file and
//! writing it again. Processes of other users, and of other name spaces, are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::path::RelPath;
use crate::worktree::{FileStat, Worktree};

/// The right to write that an open handle has, in the mode of its name below `/proc`.
const OPEN_FOR_WRITING: u32 = 0o200;

/// A file that is empty and this much older than its last write was not just created empty.
const MIN_AGE_BEFORE_EMPTIED_NANOS: i64 = 100_000_000;

/// Returns the files that may be unfinished, sorted.
///
/// `read` are the files whose content is new since the last capture, `recent` those of them that were written
/// a moment ago, and `before` those that may have been unfinished at the last capture: the content that is
/// known of them may be that of a save that still goes on.
pub(crate) fn find_unfinished<'p>(
    worktree: &Worktree,
    recent: &BTreeMap<RelPath, FileStat>,
    read: impl Iterator<Item = &'p RelPath>,
    before: &'p BTreeSet<RelPath>,
) -> BTreeSet<RelPath> {
    let mut asked = read.chain(before).peekable();
    let mut found = BTreeSet::new();
    if asked.peek().is_some() {
        let open = list_open_for_writing(worktree.path());
        found.extend(asked.filter(|path| open.contains(*path)).cloned());
    }
    let unfinished = recent.iter().filter(|(path, stat)| {
        was_emptied(worktree, path, stat) || was_written_again(worktree, path, stat)
    });
    found.extend(unfinished.map(|(path, _)| path.clone()));
    found
}

/// The name of the file that remembers which files may have been unfinished at the last capture.
const UNFINISHED_FILE: &str = "unfinished.json";

/// Reads which files may have been unfinished at the last capture of a store. None if that is not known: it only
/// adds to what a capture sees itself.
pub(crate) fn load_unfinished(folder: &Path) -> BTreeSet<RelPath> {
    let stored = fs_err::read(folder.join(UNFINISHED_FILE)).ok();
    stored.and_then(|stored| serde_json::from_slice(&stored).ok()).unwrap_or_default()
}

/// Remembers which files may be unfinished, for the next capture of a store.
pub(crate) fn save_unfinished(folder: &Path, files: &BTreeSet<RelPath>) -> io::Result<()> {
    let path = folder.join(UNFINISHED_FILE);
    match files.is_empty() {
        true => match fs_err::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
        false => fs_err::write(path, serde_json::to_vec(files)?),
    }
}

/// True if an empty file had been there for a while before its last write.
fn was_emptied(worktree: &Worktree, path: &RelPath, stat: &FileStat) -> bool {
    let born = || worktree.open_parent(path).ok()?.birth_time(path.name());
    stat.size == 0 && born().is_some_and(|born| stat.mtime - born >= MIN_AGE_BEFORE_EMPTIED_NANOS)
}

/// True if a file was written again since it was read.
fn was_written_again(worktree: &Worktree, path: &RelPath, stat: &FileStat) -> bool {
    matches!(worktree.stat(path), Ok(Some(now)) if !now.is_unchanged(stat))
}

/// Returns the files below a directory that a process has open for writing.
fn list_open_for_writing(root: &Path) -> BTreeSet<RelPath> {
    let mut found = BTreeSet::new();
    let processes = fs_err::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |name: &[u8]| name.iter().all(u8::is_ascii_digit);
    for process in processes.filter(|entry| is_process(entry.file_name().as_bytes())) {
        // A process that ended, or that we may not inspect, is skipped.
        let handles = fs_err::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        for handle in handles {
            let Ok(target) = fs_err::read_link(handle.path()) else { continue };
            let below = target.strip_prefix(root).ok();
            let path = below.and_then(|below| RelPath::new(below.as_os_str().as_bytes()).ok());
            let Some(path) = path else { continue };
            let mode = fs_err::symlink_metadata(handle.path()).map(|it| it.permissions().mode());
            if mode.is_ok_and(|mode| mode & OPEN_FOR_WRITING != 0) {
                found.insert(path);
            }
        }
    }
    found
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_files_open_for_writing_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = |text: &str| text.parse::<RelPath>().unwrap();
        for name in ["read", "written", "closed"] {
            fs_err::write(root.join(name), name).unwrap();
        }
        let open = || fs_err::OpenOptions::new().append(true).to_owned();
        let _held = (
            fs_err::File::open(root.join("read")).unwrap(),
            open().open(root.join("written")).unwrap(),
        );

        assert_eq!(list_open_for_writing(&root), [path("written")].into());
    }

    #[test]
    fn unfinished_files_are_remembered_until_there_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let files: BTreeSet<RelPath> = ["a", "b/c"].map(|text| text.parse().unwrap()).into();
        assert_eq!(load_unfinished(dir.path()), BTreeSet::new());
        save_unfinished(dir.path(), &files).unwrap();
        assert_eq!(load_unfinished(dir.path()), files);
        for _ in 0..2 {
            save_unfinished(dir.path(), &BTreeSet::new()).unwrap();
            assert_eq!(load_unfinished(dir.path()), BTreeSet::new());
        }
    }
}
