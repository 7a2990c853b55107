//! What is done to names: files, links and directories made, moved and removed.
//!
//! Every function works on open directories, so nothing is reached through a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use fail::fail_point;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::{FileStat, WorktreeDir};

/// A name in an open directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameInDir<'d> {
    pub(crate) dir: &'d WorktreeDir,
    pub(crate) name: &'d [u8],
}

/// Comes before every change of the worktree, so that tests can stop or fail each of them.
pub(crate) fn before_write() -> io::Result<()> {
    fail_point!("snapshot::touch", |_| Err(Errno::IO.into()));
    Ok(())
}

impl NameInDir<'_> {
    fn os(&self) -> &OsStr {
        OsStr::from_bytes(self.name)
    }

    /// Moves this name to one that must not exist.
    pub(crate) fn rename_no_replace(self, to: NameInDir<'_>) -> io::Result<()> {
        before_write()?;
        fail_point!("snapshot::no_flags", |_| self.link_then_unlink(to));
        match self.rename(to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => self.link_then_unlink(to),
            done => Ok(done?),
        }
    }

    /// Renames on file systems without the flag: a second link never replaces a name that exists.
    fn link_then_unlink(self, to: NameInDir<'_>) -> io::Result<()> {
        self.link(to)?;
        self.unlink().inspect_err(|_| {
            to.unlink().ok();
        })
    }

    /// Lets two names change places; false if the file system cannot do that.
    pub(crate) fn exchange(self, other: NameInDir<'_>) -> io::Result<bool> {
        before_write()?;
        fail_point!("snapshot::no_exchange", |_| Ok(false));
        fail_point!("snapshot::no_flags", |_| Ok(false));
        match self.rename(other, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the file a second name that must not exist.
    pub(crate) fn link(self, to: NameInDir<'_>) -> io::Result<()> {
        before_write()?;
        let (old, new) = (&self.dir.0, &to.dir.0);
        Ok(rustix::fs::linkat(old, self.os(), new, to.os(), AtFlags::empty())?)
    }

    fn rename(self, to: NameInDir<'_>, flags: RenameFlags) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.dir.0, self.os(), &to.dir.0, to.os(), flags)
    }

    /// Removes a file or a link.
    pub(crate) fn unlink(self) -> io::Result<()> {
        before_write()?;
        Ok(rustix::fs::unlinkat(&self.dir.0, self.os(), AtFlags::empty())?)
    }

    /// Makes a file that did not exist, open to its owner only.
    pub(crate) fn create_file(self) -> io::Result<File> {
        before_write()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = rustix::fs::openat(&self.dir.0, self.os(), flags | OFlags::CLOEXEC, mode)?;
        Ok(File::from(fd))
    }

    /// Makes a link that did not exist.
    pub(crate) fn create_link(self, target: &[u8]) -> io::Result<()> {
        before_write()?;
        Ok(rustix::fs::symlinkat(OsStr::from_bytes(target), &self.dir.0, self.os())?)
    }

    /// Makes a directory; one that exists is good enough. True if it was made.
    pub(crate) fn create_dir(self) -> io::Result<bool> {
        before_write()?;
        match rustix::fs::mkdirat(&self.dir.0, self.os(), Mode::from_raw_mode(0o777)) {
            Ok(()) => self.apply_user_umask().map(|()| true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a new directory the mode the user's mask leaves, if this process runs with another one.
    fn apply_user_umask(self) -> io::Result<()> {
        let Some(mask) = WORKTREE_MASK.get() else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.dir.0, self.os(), flags, Mode::empty())?;
        // The group bit may be inherited.
        let inherited = rustix::fs::fstat(&dir)?.st_mode & 0o7000;
        Ok(rustix::fs::fchmod(&dir, Mode::from_raw_mode(inherited | (0o777 & !mask)))?)
    }

    /// Sets the permission bits of a directory; a link is refused.
    pub(crate) fn set_dir_perm(self, perm: u32) -> io::Result<()> {
        before_write()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.dir.0, self.os(), flags, Mode::empty())?;
        // A directory that its owner may not read cannot be opened to be changed, but its name can.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir));
        Ok(rustix::fs::chmod(path, Mode::from_raw_mode(perm & 0o7777))?)
    }

    /// Removes a directory if it is empty; false if it is not.
    pub(crate) fn remove_empty_dir(self) -> io::Result<bool> {
        before_write()?;
        match rustix::fs::unlinkat(&self.dir.0, self.os(), AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file to be written in place.
    pub(crate) fn open_to_write(self) -> io::Result<(File, FileStat)> {
        self.dir.open(self.name, OFlags::RDWR | OFlags::NONBLOCK)
    }
}

/// The user's file mode mask, if the process runs with another one.
static WORKTREE_MASK: OnceLock<u32> = OnceLock::new();

/// Says which mask new directories of a worktree get, for a process that closes its own files.
pub fn set_worktree_mask(mask: u32) {
    WORKTREE_MASK.get_or_init(|| mask);
}

/// Sets the permission bits of an open file.
pub(crate) fn set_perm(file: &File, perm: u32) -> io::Result<()> {
    before_write()?;
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(perm & 0o7777))?)
}

/// Gives `to` the owner, group and extended attributes of `from`, access lists among them (R18).
pub(crate) fn copy_metadata(from: &File, to: &File) -> io::Result<()> {
    before_write()?;
    let (old, new) = (rustix::fs::fstat(from)?, rustix::fs::fstat(to)?);
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid) {
        let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        rustix::fs::fchown(to, Some(uid), Some(gid))?;
    }
    let mut names = vec![0; 64 << 10];
    let length = match rustix::fs::flistxattr(from, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::fgetxattr(from, name, &mut value[..])?;
        rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

/// Waits until everything on the file system of `dir` is durable.
pub(crate) fn sync_file_system(dir: &WorktreeDir) -> io::Result<()> {
    Ok(rustix::fs::syncfs(dir.0.as_fd())?)
}
