//! Where git looks for the objects of a repository: its own folder, and those that it names as alternates.
//!
//! `clone --shared` and `--reference` leave objects in another repository. The list of alternates is as
//! hostile as any file of a repository: it is followed as far as git follows it and no further, each folder
//! once. Nothing is opened here but the lists themselves.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::repository_file;

/// Git follows alternates of alternates so deep.
const MAX_ALTERNATE_DEPTH: usize = 5;
/// More folders are not looked at: a list may name any number of them.
const MAX_OBJECT_FOLDERS: usize = 64;

/// Lists the folders of objects of a repository, its own first.
///
/// An alternate that is missing or a list that cannot be read is left out: its files are read from the worktree.
pub(crate) fn list_object_folders(common_dir: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    add_folder(&common_dir.join("objects"), 0, &mut folders);
    folders
}

fn add_folder(folder: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    // The real path, so that a ring of alternates ends.
    let Ok(folder) = fs_err::canonicalize(folder) else {
        return;
    };
    if folders.len() >= MAX_OBJECT_FOLDERS || folders.contains(&folder) || !folder.is_dir() {
        return;
    }
    folders.push(folder.clone());
    if depth >= MAX_ALTERNATE_DEPTH {
        return;
    }
    let list = repository_file::read_or_empty(&folder.join("info/alternates")).unwrap_or_default();
    for line in list.split(|byte| *byte == b'\n') {
        // A quoted name contains a line end or a quote; git would follow it, but it need not be reused.
        if !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b"\"") {
            add_folder(&folder.join(OsStr::from_bytes(line)), depth + 1, folders);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a folder of objects whose list of alternates is `list`.
    fn folder_with_list(at: &Path, list: &str) {
        fs_err::create_dir_all(at.join("info")).unwrap();
        fs_err::write(at.join("info/alternates"), list).unwrap();
    }

    /// Proves R10.
    #[test]
    fn alternates_are_followed_as_git_follows_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        let absolute = at("c/objects").display().to_string();
        let list = format!("# {absolute}\n\n../../b/objects\n\"quoted\"\n/nowhere\n");
        folder_with_list(&at("a/objects"), &list);
        // A ring, and a list with another alternate in it.
        folder_with_list(&at("b/objects"), &format!("../../a/objects\n{absolute}\n"));
        folder_with_list(&at("c/objects"), "");

        let found = list_object_folders(&at("a"));

        assert_eq!(found, [at("a/objects"), at("b/objects"), at("c/objects")]);
    }

    /// Proves R10.
    #[test]
    fn deep_long_and_unreadable_alternate_lists_end() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for n in 0..9 {
            folder_with_list(&at(&format!("{n}/objects")), &format!("../../{}/objects\n", n + 1));
        }
        assert_eq!(list_object_folders(&at("0")).len(), 1 + MAX_ALTERNATE_DEPTH);
        let names: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
        folder_with_list(&at("long/objects"), &names.join("\n"));
        names.iter().for_each(|name| {
            fs_err::create_dir_all(at("long/objects").join(name)).unwrap();
        });
        assert_eq!(list_object_folders(&at("long")).len(), MAX_OBJECT_FOLDERS);
        // A pipe is not waited for.
        fs_err::create_dir_all(at("pipe/objects/info")).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        let path = at("pipe/objects/info/alternates");
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        assert_eq!(list_object_folders(&at("pipe")), [at("pipe/objects")]);
    }
}
