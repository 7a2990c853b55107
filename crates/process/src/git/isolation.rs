//! A stand-in for the shared folder of a repository, without its configuration and hooks.
//!
//! Git reads `$GIT_COMMON_DIR/config`. The folder here has our own `config` and links to the data:
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

/// What is linked even where it is missing: it may be created while a command runs.
const ALWAYS: [&str; 5] = ["objects", "refs", "packed-refs", "info", "shallow"];
/// What is linked where it is there; a link that leads nowhere would make git fail.
const EXISTING: [&str; 2] = ["logs", "reftable"];

const PREFIX: &str = "turnstone-git-";
/// Entries of the folder for temporary files that are looked at for what was left behind.
const MOST_ENTRIES: usize = 10_000;

/// The folders of this program.
static FOLDERS: FolderRegistry = FolderRegistry::new();
/// Folders that were left behind are looked for once.
static SWEEP: Once = Once::new();

/// The folders that exist now; after [`Self::close`] there are none.
///
/// A folder is filled and removed under the lock. Otherwise the program could end while another thread is
/// between two steps, and the folder would stay.
#[derive(Debug)]
struct FolderRegistry(Mutex<Folders>);

#[derive(Debug)]
struct Folders {
    is_closed: bool,
    paths: BTreeSet<PathBuf>,
}

impl FolderRegistry {
    const fn new() -> Self {
        Self(Mutex::new(Folders { is_closed: false, paths: BTreeSet::new() }))
    }

    /// Removes all folders and lets no other be created.
    fn close(&self) {
        let mut folders = self.folders();
        folders.is_closed = true;
        for path in std::mem::take(&mut folders.paths) {
            fs_err::remove_dir_all(path).ok();
        }
    }

    fn folders(&self) -> MutexGuard<'_, Folders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stand-in of one repository.
#[derive(Debug)]
pub(super) struct IsolatedCommonDir {
    path: PathBuf,
    registry: &'static FolderRegistry,
    /// Closed by the system when this program ends in whatever way; programs it starts do not get it.
    _lock: OwnedFd,
}

impl IsolatedCommonDir {
    /// Creates the folder for the repository whose shared folder is `common_dir`.
    pub(super) fn create(common_dir: &Path, format_file: &str) -> io::Result<Self> {
        let created = Self::create_in(None, &FOLDERS, common_dir, format_file)?;
        if let Some(parent) = created.path.parent() {
            SWEEP.call_once(|| remove_abandoned_folders(parent));
        }
        Ok(created)
    }

    /// Creates it below `parent`, by default in the system's folder for temporary files.
    fn create_in(
        parent: Option<&Path>,
        registry: &'static FolderRegistry,
        common_dir: &Path,
        format_file: &str,
    ) -> io::Result<Self> {
        let mut folders = registry.folders();
        if folders.is_closed {
            return Err(io::Error::other("this program ends"));
        }
        // Removed again under the lock if a step fails.
        let (folder, lock) = create_locked_folder(parent)?;
        let existing = EXISTING.iter().filter(|name| common_dir.join(name).is_dir());
        for name in ALWAYS.iter().chain(existing) {
            symlink(common_dir.join(name), folder.path().join(name))?;
        }
        fs_err::write(folder.path().join("config"), format_file)?;
        let path = folder.keep();
        folders.paths.insert(path.clone());
        Ok(Self { path, registry, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for IsolatedCommonDir {
    fn drop(&mut self) {
        let mut folders = self.registry.folders();
        if folders.paths.remove(&self.path) {
            fs_err::remove_dir_all(&self.path).ok();
        }
    }
}

/// Removes the folders of all commands: the program ends.
pub(super) fn remove_folders() {
    FOLDERS.close();
}

/// Another program may take a folder for abandoned before it is locked: then it is made again.
fn create_locked_folder(parent: Option<&Path>) -> io::Result<(TempDir, OwnedFd)> {
    loop {
        let closed = Permissions::from_mode(0o700);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(closed);
        let folder = match parent {
            Some(parent) => builder.tempdir_in(parent)?,
            None => builder.tempdir()?,
        };
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

    /// A thread that is between two steps when the program ends must not leave its folder.
    #[test]
    fn no_folder_is_left_when_the_program_ends_while_threads_use_them() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..100 {
            let registry: &'static FolderRegistry = Box::leak(Box::new(FolderRegistry::new()));
            let (parent, common_dir) = (Some(dir.path()), Path::new("/none"));
            let create = || IsolatedCommonDir::create_in(parent, registry, common_dir, "");
            std::thread::scope(|scope| {
                let (started, is_started) = std::sync::mpsc::channel();
                for _ in 0..4 {
                    let started = started.clone();
                    scope.spawn(move || {
                        while let Ok(folder) = create() {
                            drop(folder);
                            started.send(()).ok();
                        }
                    });
                }
                is_started.recv().unwrap();
                registry.close();
                let left: Vec<_> = fs_err::read_dir(dir.path()).unwrap().flatten().collect();
                assert!(left.is_empty(), "{left:?}");
            });
        }
    }

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
