//! The root of a worktree: which directories may be one, and how to get below it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use turnstone_core::model::FileIdentity;

use super::{FileStat, WorktreeDir};
use crate::path::RelPath;

/// Directories of the system, of all its users or of everybody's temporary files: never one project.
const SYSTEM_DIRECTORIES: [&str; 22] = [
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/proc", "/root",
    "/run", "/sbin", "/sys", "/tmp", "/usr", "/var", "/var/tmp", "/Users", "/Volumes", "/System",
    "/Library",
];

/// Which directories are refused as a root unless they were asked for by name.
#[derive(Clone, Debug, Default)]
pub struct RootPolicy {
    /// The user's home directory, as the caller knows it.
    pub home: Option<PathBuf>,
    /// True if a person named this very directory: then nothing is refused.
    pub by_name: bool,
}

impl RootPolicy {
    /// True if a real path is refused: nothing below it belongs to it either.
    #[must_use]
    pub fn refuses(&self, real: &Path) -> bool {
        let home = self.home.as_ref().map(fs_err::canonicalize);
        // What holds the home directory is larger still.
        let is_home = matches!(&home, Some(Ok(home)) if home.starts_with(real));
        let is_system = SYSTEM_DIRECTORIES.iter().any(|system| real == Path::new(system));
        !self.by_name && (is_home || is_system || real.parent().is_none())
    }
}

/// Why a directory is not the root of a worktree. Nothing has been read or written.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It is the home directory, something above it, the root of the file system or a directory of
    /// the system, and the caller did not ask for that.
    #[error("{0} is not captured automatically, because it is too large")]
    Refused(PathBuf),
    /// It is not a directory, or cannot be opened.
    #[error("{path} cannot be opened as a directory")]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// It was replaced by another directory since it was opened.
    #[error("{0} is no longer the directory that was opened")]
    Replaced(PathBuf),
}

/// A worktree, held open: the directory everything else is relative to.
#[derive(Debug)]
pub struct Worktree {
    path: PathBuf,
    root: WorktreeDir,
    stat: FileStat,
    /// False once the kernel refused `openat2`; then each part of a path is opened separately.
    has_openat2: AtomicBool,
}

impl Worktree {
    /// Opens the directory at `path`, resolved once.
    ///
    /// # Errors
    ///
    /// See [`RootError`].
    pub fn open(path: &Path, policy: &RootPolicy) -> Result<Self, RootError> {
        let unusable = |source| RootError::Unusable { path: path.to_owned(), source };
        let real = fs_err::canonicalize(path).map_err(unusable)?;
        if policy.refuses(&real) {
            return Err(RootError::Refused(real));
        }
        let (root, stat) = open_root(&real).map_err(unusable)?;
        Ok(Self { path: real, root: WorktreeDir(root), stat, has_openat2: AtomicBool::new(true) })
    }

    /// The real path of the root.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode of the root, by which a moved project is found again (R12).
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        (self.stat.dev, self.stat.ino)
    }

    /// Makes sure that the path still leads to the directory that was opened.
    ///
    /// # Errors
    ///
    /// [`RootError::Replaced`] if it does not, [`RootError::Unusable`] if the kernel cannot tell.
    pub fn check_root(&self) -> Result<(), RootError> {
        match open_root(&self.path) {
            Ok((_, stat)) if (stat.dev, stat.ino) == self.identity() => Ok(()),
            Err(source) if !is_absent(&source) => {
                Err(RootError::Unusable { path: self.path.clone(), source })
            }
            Ok(_) | Err(_) => Err(RootError::Replaced(self.path.clone())),
        }
    }

    /// When the root was created, if the file system records it.
    fn birth_time(&self) -> Option<i64> {
        birth_time_of(&self.root.0, Path::new(""), AtFlags::EMPTY_PATH)
    }

    /// What identifies the root in its file system.
    pub(crate) fn file_identity(&self) -> FileIdentity {
        let (device, inode) = self.identity();
        FileIdentity { device, inode, born: self.birth_time() }
    }

    /// True if the root was deleted, and not moved, since it was opened.
    pub(crate) fn is_deleted(&self) -> bool {
        rustix::fs::fstat(&self.root.0).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Tells where in the worktree a real path lies, if it does.
    pub(crate) fn relative_path_of(&self, real: &Path) -> Option<RelPath> {
        RelPath::new(real.strip_prefix(&self.path).ok()?.as_os_str().as_bytes()).ok()
    }

    /// Opens a directory, or the root for nothing.
    pub(crate) fn open_dir(&self, path: Option<&RelPath>) -> io::Result<WorktreeDir> {
        let Some(path) = path else {
            return self.root.open_dir(b".");
        };
        if self.has_openat2.load(Ordering::Relaxed) {
            match self.open_with_openat2(path) {
                Ok(fd) => return Ok(WorktreeDir(fd)),
                // Old kernels, and sandboxes that know only the calls they list.
                Err(Errno::NOSYS | Errno::PERM) => self.has_openat2.store(false, Ordering::Relaxed),
                Err(error) => return Err(error.into()),
            }
        }
        self.open_by_components(path)
    }

    fn open_with_openat2(&self, path: &RelPath) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = OsStr::from_bytes(path.as_bytes());
        loop {
            match rustix::fs::openat2(&self.root.0, path, flags, Mode::empty(), resolve) {
                // The kernel saw a rename on the way and asks to look again.
                Err(Errno::AGAIN) => {}
                done => return done,
            }
        }
    }

    /// Opens part by part, for kernels without `openat2`.
    fn open_by_components(&self, path: &RelPath) -> io::Result<WorktreeDir> {
        let mut dir = self.root.open_dir(b".")?;
        for part in path.parts() {
            dir = dir.open_dir(part)?;
        }
        Ok(dir)
    }

    /// Bytes that may still be written to the file system of the root.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let disk = rustix::fs::fstatvfs(&self.root.0)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// How many files and directories the file system of the root can still hold; `None` if it has no limit.
    pub(crate) fn free_inodes(&self) -> io::Result<Option<u64>> {
        let disk = rustix::fs::fstatvfs(&self.root.0)?;
        // Such as btrfs, which counts none.
        Ok((disk.f_files > 0).then_some(disk.f_favail))
    }

    /// Opens the directory that holds `path`.
    pub(crate) fn open_parent(&self, path: &RelPath) -> io::Result<WorktreeDir> {
        self.open_dir(path.parent().as_ref())
    }

    /// Describes what is at `path`; `None` if it is not there.
    ///
    /// A path that passes a link is an error, not an absence.
    pub(crate) fn stat(&self, path: &RelPath) -> io::Result<Option<FileStat>> {
        match self.open_parent(path) {
            Ok(dir) => dir.stat(path.name()),
            Err(error) => self.absent_unless_link(path, error).map(|()| None),
        }
    }

    /// Tells a parent that is missing or a file, where the path is absent, from one that is a link.
    pub(crate) fn absent_unless_link(&self, path: &RelPath, error: io::Error) -> io::Result<()> {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Ok(()),
            Some(Errno::NOTDIR) => self.refuse_link_above(path),
            _ => Err(error),
        }
    }

    /// Opening a link as a directory says "not a directory", as for a file: looks which it was.
    fn refuse_link_above(&self, path: &RelPath) -> io::Result<()> {
        let mut dir = self.root.open_dir(b".")?;
        for part in path.parts() {
            match dir.stat(part)?.map(|stat| stat.kind) {
                Some(super::FileKind::Directory) => dir = dir.open_dir(part)?,
                Some(super::FileKind::Link) => return Err(Errno::LOOP.into()),
                Some(super::FileKind::File | super::FileKind::Special) | None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Pretends that the kernel has no `openat2`, so that tests reach the other way.
    #[cfg(test)]
    pub(crate) fn without_openat2(self) -> Self {
        self.has_openat2.store(false, Ordering::Relaxed);
        self
    }
}

/// When a file was created, in nanoseconds, if the file system records it.
pub(crate) fn birth_time_of(dir: impl AsFd, path: &Path, flags: AtFlags) -> Option<i64> {
    let stat = rustix::fs::statx(dir, path, flags, StatxFlags::BTIME).ok()?;
    let is_known = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let (seconds, nanos) = (stat.stx_btime.tv_sec, i64::from(stat.stx_btime.tv_nsec));
    is_known.then(|| seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

fn open_root(path: &Path) -> io::Result<(OwnedFd, FileStat)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = FileStat::from(&rustix::fs::fstat(&fd)?);
    Ok((fd, stat))
}

/// True if the error says that there is no directory at the path, and not that it could not be opened.
fn is_absent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    #[test]
    fn home_and_system_directories_are_refused_unless_named() {
        let home = tempfile::tempdir().unwrap();
        let mut policy = RootPolicy { home: Some(home.path().to_owned()), by_name: false };

        assert!(matches!(Worktree::open(home.path(), &policy), Err(RootError::Refused(_))));
        assert!(matches!(Worktree::open(Path::new("/"), &policy), Err(RootError::Refused(_))));
        for huge in [home.path().parent().unwrap(), Path::new("/usr"), Path::new("/etc/../tmp")] {
            assert!(
                matches!(Worktree::open(huge, &policy), Err(RootError::Refused(_))),
                "{huge:?}"
            );
        }
        fs_err::create_dir(home.path().join("project")).unwrap();
        assert!(Worktree::open(&home.path().join("project"), &policy).is_ok());
        policy.by_name = true;
        assert!(Worktree::open(home.path(), &policy).is_ok());
    }

    /// Proves R16.
    #[test]
    fn replaced_root_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs_err::create_dir(&root).unwrap();
        let worktree = Worktree::open(&root, &RootPolicy::default()).unwrap();
        worktree.check_root().unwrap();

        fs_err::rename(&root, dir.path().join("moved")).unwrap();
        fs_err::create_dir(&root).unwrap();

        assert!(matches!(worktree.check_root(), Err(RootError::Replaced(_))));
    }

    /// Proves R16.
    #[test]
    fn links_are_not_followed_with_or_without_openat2() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs_err::write(outside.path().join("secret"), "s").unwrap();
        fs_err::create_dir(dir.path().join("real")).unwrap();
        fs_err::write(dir.path().join("real/file"), "f").unwrap();
        symlink(outside.path(), dir.path().join("out")).unwrap();
        symlink("real", dir.path().join("in")).unwrap();
        symlink("real/file", dir.path().join("link")).unwrap();
        let open = || Worktree::open(dir.path(), &RootPolicy::default()).unwrap();

        for worktree in [open(), open().without_openat2()] {
            assert!(worktree.stat(&path("out/secret")).is_err());
            assert!(worktree.stat(&path("in/file")).is_err());
            assert!(worktree.open_dir(Some(&path("in"))).is_err());
            assert!(worktree.open_dir(None).unwrap().open_file(b"link").is_err());
            assert!(worktree.stat(&path("real/none/deep")).unwrap().is_none());
            assert!(worktree.stat(&path("real/file/deep")).unwrap().is_none());
            let stat = worktree.stat(&path("real/file")).unwrap().unwrap();
            assert_eq!((stat.kind, stat.size), (super::super::FileKind::File, 1));
        }
    }
}
