//! One directory of the worktree, held open: what is done to the names in it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::{FileKind, FileStat, birth_time_of};

/// A name found in a directory.
#[derive(Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: Vec<u8>,
}

/// The names of a directory, in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct DirectoryNames {
    bytes: Vec<u8>,
    spans: Vec<(u32, u32, Option<FileKind>)>,
}

impl DirectoryNames {
    fn push(&mut self, name: &[u8], kind: rustix::fs::FileType) {
        if matches!(name, b"." | b"..") {
            return;
        }
        // No directory's names fill four gigabytes.
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.spans.push((from, self.bytes.len() as u32, kind_of(kind)));
    }

    /// The names, in no order, and their kinds according to the listing.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<FileKind>)> {
        let name = |&(from, to, kind)| (&self.bytes[from as usize..to as usize], kind);
        self.spans.iter().map(name)
    }
}

/// A directory that was reached without following a link.
///
/// Every method takes one plain name; the caller has it from a [`crate::RelPath`] or a listing.
#[derive(Debug)]
pub(crate) struct WorktreeDir(pub(super) OwnedFd);

impl WorktreeDir {
    /// Describes a name; `None` if it is not there.
    pub(crate) fn stat(&self, name: &[u8]) -> io::Result<Option<FileStat>> {
        match rustix::fs::statat(&self.0, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileStat::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the names, in no order.
    pub(crate) fn list(&self) -> io::Result<Vec<DirectoryEntry>> {
        let names = self.names()?;
        Ok(names.iter().map(|(name, _)| DirectoryEntry { name: name.to_vec() }).collect())
    }

    /// Lists the names of a directory just opened, without a piece of memory for each.
    #[cfg(target_os = "linux")]
    pub(crate) fn names(&self) -> io::Result<DirectoryNames> {
        let mut names = DirectoryNames::default();
        let mut buffer = vec![std::mem::MaybeUninit::uninit(); 1 << 15];
        let mut listing = rustix::fs::RawDir::new(&self.0, &mut buffer);
        while let Some(entry) = listing.next() {
            let entry = entry?;
            names.push(entry.file_name().to_bytes(), entry.file_type());
        }
        Ok(names)
    }

    /// Lists the names of a directory just opened.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn names(&self) -> io::Result<DirectoryNames> {
        let mut names = DirectoryNames::default();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            names.push(entry.file_name().to_bytes(), entry.file_type());
        }
        Ok(names)
    }

    /// Opens a file for reading; a link is refused, and a pipe does not make it wait.
    pub(crate) fn open_file(&self, name: &[u8]) -> io::Result<(File, FileStat)> {
        self.open(name, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    pub(super) fn open(&self, name: &[u8], flags: OFlags) -> io::Result<(File, FileStat)> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, Mode::empty())?;
        let stat = FileStat::from(&rustix::fs::fstat(&fd)?);
        if stat.kind != FileKind::File {
            return Err(io::Error::other("not a regular file"));
        }
        Ok((File::from(fd), stat))
    }

    /// The permission bits of the directory itself.
    pub(crate) fn permission_bits(&self) -> io::Result<u32> {
        Ok(FileStat::from(&rustix::fs::fstat(&self.0)?).perm)
    }

    /// When a name was created, in nanoseconds, if the file system records it.
    pub(crate) fn birth_time(&self, name: &[u8]) -> Option<i64> {
        birth_time_of(&self.0, Path::new(OsStr::from_bytes(name)), AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Why the kernel would refuse a write to this directory, or to a name in it; `None` if it would not,
    /// or does not tell.
    pub(crate) fn refuses_write(&self, name: Option<&[u8]>) -> Option<Errno> {
        let access = match name {
            Some(_) => Access::WRITE_OK,
            None => Access::WRITE_OK | Access::EXEC_OK,
        };
        let flags = AtFlags::EACCESS;
        let name = OsStr::from_bytes(name.unwrap_or(b"."));
        // A link has no bits of its own, and where it leads must not matter.
        let flags = flags | AtFlags::SYMLINK_NOFOLLOW;
        let refused = rustix::fs::accessat(&self.0, name, access, flags).err();
        refused.or_else(|| self.is_append_only(name).then_some(Errno::PERM))
    }

    /// True if a file or directory may only grow (`chattr +a`): it is neither replaced nor removed.
    fn is_append_only(&self, name: &OsStr) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statx(&self.0, name, flags, StatxFlags::empty());
        stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::APPEND))
    }

    /// True if a name belongs to another user, so that only they, or root, may change its bits.
    pub(crate) fn belongs_to_another_user(&self, name: &[u8]) -> bool {
        let user = rustix::process::geteuid();
        let found = rustix::fs::statat(&self.0, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW);
        !user.is_root() && found.is_ok_and(|stat| stat.st_uid != user.as_raw())
    }

    /// Reads where a link points.
    pub(crate) fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.0, OsStr::from_bytes(name), Vec::new())?.into_bytes())
    }

    /// Waits until the names in this directory are durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// The handle, to be watched.
    #[cfg(target_os = "linux")]
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// True if it lies on this device.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_on_device(&self, device: u64) -> bool {
        rustix::fs::fstat(&self.0).is_ok_and(|stat| stat.st_dev == device)
    }

    /// True if its file system is one of these kinds.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_on_file_system(&self, kinds: &[u64]) -> bool {
        let kind = rustix::fs::fstatfs(&self.0).ok().and_then(|it| u64::try_from(it.f_type).ok());
        kind.is_some_and(|kind| kinds.contains(&kind))
    }

    /// Opens a directory in this one; a link is refused.
    pub(crate) fn open_dir(&self, name: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.0, OsStr::from_bytes(name), flags, Mode::empty())?;
        Ok(Self(fd))
    }
}

fn kind_of(kind: rustix::fs::FileType) -> Option<FileKind> {
    match kind {
        rustix::fs::FileType::RegularFile => Some(FileKind::File),
        rustix::fs::FileType::Symlink => Some(FileKind::Link),
        rustix::fs::FileType::Directory => Some(FileKind::Directory),
        rustix::fs::FileType::Unknown => None,
        rustix::fs::FileType::Fifo
        | rustix::fs::FileType::Socket
        | rustix::fs::FileType::CharacterDevice
        | rustix::fs::FileType::BlockDevice => Some(FileKind::Special),
    }
}
