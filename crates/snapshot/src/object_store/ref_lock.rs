//! Locks as git takes them, so that `git gc` and we do not undo each other's work on references.
//!
//! A lock is a second name, `NAME.lock`, of one of our temporary files: after a crash the file
//! that still has both names tells which lock was ours and may go.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::pack_writer::{TEMP_PREFIX, random_hex};

/// How often and at which interval another program's lock is tried.
const LOCK_ATTEMPTS: usize = 500;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A file that is about to take the place of another one. Dropped, it leaves nothing behind.
pub(super) struct DraftFile {
    temp: PathBuf,
    file: fs_err::File,
}

/// The right to replace or remove a file.
pub(super) struct RefLock {
    draft: DraftFile,
    target: PathBuf,
    lock: PathBuf,
}

impl DraftFile {
    /// Creates an empty file below the git directory, where git does not look.
    pub(super) fn new(git_dir: &Path) -> io::Result<Self> {
        let temp = git_dir.join(format!("{TEMP_PREFIX}{}", random_hex()?));
        let file = fs_err::File::create_new(&temp)?;
        Ok(Self { temp, file })
    }

    /// Writes its content, durably.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()
    }

    /// Takes the lock of `target`, whose folder is made if git found it empty and removed it.
    pub(super) fn lock(self, target: &Path) -> io::Result<RefLock> {
        let mut lock = target.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let folder = target.parent().ok_or_else(|| io::Error::other("a file without a folder"))?;
        let mut last = io::Error::from(io::ErrorKind::WouldBlock);
        for _ in 0..LOCK_ATTEMPTS {
            match fs_err::hard_link(&self.temp, &lock) {
                Ok(()) => return Ok(RefLock { draft: self, target: target.to_owned(), lock }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs_err::create_dir_all(folder)?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    std::thread::sleep(LOCK_RETRY_PAUSE);
                    last = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

impl RefLock {
    /// Writes the content, durably; what it depends on can be read now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.draft.write(bytes)
    }

    /// Lets the content take its place. The caller makes the folder durable.
    pub(super) fn commit(self) -> io::Result<()> {
        fs_err::rename(&self.lock, &self.target)
    }

    /// Removes the file; one that is not there is good enough.
    pub(super) fn remove(self) -> io::Result<()> {
        remove(&self.target)
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        // What cannot be removed now is swept at the next open.
        drop(remove(&self.temp));
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        drop(remove(&self.lock));
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes locks in `folders` that are second names of drafts which sudden death left.
pub(super) fn remove_stale_locks(git_dir: &Path, folders: &[&Path]) -> io::Result<()> {
    let mut left = Vec::new();
    for entry in fs_err::read_dir(git_dir)? {
        let entry = entry?;
        let is_draft = entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX);
        let meta = entry.metadata()?;
        if is_draft && meta.is_file() && meta.nlink() > 1 {
            left.push((meta.dev(), meta.ino()));
        }
    }
    for folder in folders.iter().filter(|_| !left.is_empty()) {
        for entry in fs_err::read_dir(folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            let is_lock = entry.file_name().to_string_lossy().ends_with(".lock");
            if is_lock && left.contains(&(meta.dev(), meta.ino())) {
                remove(&entry.path())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_own_lock_is_removed_and_foreign_lock_stays() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DraftFile::new(dir.path()).unwrap().lock(&dir.path().join("refs/ours")).unwrap();
        std::mem::forget(lock);
        let refs = dir.path().join("refs");
        fs_err::write(refs.join("gits.lock"), "").unwrap();

        remove_stale_locks(dir.path(), &[&refs]).unwrap();

        assert!(!refs.join("ours.lock").exists() && refs.join("gits.lock").exists());
        assert!(DraftFile::new(dir.path()).unwrap().lock(&refs.join("ours")).is_ok());
        assert!(!refs.join("ours.lock").exists());
    }
}
