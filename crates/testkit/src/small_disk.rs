//! A disk that can really be full: a tmpfs of a few megabytes, mounted for one test.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Set for a test that runs in a mount namespace of its own.
const IN_NAMESPACE: &str = "TURNSTONE_TEST_IN_NAMESPACE";

/// A mounted disk of its own size; unmounted and removed when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    /// Removed after the unmount: fields are dropped after [`Drop::drop`] has run.
    _dir: TempDir,
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of `kib` KiB.
    ///
    /// A user who may not mount one gets a mount namespace: the calling test is run once more in there,
    /// and `None` says that it passed and the caller has nothing left to do.
    ///
    /// # Errors
    ///
    /// The directory cannot be made, neither way is open to this user, or the second run failed.
    pub fn mount(kib: u64) -> io::Result<Option<Self>> {
        Self::mount_tmpfs(&format!("size={kib}k,mode=0700"))
    }

    /// Mounts a disk for so many files and directories, its root among them.
    ///
    /// # Errors
    ///
    /// As [`Self::mount`].
    pub fn mount_for_files(files: u64) -> io::Result<Option<Self>> {
        Self::mount_tmpfs(&format!("size=4096k,nr_inodes={files},mode=0700"))
    }

    fn mount_tmpfs(options: &str) -> io::Result<Option<Self>> {
        let dir = tempfile::Builder::new().prefix("turnstone-disk-").tempdir()?;
        let path = fs_err::canonicalize(dir.path())?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path);
        let mounted = command.stdin(Stdio::null()).output()?;
        if mounted.status.success() {
            return Ok(Some(Self { _dir: dir, path }));
        }
        let reason = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
        if std::env::var_os(IN_NAMESPACE).is_some() {
            return Err(io::Error::other(format!("cannot mount a small disk: {reason}")));
        }
        run_test_in_namespace(&reason).map(|()| None)
    }

    /// The directory the disk is mounted on.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes to `filler` on the disk until no byte is left.
    ///
    /// # Errors
    ///
    /// A write fails for another reason than the full disk.
    pub fn fill(&self) -> io::Result<()> {
        self.fill_leaving(0)
    }

    /// The same, and then leaves `bytes` free, in whole pages.
    ///
    /// # Errors
    ///
    /// As [`Self::fill`].
    pub fn fill_leaving(&self, bytes: u64) -> io::Result<()> {
        let mut file =
            fs_err::OpenOptions::new().create(true).append(true).open(self.filler_path())?;
        let block = [b'x'; 4096];
        let mut len = file.metadata()?.len();
        loop {
            match file.write(&block) {
                Ok(written) => len += written as u64,
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
        file.set_len(len.saturating_sub(bytes))
    }

    /// Removes what [`Self::fill`] wrote.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn free(&self) -> io::Result<()> {
        fs_err::remove_file(self.filler_path())
    }

    fn filler_path(&self) -> PathBuf {
        self.path.join("filler")
    }
}

/// Runs the test of the calling thread again, as root of a new mount namespace.
fn run_test_in_namespace(denied: &str) -> io::Result<()> {
    let test = std::thread::current();
    let name = test.name().ok_or_else(|| io::Error::other("the thread is not that of a test"))?;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe()?);
    command.args(["--exact", name, "--nocapture"]).env(IN_NAMESPACE, "1").stdin(Stdio::null());
    let ran = command.output()?;
    let out = String::from_utf8_lossy(&ran.stdout);
    match ran.status.success() && out.contains("1 passed") {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "this test needs a small disk: run it as a user who may mount a tmpfs ({denied}) or use \
             user namespaces:\n{out}{}",
            String::from_utf8_lossy(&ran.stderr)
        ))),
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A process that still has a file open there keeps the disk until it ends.
        drop(Command::new("umount").arg("--lazy").arg(&self.path).stdin(Stdio::null()).output());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_disk_is_full_and_can_be_freed() {
        let Some(disk) = SmallDisk::mount(1024).expect("mounts") else { return };
        disk.fill().expect("filled");
        let full = fs_err::write(disk.path().join("more"), [1]).expect_err("full");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        disk.free().expect("freed");
        fs_err::write(disk.path().join("more"), [1]).expect("written");
        let place = disk.path().to_owned();
        drop(disk);
        assert!(!place.exists());
    }
}
