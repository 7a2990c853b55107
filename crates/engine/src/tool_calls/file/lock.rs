//! One writer per file, across sessions and processes: the kernel's lock, freed at death.

use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use turnstone_store::BlobHash;

use super::error::FileError;

/// The pause between two attempts to lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(4);
/// How many attempts there are before the caller gets an error.
const MAX_LOCK_ATTEMPTS: u32 = 7_500;

/// The right to write some files, until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    /// By the name of the lock, so that everybody takes several in the same order.
    held: BTreeMap<PathBuf, fs_err::File>,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        for path in self.held.keys() {
            // The name goes while the lock is held; a process that waits for it opens a new one.
            fs_err::remove_file(path).ok();
        }
    }
}

/// Locks files, each by a lock file in `folder`, in the order of their names.
pub(super) fn lock_files(folder: &Path, files: &[PathBuf]) -> Result<FileLock, FileError> {
    fs_err::create_dir_all(folder)?;
    let names: BTreeMap<PathBuf, &PathBuf> =
        files.iter().map(|file| (folder.join(lock_name(file)), file)).collect();
    let mut lock = FileLock { held: BTreeMap::new() };
    for (name, file) in names {
        let held = acquire_lock(&name)?.ok_or_else(|| FileError::Locked { path: file.clone() })?;
        lock.held.insert(name, held);
    }
    Ok(lock)
}

fn lock_name(file: &Path) -> String {
    BlobHash::of(file.as_os_str().as_bytes()).hex()
}

/// Takes one lock; `None` if another process holds it for too long.
fn acquire_lock(name: &Path) -> io::Result<Option<fs_err::File>> {
    for _ in 0..MAX_LOCK_ATTEMPTS {
        let mut options = fs_err::OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(name)?;
        match file.file().try_lock() {
            Ok(()) if is_same_file(&file, name)? => return Ok(Some(file)),
            // The previous holder removed the name: this lock protects nothing.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY_INTERVAL),
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
