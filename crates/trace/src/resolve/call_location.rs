//! A place in the file system: an open directory and a name in it.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, StatxTimestamp, makedev, open, openat,
    readlinkat, statx,
};
use rustix::io::Errno;

use crate::log::{TouchParent, TouchTarget};

/// Why a path does not lead to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// Part of the path does not exist or is no directory: the call itself fails.
    Absent,
    /// This process may not search a directory of the path.
    Denied,
    /// The process is gone.
    Gone,
    /// The file has no name, or cannot be seen from here.
    Nameless,
    /// The file lies on a file system that stores its files in another one, and that is mounted only in the
    /// tree.
    NestedFileSystem,
    /// Anything else.
    Unresolved,
}

impl From<Errno> for ResolveError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::BADF => Self::Absent,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::SRCH => Self::Gone,
            _ => Self::Unresolved,
        }
    }
}

/// What is known of a file from one look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileState(Statx);

const WANTED: StatxFlags =
    StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

impl FileState {
    /// Looks at an open file.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Errno> {
        statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, WANTED).map(Self)
    }

    /// Looks at a name without following it; `None` if it is absent.
    pub(crate) fn find(directory: impl AsFd, name: &OsStr) -> Result<Option<Self>, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match statx(directory, name, flags, WANTED) {
            Ok(found) => Ok(Some(Self(found))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(u32::from(self.0.stx_mode))
    }

    pub(crate) fn mode(&self) -> u32 {
        u32::from(self.0.stx_mode)
    }

    pub(crate) fn links(&self) -> u32 {
        self.0.stx_nlink
    }

    pub(crate) fn device(&self) -> u64 {
        makedev(self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    pub(crate) fn mount(&self) -> u64 {
        self.0.stx_mnt_id
    }

    /// Tells whether both are the same file, by device and inode.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.device() == other.device() && self.0.stx_ino == other.0.stx_ino
    }

    /// Tells whether both are the same file reached by the same mount.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        self.is_same_file(other) && self.mount() == other.mount()
    }

    fn born(&self) -> Option<i64> {
        let is_known = self.0.stx_mask & StatxFlags::BTIME.bits() != 0;
        is_known.then(|| nanoseconds(self.0.stx_btime))
    }

    pub(crate) fn to_directory_identity(self) -> TouchParent {
        TouchParent { device: self.device(), inode: self.0.stx_ino, born: self.born() }
    }

    pub(crate) fn to_target(self) -> TouchTarget {
        TouchTarget {
            device: self.device(),
            inode: self.0.stx_ino,
            born: self.born(),
            links: self.links(),
            is_directory: self.file_type() == FileType::Directory,
            size: self.0.stx_size,
            modified: nanoseconds(self.0.stx_mtime),
            changed: nanoseconds(self.0.stx_ctime),
        }
    }
}

fn nanoseconds(time: StatxTimestamp) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec))
}

/// Where a call takes effect.
#[derive(Debug)]
pub(crate) struct CallLocation {
    /// The path of the directory, as this process has it.
    pub(crate) directory: PathBuf,
    pub(crate) parent: TouchParent,
    pub(crate) name: OsString,
    /// What is there; `None` if nothing is.
    pub(crate) target: Option<FileState>,
}

impl CallLocation {
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// Opens a directory only to name it, by a path of this process.
pub(crate) fn open_directory(path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a name only to look at it; a link itself, not what it leads to.
pub(crate) fn open_name(directory: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

thread_local! {
    /// `/proc/self/fd` of the process with this number: a forked one has its own.
    static OWN_FILES: RefCell<Option<(u32, OwnedFd)>> = const { RefCell::new(None) };
    /// `/proc/<pid>` of the process that was looked at last: most calls come from the one before.
    static LAST_PROCESS: RefCell<Option<(u32, OwnedFd)>> = const { RefCell::new(None) };
}

/// Returns the path of an open file, as the kernel writes it for this process.
///
/// # Errors
///
/// [`Errno::OVERFLOW`] if the path is too long for the kernel to write. The file is there all the same, which the
/// error of a call with too long a name would deny.
pub(crate) fn path_of(file: BorrowedFd<'_>) -> Result<OsString, Errno> {
    use std::os::unix::ffi::OsStringExt;
    let link = OWN_FILES.with_borrow_mut(|files| {
        let own = std::process::id();
        if files.as_ref().is_none_or(|(pid, _)| *pid != own) {
            *files = Some((own, open_directory("/proc/self/fd")?));
        }
        let (_, files) = files.as_ref().ok_or(Errno::IO)?;
        readlinkat(files, file.as_raw_fd().to_string(), Vec::new())
    });
    let link = link.map_err(|errno| match errno {
        Errno::NAMETOOLONG => Errno::OVERFLOW,
        errno => errno,
    })?;
    Ok(OsString::from_vec(link.into_bytes()))
}

/// Opens an entry of a process in `/proc`, only to name it or to look at it.
pub(crate) fn open_in_proc(pid: u32, entry: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let open = |folder: &OwnedFd| {
        openat(folder, entry, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    };
    LAST_PROCESS.with_borrow_mut(|last| {
        if let Some((_, folder)) = last.as_ref().filter(|(known, _)| *known == pid) {
            match open(folder) {
                // That process may have ended, and another one have its number.
                Err(Errno::SRCH | Errno::NOENT) => {}
                found => return found,
            }
        }
        let folder = open_directory(format!("/proc/{pid}"))?;
        let found = open(&folder);
        *last = Some((pid, folder));
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is deeper than the kernel can name it: what is written in it must not look absent.
    #[test]
    fn overlong_path_is_unresolved_and_not_absent() {
        let top = tempfile::tempdir().unwrap();
        let mut directory = open_directory(top.path()).unwrap();
        let name = "n".repeat(200);
        for _ in 0..30 {
            rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            directory = openat(&directory, &name, flags, Mode::empty()).unwrap();
        }

        let found = path_of(directory.as_fd()).map_err(ResolveError::from);

        assert_eq!(found, Err(ResolveError::Unresolved));
    }
}
