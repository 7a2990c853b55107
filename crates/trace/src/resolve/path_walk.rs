//! Walking a path component by component, as the kernel does for another process.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{FileType, Mode, OFlags, fstatfs, openat, readlinkat};
use rustix::io::Errno;

use crate::resolve::call_location::{FileState, ResolveError, open_directory, open_name};
use crate::resolve::caller_view::CallerView;
use crate::resolve::resolver::{FinalLink, MAX_LINKS};

/// `PROC_SUPER_MAGIC`.
const PROC_MAGIC: u64 = 0x9fa0;

/// Where a walk ended.
#[derive(Debug)]
pub(crate) enum WalkEnd {
    /// At a name, which may be absent, in a directory.
    Name { directory: OwnedFd, name: OsString },
    /// At a file that has no name in the path: the path ends in `.`, `..`, or a link of `/proc`.
    File(OwnedFd),
}

/// A walk below the root of another process.
pub(crate) struct ProcessPathWalk {
    view: CallerView,
    root: OwnedFd,
    root_state: FileState,
    current: OwnedFd,
    links: usize,
}

impl ProcessPathWalk {
    pub(crate) fn new(
        view: CallerView,
        root: OwnedFd,
        current: OwnedFd,
    ) -> Result<Self, ResolveError> {
        let root_state = FileState::of(&root)?;
        Ok(Self { view, root, root_state, current, links: 0 })
    }

    pub(crate) fn run(mut self, path: &OsStr, link: FinalLink) -> Result<WalkEnd, ResolveError> {
        // A slash at the end means the directory behind a link.
        let follows = link == FinalLink::Follow || path.as_bytes().ends_with(b"/");
        let mut rest = split_components(path);
        while let Some(name) = rest.pop_front() {
            let is_last = rest.is_empty();
            if name == ".." {
                self.go_up()?;
                continue;
            }
            let child = match open_name(&self.current, &name) {
                Ok(child) => child,
                Err(Errno::NOENT) if is_last => return Ok(self.end_at(name)),
                Err(errno) => return Err(errno.into()),
            };
            let is_link = FileState::of(&child)?.file_type() == FileType::Symlink;
            if is_last && (!is_link || !follows) {
                return Ok(self.end_at(name));
            }
            if !is_link {
                self.current = child;
                continue;
            }
            self.links += 1;
            if self.links > MAX_LINKS {
                return Err(ResolveError::Absent);
            }
            if is_proc(&self.current)? {
                self.current = self.follow_proc_link(&name)?;
                if is_last {
                    break;
                }
                continue;
            }
            let target = OsString::from_vec(readlinkat(&child, c"", Vec::new())?.into_bytes());
            if target.as_bytes().first() == Some(&b'/') {
                self.current = clone_fd(&self.root)?;
            }
            for component in split_components(&target).into_iter().rev() {
                rest.push_front(component);
            }
        }
        Ok(WalkEnd::File(self.current))
    }

    fn end_at(self, name: OsString) -> WalkEnd {
        WalkEnd::Name { directory: self.current, name }
    }

    /// Goes to the parent, but never above the root of the process.
    fn go_up(&mut self) -> Result<(), ResolveError> {
        if !FileState::of(&self.current)?.is_same_place(&self.root_state) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.current = openat(&self.current, "..", flags, Mode::empty())?;
        }
        Ok(())
    }

    /// Follows a link of `/proc` as the caller would: `self` is the caller and not this process.
    fn follow_proc_link(&self, name: &OsStr) -> Result<OwnedFd, ResolveError> {
        if name == "self" || name == "thread-self" {
            return Ok(open_directory(format!("/proc/{}", self.view.pid))?);
        }
        if name == "mounts" || name == "net" {
            return Err(ResolveError::Nameless);
        }
        Ok(openat(&self.current, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    }
}

/// The components of a path without empty ones and `.`.
fn split_components(path: &OsStr) -> VecDeque<OsString> {
    let parts = path.as_bytes().split(|byte| *byte == b'/');
    let named = parts.filter(|part| !part.is_empty() && *part != b".");
    named.map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

fn is_proc(directory: &OwnedFd) -> Result<bool, ResolveError> {
    Ok(u64::try_from(fstatfs(directory)?.f_type).is_ok_and(|magic| magic == PROC_MAGIC))
}

fn clone_fd(fd: &OwnedFd) -> Result<OwnedFd, ResolveError> {
    fd.as_fd().try_clone_to_owned().map_err(|_| ResolveError::Unresolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(root: &OsStr, path: &str, link: FinalLink) -> Result<WalkEnd, ResolveError> {
        let view = CallerView { pid: std::process::id(), is_ours: false };
        let root = open_directory(root)?;
        let base = clone_fd(&root)?;
        ProcessPathWalk::new(view, root, base)?.run(OsStr::new(path), link)
    }

    fn name_of(end: WalkEnd) -> OsString {
        match end {
            WalkEnd::Name { name, .. } => name,
            WalkEnd::File(file) => crate::resolve::call_location::path_of(file.as_fd()).unwrap(),
        }
    }

    #[test]
    fn walk_stays_below_the_root_and_follows_links_in_it() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("a/b")).unwrap();
        fs_err::write(dir.path().join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink("/a/b/file", dir.path().join("link")).unwrap();
        let root = dir.path().as_os_str();

        for path in ["a/b/file", "/link", "../../a/b/file", "a/../../../link"] {
            assert_eq!(name_of(walk(root, path, FinalLink::Follow).unwrap()), "file", "{path}");
        }
        assert_eq!(name_of(walk(root, "link", FinalLink::Keep).unwrap()), "link");
        assert_eq!(name_of(walk(root, "a/new", FinalLink::Follow).unwrap()), "new");
        assert_eq!(walk(root, "no/new", FinalLink::Follow).unwrap_err(), ResolveError::Absent);
    }

    #[test]
    fn links_in_proc_lead_to_the_caller() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(file.as_file());
        let end = walk(OsStr::new("/"), &format!("proc/self/fd/{fd}"), FinalLink::Follow).unwrap();
        assert_eq!(name_of(end), file.path());
    }
}
