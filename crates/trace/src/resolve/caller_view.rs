//! What a process of the tree sees: its root and its mounts, compared with ours.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::resolve::call_location::{FileState, ResolveError, open_directory, open_in_proc};

/// A waiting thread and whether it sees the file system as this process does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerView {
    pub(crate) pid: u32,
    /// Its root and its mounts are ours.
    pub(crate) is_ours: bool,
}

impl CallerView {
    /// Compares a thread's root and mounts with ours.
    ///
    /// `may_differ` is false as long as no process of the tree has changed either; then nothing is read.
    pub(crate) fn of(pid: u32, may_differ: bool) -> Self {
        let is_ours = !may_differ || sees_as_we_do(pid).unwrap_or(false);
        Self { pid, is_ours }
    }

    /// Opens what a relative path starts from.
    pub(crate) fn open_base(self, directory: i32) -> Result<OwnedFd, ResolveError> {
        let found = match directory {
            libc::AT_FDCWD => open_in_proc(self.pid, "cwd", OFlags::DIRECTORY),
            fd => open_in_proc(self.pid, &format!("fd/{fd}"), OFlags::DIRECTORY),
        };
        found.map_err(|errno| self.missing(errno))
    }

    /// Opens a file that the process has open, of whatever kind.
    pub(crate) fn open_descriptor(self, descriptor: i32) -> Result<OwnedFd, ResolveError> {
        open_in_proc(self.pid, &format!("fd/{descriptor}"), OFlags::empty())
            .map_err(|errno| self.missing(errno))
    }

    /// Opens the root of the process.
    pub(crate) fn open_root(self) -> Result<OwnedFd, ResolveError> {
        open_in_proc(self.pid, "root", OFlags::DIRECTORY).map_err(|errno| self.missing(errno))
    }

    /// Tells whether the process has the rights of this one, so that what is denied to us is denied to it.
    pub(crate) fn has_our_rights(self) -> bool {
        let rights = |pid: &str| {
            let status = fs_err::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let namespace = fs_err::read_link(format!("/proc/{pid}/ns/user")).ok()?;
            let names = ["Uid:", "Gid:", "Groups:", "CapEff:"];
            let is_right = |line: &&str| names.iter().any(|name| line.starts_with(name));
            Some((
                status.lines().filter(is_right).map(str::to_owned).collect::<Vec<_>>(),
                namespace,
            ))
        };
        let ours = rights("self");
        ours.is_some() && ours == rights(&self.pid.to_string())
    }

    /// A missing entry of `/proc` is a process that ended or a descriptor that is not open.
    fn missing(self, errno: Errno) -> ResolveError {
        match errno {
            Errno::ACCESS | Errno::PERM => ResolveError::Unresolved,
            _ if !Path::new(&format!("/proc/{}", self.pid)).is_dir() => ResolveError::Gone,
            errno => errno.into(),
        }
    }
}

fn sees_as_we_do(pid: u32) -> Result<bool, Errno> {
    let namespace = |pid: &str| rustix::fs::readlink(format!("/proc/{pid}/ns/mnt"), Vec::new());
    if namespace("self")?.as_bytes() != namespace(&pid.to_string())?.as_bytes() {
        return Ok(false);
    }
    let root = FileState::of(open_directory(format!("/proc/{pid}/root"))?)?;
    let ours = FileState::of(open_directory(std::ffi::OsStr::from_bytes(b"/"))?)?;
    Ok(root.is_same_place(&ours))
}
