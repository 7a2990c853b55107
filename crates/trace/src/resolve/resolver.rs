//! From a path of a process to a place: fast where its view is ours, step by step elsewhere.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat};
use rustix::io::Errno;

use crate::holder::BlockedPath;
use crate::resolve::call_location::{
    CallLocation, FileState, ResolveError, open_directory, open_name, path_of,
};
use crate::resolve::caller_view::CallerView;
use crate::resolve::foreign_mounts::translate_path;
use crate::resolve::path_walk::{ProcessPathWalk, WalkEnd};

/// As many links as the kernel follows in one path.
pub(crate) const MAX_LINKS: usize = 40;

/// Whether a call follows a link in the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalLink {
    Follow,
    Keep,
}

/// Resolves paths of the processes of one tree.
#[derive(Debug)]
pub(crate) struct PathResolver {
    /// The device of our `/proc`: links in it mean something else for every process.
    proc_device: u64,
}

/// A directory and a name in it, on the way to a place.
struct Step {
    directory: OwnedFd,
    state: FileState,
    name: OsString,
    target: Option<FileState>,
}

impl PathResolver {
    pub(crate) fn new() -> Result<Self, Errno> {
        let proc_device = FileState::of(open_directory("/proc")?)?.device();
        Ok(Self { proc_device })
    }

    /// Finds the place that a thread means by a path.
    pub(crate) fn resolve(
        &self,
        view: CallerView,
        directory: i32,
        path: &OsStr,
        link: FinalLink,
    ) -> Result<CallLocation, ResolveError> {
        if path.is_empty() {
            return Err(ResolveError::Absent);
        }
        if view.is_ours
            && let Some(step) = self.take_fast_step(view, directory, path, link)?
        {
            return to_location(view, step);
        }
        let root = view.open_root()?;
        let base = match is_absolute(path) {
            true => root.try_clone().map_err(|_| ResolveError::Unresolved)?,
            false => view.open_base(directory)?,
        };
        finish_walk(view, ProcessPathWalk::new(view, root, base)?.run(path, link)?)
    }

    /// Finds the place of a path that cannot leave a directory (`RESOLVE_IN_ROOT`).
    pub(crate) fn resolve_in(
        &self,
        view: CallerView,
        directory: i32,
        path: &OsStr,
        link: FinalLink,
    ) -> Result<CallLocation, ResolveError> {
        let root = view.open_base(directory)?;
        let base = root.try_clone().map_err(|_| ResolveError::Unresolved)?;
        finish_walk(view, ProcessPathWalk::new(view, root, base)?.run(path, link)?)
    }

    /// Finds the place of a file that a thread has open.
    pub(crate) fn resolve_descriptor(
        &self,
        view: CallerView,
        descriptor: i32,
    ) -> Result<CallLocation, ResolveError> {
        locate_open_file(view, &view.open_descriptor(descriptor)?)
    }

    /// Finds where a path that does not exist leaves what exists.
    pub(crate) fn find_missing(
        &self,
        view: CallerView,
        directory: i32,
        path: &OsStr,
    ) -> Option<BlockedPath> {
        let mut parent = path;
        let mut names = Vec::new();
        while let Some((before, name)) = split_path(trim_slashes(parent)) {
            names.push(name);
            parent = trim_slashes(before);
            match self.resolve(view, directory, parent, FinalLink::Follow) {
                Ok(location) => {
                    // Made in between by another thread.
                    let exists = location.target.map(|target| target.file_type());
                    if exists.is_some_and(|kind| kind != FileType::Directory) {
                        return None;
                    }
                    let missing = location.path();
                    let path =
                        names.iter().rev().fold(missing.clone(), |path, name| path.join(name));
                    return Some(BlockedPath { missing, path, is_open: exists.is_some() });
                }
                Err(ResolveError::Absent) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Lets the kernel resolve the path in our view; `None` if that could mean another file.
    fn take_fast_step(
        &self,
        view: CallerView,
        directory: i32,
        path: &OsStr,
        link: FinalLink,
    ) -> Result<Option<Step>, ResolveError> {
        let mut base = None;
        if !is_absolute(path) {
            base = Some(view.open_base(directory)?);
        }
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Some((parent, name)) = split_path(&path) else { return Ok(None) };
            let directory = match (base.take(), parent.is_empty()) {
                (Some(base), true) => base,
                (base, _) => {
                    let parent = if parent.is_empty() { OsStr::new("/") } else { parent };
                    match open_below(base.as_ref(), parent) {
                        Ok(directory) => directory,
                        Err(Errno::LOOP | Errno::AGAIN | Errno::NOSYS) => return Ok(None),
                        Err(errno) => return Err(errno.into()),
                    }
                }
            };
            let state = FileState::of(&directory)?;
            if state.device() == self.proc_device {
                return Ok(None);
            }
            let target = FileState::find(&directory, name)?;
            let is_link = target.is_some_and(|found| found.file_type() == FileType::Symlink);
            if !is_link || link == FinalLink::Keep {
                let name = name.to_owned();
                return Ok(Some(Step { directory, state, name, target }));
            }
            let next = readlinkat(&directory, name, Vec::new())?.into_bytes();
            path = OsString::from_vec(next);
            base = (!is_absolute(&path)).then_some(directory);
        }
        Err(ResolveError::Absent)
    }
}

fn is_absolute(path: &OsStr) -> bool {
    path.as_bytes().first() == Some(&b'/')
}

fn trim_slashes(path: &OsStr) -> &OsStr {
    let mut bytes = path.as_bytes();
    while let [rest @ .., b'/'] = bytes
        && !rest.is_empty()
    {
        bytes = rest;
    }
    OsStr::from_bytes(bytes)
}

/// Opens a directory without passing through `/proc/<pid>/fd` and the like.
fn open_below(base: Option<&OwnedFd>, path: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let base = base.map_or(CWD, AsFd::as_fd);
    openat2(base, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

/// Splits the last component off; `None` if it is no plain name.
fn split_path(path: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = path.as_bytes();
    let start = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |index| index + 1);
    let (parent, name) = bytes.split_at_checked(start)?;
    if name.is_empty() || name == b"." || name == b".." {
        return None;
    }
    Some((OsStr::from_bytes(parent), OsStr::from_bytes(name)))
}

/// Names the end of a walk.
fn finish_walk(view: CallerView, end: WalkEnd) -> Result<CallLocation, ResolveError> {
    match end {
        WalkEnd::Name { directory, name } => {
            let state = FileState::of(&directory)?;
            let target = FileState::find(&directory, &name)?;
            to_location(view, Step { directory, state, name, target })
        }
        WalkEnd::File(file) => locate_open_file(view, &file),
    }
}

fn to_location(view: CallerView, step: Step) -> Result<CallLocation, ResolveError> {
    if step.state.links() == 0 {
        return Err(ResolveError::Nameless);
    }
    let directory = if view.is_ours {
        PathBuf::from(path_of(step.directory.as_fd())?)
    } else {
        translate_path(view, step.directory.as_fd(), &step.state)?
    };
    let parent = step.state.to_directory_identity();
    Ok(CallLocation { directory, parent, name: step.name, target: step.target })
}

/// Finds the name by which a file was opened.
fn locate_open_file(view: CallerView, file: &OwnedFd) -> Result<CallLocation, ResolveError> {
    let state = FileState::of(file)?;
    let is_directory = state.file_type() == FileType::Directory;
    if state.links() == 0 || !is_directory && state.file_type() != FileType::RegularFile {
        return Err(ResolveError::Nameless);
    }
    let text = PathBuf::from(path_of(file.as_fd())?);
    let (Some(parent), Some(name)) = (text.parent(), text.file_name()) else {
        return Err(ResolveError::Nameless);
    };
    let directory = if is_directory {
        openat(file, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?
    } else {
        open_in_view(view, parent)?
    };
    let found = open_name(&directory, name).map_err(|_| ResolveError::Unresolved)?;
    if !FileState::of(&found)?.is_same_file(&state) {
        return Err(ResolveError::Unresolved);
    }
    let name = name.to_owned();
    let parent = FileState::of(&directory)?;
    to_location(view, Step { directory, state: parent, name, target: Some(state) })
}

/// Opens a directory by the path that the kernel wrote for a file of that view.
fn open_in_view(view: CallerView, path: &Path) -> Result<OwnedFd, ResolveError> {
    if view.is_ours {
        return open_directory(path).map_err(|_| ResolveError::Unresolved);
    }
    let below = path.strip_prefix("/").unwrap_or(path);
    let root = view.open_root()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(&root, below, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS | ResolveFlags::IN_ROOT)
        .map_err(|_| ResolveError::Unresolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_component_is_split_off() {
        let split = |text: &'static str| {
            let (parent, name) = split_path(OsStr::new(text))?;
            Some((parent.to_str()?, name.to_str()?))
        };
        assert_eq!(split("a"), Some(("", "a")));
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("x/y/a"), Some(("x/y/", "a")));
        for special in ["/", "a/", ".", "..", "a/..", "a/."] {
            assert_eq!(split(special), None, "{special}");
        }
    }
}
