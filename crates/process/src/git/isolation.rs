//! A stand-in for the shared folder of a repository, without its configuration and hooks.
//!
//! Git reads `$GIT_COMMON_DIR/config`. The folder here has a `config` of ours and links to what is data:
//! objects, references, excludes. So the repository's own configuration, with all it includes, is not
//! overridden setting by setting but never read.
//!
//! Removed when it is dropped, and when the program ends. One whose program was killed is removed by the
//! next program that makes one: a lock tells whether its owner lives.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use tempfile::TempDir;

use super::cancellation::is_ending;

/// What is linked even where it is missing: it may be created while a command runs.
const ALWAYS: [&str; 5] = ["objects", "refs", "packed-refs", "info", "shallow"];
/// What is linked where it is there; a link that leads nowhere would make git fail.
const EXISTING: [&str; 2] = ["logs", "reftable"];

const PREFIX: &str = "turnstone-git-";
/// Entries of the folder for temporary files that are looked at for what was left behind.
const MOST_ENTRIES: usize = 10_000;

/// The folders that exist now.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Folders that were left behind are looked for once.
static SWEEP: Once = Once::new();

/// The stand-in of one repository.
#[derive(Debug)]
pub(super) struct IsolatedCommonDir {
    folder: TempDir,
    /// Closed by the system when this program ends in whatever way; programs it starts do not get it.
    _lock: OwnedFd,
}

impl IsolatedCommonDir {
    /// Creates the folder for the repository whose shared folder is `common_dir`.
    pub(super) fn create(common_dir: &Path, format_file: &str) -> io::Result<Self> {
        let (folder, lock) = create_locked_folder()?;
        if let Some(parent) = folder.path().parent() {
            SWEEP.call_once(|| remove_abandoned_folders(parent));
        }
        {
            let mut folders = folders();
            if is_ending() {
                return Err(io::Error::other("this program ends"));
            }
            folders.insert(folder.path().to_owned());
        }
        let created = Self { folder, _lock: lock };
        let existing = EXISTING.iter().filter(|name| common_dir.join(name).is_dir());
        for name in ALWAYS.iter().chain(existing) {
            symlink(common_dir.join(name), created.path().join(name))?;
        }
        fs_err::write(created.path().join("config"), format_file)?;
        Ok(created)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for IsolatedCommonDir {
    fn drop(&mut self) {
        folders().remove(self.folder.path());
    }
}

/// Removes the folders of all commands: the program ends.
pub(super) fn remove_folders() {
    for folder in std::mem::take(&mut *folders()) {
        fs_err::remove_dir_all(folder).ok();
    }
}

fn folders() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Another program may take a folder for abandoned before it is locked: then it is made again.
fn create_locked_folder() -> io::Result<(TempDir, OwnedFd)> {
    loop {
        let closed = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(closed).tempdir()?;
        let Ok(fd) = open_folder(folder.path()) else { continue };
        flock(&fd, FlockOperation::LockExclusive)?;
        let is_there = fs_err::symlink_metadata(folder.path());
        if is_there.is_ok_and(|found| is_same(&found, &fd)) {
            return Ok((folder, fd));
        }
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn is_same(found: &std::fs::Metadata, fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_ino == found.ino() && stat.st_dev == found.dev())
}

/// Removes the user's folders whose owners have ended. What fails is tried again by the next program.
fn remove_abandoned_folders(parent: &Path) {
    let Ok(entries) = fs_err::read_dir(parent) else { return };
    let uid = rustix::process::geteuid().as_raw();
    for entry in entries.take(MOST_ENTRIES).flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let is_own = |fd: &OwnedFd| rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_uid == uid);
        let Some(fd) = open_folder(&path).ok().filter(is_own) else { continue };
        if flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs_err::remove_dir_all(&path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_folders_are_removed_and_used_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["turnstone-git-old", "turnstone-git-used", "other"] {
            fs_err::create_dir(at(name)).unwrap();
            symlink(at("other"), at(name).join("objects")).unwrap();
        }
        fs_err::write(at("turnstone-git-file"), "").unwrap();
        let used = open_folder(&at("turnstone-git-used")).unwrap();
        flock(&used, FlockOperation::LockExclusive).unwrap();
        remove_abandoned_folders(dir.path());
        assert!(!at("turnstone-git-old").exists(), "its owner has ended");
        for name in ["turnstone-git-used/objects", "turnstone-git-file", "other/objects"] {
            assert!(fs_err::symlink_metadata(at(name)).is_ok(), "{name}");
        }
    }
}
