//! One writer per file, across sessions and processes: the kernel's lock, freed at death.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::TryLockError;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use turnstone_store::BlobHash;

use super::error::FileError;

/// How often a lock file is opened that its previous holder removes at the same moment.
const MAX_OPEN_ATTEMPTS: u32 = 1_000;

/// The right to write some files, until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    /// By the name of the lock, so that everybody takes several in the same order.
    held: BTreeMap<PathBuf, fs_err::File>,
}

impl FileLock {
    /// True if this lock is on a file, by its real path.
    pub(super) fn is_on(&self, file: &Path) -> bool {
        let name = OsString::from(lock_name(file));
        self.held.keys().any(|held| held.file_name() == Some(&name))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        for path in self.held.keys() {
            // The name goes while the lock is held; a process that waits for it opens a new one.
            fs_err::remove_file(path).ok();
        }
    }
}

/// Locks files, each by a lock file in `folder`, all or none; it never waits.
///
/// # Errors
///
/// [`FileError::Locked`] if another process or turn holds one.
pub(super) fn try_lock_files(
    folder: &Path,
    files: &BTreeSet<PathBuf>,
) -> Result<FileLock, FileError> {
    fs_err::create_dir_all(folder)?;
    let mut lock = FileLock { held: BTreeMap::new() };
    for file in files {
        let name = folder.join(lock_name(file));
        let held = try_lock(&name)?.ok_or_else(|| FileError::Locked { path: file.clone() })?;
        lock.held.insert(name, held);
    }
    Ok(lock)
}

fn lock_name(file: &Path) -> String {
    BlobHash::of(file.as_os_str().as_bytes()).hex()
}

/// Takes one lock; `None` if somebody else holds it.
fn try_lock(name: &Path) -> io::Result<Option<fs_err::File>> {
    for _ in 0..MAX_OPEN_ATTEMPTS {
        let mut options = fs_err::OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(name)?;
        match file.file().try_lock() {
            Ok(()) if is_same_file(&file, name)? => return Ok(Some(file)),
            // The previous holder removed the name: this lock protects nothing.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

fn is_same_file(file: &fs_err::File, name: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs_err::metadata(name) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
