//! One directory of the worktree, held open: what is done to the names in it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Kind, Stat};

/// A name found in a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    /// What the listing said it is; unknown on file systems that do not say.
    pub(crate) kind: Option<Kind>,
}

/// A directory that was reached without following a link.
///
/// Every method takes one plain name; the caller has it from a [`crate::RelPath`] or a listing.
#[derive(Debug)]
pub(crate) struct Dir(pub(super) OwnedFd);

impl Dir {
    /// Describes a name; nothing if it is not there.
    pub(crate) fn stat(&self, name: &[u8]) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.0, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Stat::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the names, in no order.
    pub(crate) fn list(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                rustix::fs::FileType::RegularFile => Some(Kind::File),
                rustix::fs::FileType::Symlink => Some(Kind::Link),
                rustix::fs::FileType::Directory => Some(Kind::Directory),
                rustix::fs::FileType::Unknown => None,
                rustix::fs::FileType::Fifo
                | rustix::fs::FileType::Socket
                | rustix::fs::FileType::CharacterDevice
                | rustix::fs::FileType::BlockDevice => Some(Kind::Special),
            };
            entries.push(Entry { name: name.to_vec(), kind });
        }
        Ok(entries)
    }

    /// Opens a file for reading; a link is refused, and a pipe does not make it wait.
    pub(crate) fn open_file(&self, name: &[u8]) -> io::Result<(File, Stat)> {
        self.open(name, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    pub(super) fn open(&self, name: &[u8], flags: OFlags) -> io::Result<(File, Stat)> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, Mode::empty())?;
        let stat = Stat::from(&rustix::fs::fstat(&fd)?);
        if stat.kind != Kind::File {
            return Err(io::Error::other("not a regular file"));
        }
        Ok((File::from(fd), stat))
    }

    /// Reads where a link points.
    pub(crate) fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.0, OsStr::from_bytes(name), Vec::new())?.into_bytes())
    }

    /// Waits until the names in this directory are durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Opens a directory in this one; a link is refused.
    pub(crate) fn open_dir(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, Mode::empty())?;
        Ok(Self(fd))
    }
}
