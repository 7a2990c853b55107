//! Directories of a plan: created before the files in them, removed after, with the bits they had.
//!
//! A directory holds no bytes, so nothing of it is guarded: its bits are in the plan. Every act can be
//! repeated after a crash.
//!
//! A directory of the plan whose owner may not write to it is opened for the owner while the files in it are
//! changed: its bits are those of the turn, and the plan removes or replaces them anyway.

use std::io;

use super::plan::RestoreStep;
use super::report::{ConflictReason, RestoreConflict, RestoreReport};
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::worktree::{FileKind, NameInDir, Worktree};

/// Bits without which the owner could not work in a directory.
const OWNER_ACCESS: u32 = 0o700;

/// True if a step creates, removes or changes a directory, and no file or link is involved.
pub(super) fn is_directory_step(step: &RestoreStep) -> bool {
    step.expected.leaf().is_none()
        && step.target.leaf().is_none()
        && (step.expected.is_directory() || step.target.is_directory())
}

/// True if a file or link takes the place of a directory, or the reverse.
pub(super) fn is_exchange(step: &RestoreStep) -> bool {
    (step.expected.is_directory() && step.target.leaf().is_some())
        || (step.target.is_directory() && step.expected.leaf().is_some())
}

/// Why a step on a directory was not done.
enum DirectoryFailure {
    Conflict(ConflictReason),
    /// It holds something.
    NotEmpty,
}

impl From<io::Error> for DirectoryFailure {
    fn from(error: io::Error) -> Self {
        Self::Conflict(ConflictReason::from_io_error(&error))
    }
}

/// The directory steps of a plan that belong to no exchange, sorted by path.
pub(super) struct DirectorySteps<'s> {
    worktree: &'s Worktree,
    steps: Vec<&'s RestoreStep>,
    /// Directories, those of exchanges too, that the owner may not write to before or after the plan.
    locked: Vec<(&'s RelPath, u32)>,
}

impl<'s> DirectorySteps<'s> {
    /// Takes the directory steps that belong to no exchange, and all steps of the plan.
    pub(super) fn new(
        worktree: &'s Worktree,
        steps: &[&'s RestoreStep],
        all: &'s [RestoreStep],
    ) -> Self {
        let mut steps = steps.to_vec();
        steps.sort_by(|one, other| one.path.cmp(&other.path));
        let mut locked: Vec<(&RelPath, u32)> = all.iter().filter_map(find_locked).collect();
        locked.sort();
        Self { worktree, steps, locked }
    }

    /// Creates directories, and lets the owner write to the others.
    ///
    /// Failures are found again, and reported, by [`Self::finish`].
    pub(super) fn prepare(&self) {
        for (path, perm) in &self.locked {
            drop(self.change_bits(path, *perm, perm | OWNER_ACCESS));
        }
        for step in &self.steps {
            let done = match (step.expected, step.target) {
                (PathImage::Absent, PathImage::Directory { perm }) => self.create(&step.path, perm),
                (PathImage::Directory { perm: old }, PathImage::Directory { perm })
                    if perm & OWNER_ACCESS == OWNER_ACCESS =>
                {
                    self.change_bits(&step.path, old, perm)
                }
                _ => Ok(()),
            };
            drop(done);
        }
    }

    /// Sets the bits that were left for later, removes directories, and reports.
    pub(super) fn finish(&self, report: &mut RestoreReport) {
        // What is in a directory sorts behind it.
        for step in self.steps.iter().rev() {
            let path = step.path.clone();
            let done = match (step.expected, step.target) {
                (PathImage::Absent, PathImage::Directory { perm }) => self
                    .create(&path, perm)
                    .and_then(|()| self.change_bits(&path, perm | OWNER_ACCESS, perm)),
                (PathImage::Directory { perm: old }, PathImage::Directory { perm }) => {
                    self.change_bits(&path, old, perm)
                }
                (PathImage::Directory { perm }, _) => self.remove(&path, perm),
                _ => Ok(()),
            };
            match done {
                Ok(()) => report.directories.push(path),
                Err(DirectoryFailure::NotEmpty) => report.kept_directories.push(path),
                Err(DirectoryFailure::Conflict(why)) => {
                    report.conflicts.push(RestoreConflict { path, why });
                }
            }
        }
        report.directories.sort();
        for (path, perm) in self.locked.iter().rev() {
            // What was removed or has its new bits is not touched.
            drop(self.change_bits(path, perm | OWNER_ACCESS, *perm));
        }
    }

    /// Creates a directory its owner can work in; one that is there is good enough.
    fn create(&self, path: &RelPath, perm: u32) -> Result<(), DirectoryFailure> {
        let dir = self.worktree.open_parent(path)?;
        let place = NameInDir { dir: &dir, name: path.name() };
        match dir.stat(path.name())? {
            Some(stat) if stat.kind == FileKind::Directory => Ok(()),
            Some(_) => Err(DirectoryFailure::Conflict(ConflictReason::Recreated)),
            None => {
                place.create_dir()?;
                Ok(place.set_dir_perm(perm | OWNER_ACCESS)?)
            }
        }
    }

    /// Changes the bits of a directory that still has the old ones.
    fn change_bits(&self, path: &RelPath, old: u32, new: u32) -> Result<(), DirectoryFailure> {
        let dir = self.worktree.open_parent(path)?;
        let place = NameInDir { dir: &dir, name: path.name() };
        match dir.stat(path.name())? {
            Some(stat) if stat.kind != FileKind::Directory => {
                Err(DirectoryFailure::Conflict(ConflictReason::KindChanged))
            }
            Some(stat) if stat.perm == new => Ok(()),
            Some(stat) if is_opened_or_as_before(stat.perm, old) => Ok(place.set_dir_perm(new)?),
            Some(_) => Err(DirectoryFailure::Conflict(ConflictReason::Changed)),
            None => Err(DirectoryFailure::Conflict(ConflictReason::Removed)),
        }
    }

    /// Removes a directory that is empty by now and has not been changed.
    fn remove(&self, path: &RelPath, perm: u32) -> Result<(), DirectoryFailure> {
        let dir = match self.worktree.open_parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let place = NameInDir { dir: &dir, name: path.name() };
        match dir.stat(path.name())? {
            None => Ok(()),
            Some(stat)
                if stat.kind == FileKind::Directory && is_opened_or_as_before(stat.perm, perm) =>
            {
                match place.remove_empty_dir()? {
                    true => Ok(()),
                    false => Err(DirectoryFailure::NotEmpty),
                }
            }
            Some(_) => Err(DirectoryFailure::Conflict(ConflictReason::Changed)),
        }
    }
}

/// The path and bits of a directory to which its owner may write neither before nor after the step.
fn find_locked(step: &RestoreStep) -> Option<(&RelPath, u32)> {
    let PathImage::Directory { perm } = step.expected else { return None };
    let is_unlocked = |perm: u32| perm & OWNER_ACCESS == OWNER_ACCESS;
    let is_opened_by_plan =
        matches!(step.target, PathImage::Directory { perm } if is_unlocked(perm));
    (!is_unlocked(perm) && !is_opened_by_plan).then_some((&step.path, perm))
}

/// True if a directory has the bits the plan found, or those it got for the time of the plan.
const fn is_opened_or_as_before(perm: u32, before: u32) -> bool {
    perm == before || perm == before | OWNER_ACCESS
}
