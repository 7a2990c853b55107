//! What the kernel reports of a file without opening it.

use rustix::fs::FileType;

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A file with bytes.
    File,
    /// A symbolic link.
    Link,
    /// A directory.
    Directory,
    /// A pipe, a socket or a device.
    Special,
}

/// The facts by which an unchanged file is recognised, and its permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub(crate) kind: FileKind,
    /// Permission bits: the lower twelve.
    pub(crate) perm: u32,
    pub(crate) size: u64,
    /// Nanoseconds since the epoch.
    pub(crate) mtime: i64,
    /// Nanoseconds since the epoch; the kernel sets it at every change, and no program can set it back.
    pub(crate) ctime: i64,
    pub(crate) ino: u64,
    pub(crate) dev: u64,
    pub(crate) nlink: u64,
}

impl FileStat {
    /// Describes an open file.
    pub(crate) fn of(file: &std::fs::File) -> std::io::Result<Self> {
        Ok(Self::from(&rustix::fs::fstat(file)?))
    }

    /// True if the file may be run by its owner, which is all git remembers of its bits.
    pub(crate) fn is_executable(&self) -> bool {
        self.perm & 0o100 != 0
    }

    /// True if both describe the same, unchanged file.
    pub(crate) fn is_unchanged(&self, other: &Self) -> bool {
        Self { nlink: 0, ..*self } == Self { nlink: 0, ..*other }
    }
}

impl From<&rustix::fs::Stat> for FileStat {
    fn from(stat: &rustix::fs::Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Symlink => FileKind::Link,
            FileType::Directory => FileKind::Directory,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => FileKind::Special,
        };
        Self {
            kind,
            perm: stat.st_mode & 0o7777,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            mtime: nanos(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
            ctime: nanos(stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default()),
            ino: stat.st_ino,
            dev: stat.st_dev,
            nlink: stat.st_nlink,
        }
    }
}

fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
