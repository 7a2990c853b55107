//! Obstacles: what would keep a step of a plan from being done, found before anything is written.
//!
//! A run may still meet one that came later; it is reported then, with the same words.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use super::guard_space::GuardSpaceCheck;
use super::plan::{RestoreError, RestorePlan, RestorePlanner, RestoreStep, TargetState};
use super::report::{ConflictReason, RestoreConflict};
use crate::object_store::{FileMode, ObjectRepository, Oid};
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::worktree::{FileKind, Worktree, WorktreeDir};

/// How many files are written at the same time at most, and need room before others free theirs.
const MAX_PARALLEL_WRITES: usize = 32;

/// Looks for obstacles of the steps of one plan.
pub(super) struct ObstacleCheck<'p> {
    worktree: &'p Worktree,
    repository: &'p ObjectRepository,
    /// The bytes each path was to get at last.
    wanted: BTreeMap<&'p RelPath, Option<Oid>>,
    /// Bytes that may be stored before anything is overwritten.
    guard_space: u64,
}

impl<'p> ObstacleCheck<'p> {
    pub(super) fn new(
        planner: &'p RestorePlanner<'_>,
        targets: &BTreeMap<&'p RelPath, &'p TargetState>,
    ) -> Self {
        let blob = |target: &TargetState| Some(target.links.last()?.target.leaf()?.blob);
        let wanted = targets.iter().map(|(path, target)| (*path, blob(target))).collect();
        Self {
            worktree: planner.worktree,
            repository: planner.repository,
            wanted,
            guard_space: planner.guard_space,
        }
    }

    /// Turns steps that cannot be done into conflicts, and those that depend on them.
    pub(super) fn apply(&self, plan: &mut RestorePlan) -> Result<(), RestoreError> {
        let guard = GuardSpaceCheck { worktree: self.worktree, repository: self.repository };
        guard.check(plan, self.guard_space)?;
        self.check_room(plan)?;
        loop {
            let steps: BTreeMap<&RelPath, &RestoreStep> =
                plan.steps.iter().map(|step| (&step.path, step)).collect();
            let lost = self.unrestored_blobs(plan);
            let mut found = BTreeMap::new();
            for step in steps.values() {
                if let Some(why) = self.find_obstacle(step, &steps, &lost) {
                    found.insert(step.path.clone(), why);
                }
            }
            let kept = self.find_kept_directories(&steps);
            let kept = if found.is_empty() { kept } else { BTreeSet::new() };
            if found.is_empty() && kept.is_empty() {
                break;
            }
            turn_steps_into_conflicts(plan, &found);
            plan.steps.retain(|step| !kept.contains(&step.path));
            plan.kept_directories.extend(kept);
        }
        plan.conflicts.sort_by(|one, other| one.path.cmp(&other.path));
        plan.kept_directories.sort();
        Ok(())
    }

    /// The content of paths that the plan does not restore; without its other copies it would be lost.
    fn unrestored_blobs(&self, plan: &RestorePlan) -> BTreeSet<Oid> {
        let conflicts = plan.conflicts.iter().map(|conflict| &conflict.path);
        let paths = conflicts.chain(plan.not_covered.iter().map(|(path, _)| path));
        let mut blobs: BTreeSet<Oid> =
            paths.filter_map(|path| self.wanted.get(path).copied().flatten()).collect();
        // There is no text in an empty file that could be lost.
        blobs.remove(&EMPTY_BLOB);
        blobs
    }

    fn find_obstacle(
        &self,
        step: &RestoreStep,
        steps: &BTreeMap<&RelPath, &RestoreStep>,
        lost: &BTreeSet<Oid>,
    ) -> Option<ConflictReason> {
        let expected = step.expected.leaf();
        if step.target == PathImage::Absent
            && expected.is_some_and(|leaf| lost.contains(&leaf.blob))
        {
            return Some(ConflictReason::OnlyCopy);
        }
        if step.target != PathImage::Absent && self.is_blocked_above(step, steps) {
            return Some(ConflictReason::InTheWay);
        }
        let is_replaced_directory = step.expected.is_directory() && step.target.leaf().is_some();
        if is_replaced_directory && !self.contains_only_removed(&step.path, steps) {
            return Some(ConflictReason::InTheWay);
        }
        self.find_write_refusal(step, steps)
    }

    /// True if something above a path is no directory, and the plan does not change that.
    fn is_blocked_above(
        &self,
        step: &RestoreStep,
        steps: &BTreeMap<&RelPath, &RestoreStep>,
    ) -> bool {
        step.path.ancestors().any(|above| {
            let is_other = match self.worktree.stat(&above) {
                Ok(Some(stat)) => stat.kind != FileKind::Directory,
                Ok(None) | Err(_) => false,
            };
            is_other && steps.get(&above).is_none_or(|step| step.target.leaf().is_some())
        })
    }

    /// True if a directory holds nothing but what the plan removes.
    ///
    /// Captures of earlier versions record no directories: one that the plan does not name goes with the files
    /// in it, but an empty one was created later and stays.
    fn contains_only_removed(
        &self,
        folder: &RelPath,
        steps: &BTreeMap<&RelPath, &RestoreStep>,
    ) -> bool {
        let is_removed =
            |path: &RelPath| steps.get(path).is_some_and(|step| step.target == PathImage::Absent);
        let leads_to_removed = |path: &RelPath| {
            is_removed(path)
                || steps
                    .values()
                    .any(|step| step.target == PathImage::Absent && path.is_ancestor_of(&step.path))
        };
        let names = self.worktree.open_dir(Some(folder)).and_then(|dir| dir.list());
        names.is_ok_and(|names| {
            names.iter().all(|entry| {
                let Ok(child) = folder.join(&entry.name) else { return false };
                let is_folder = matches!(
                    self.worktree.stat(&child),
                    Ok(Some(stat)) if stat.kind == FileKind::Directory
                );
                match is_folder {
                    true => leads_to_removed(&child) && self.contains_only_removed(&child, steps),
                    false => is_removed(&child),
                }
            })
        })
    }

    /// Why the kernel would not let us change the name, or the file itself.
    fn find_write_refusal(
        &self,
        step: &RestoreStep,
        steps: &BTreeMap<&RelPath, &RestoreStep>,
    ) -> Option<ConflictReason> {
        let reason = |refused: Option<Errno>, by: &[Errno]| {
            refused.filter(|error| by.contains(error)).map(|error| match error {
                Errno::PERM => ConflictReason::Immutable,
                _ => ConflictReason::ReadOnly,
            })
        };
        let is_chmod = step.expected.is_directory() && step.target.is_directory();
        // The nearest directory that exists: those below it are made.
        for above in step.path.ancestors().map(Some).chain([None]) {
            let Ok(dir) = self.worktree.open_dir(above.as_ref()) else { continue };
            let is_parent = step.path.parent() == above;
            if is_parent && is_owner_needed(&dir, step) {
                return Some(ConflictReason::ReadOnly);
            }
            let name = (step.expected != PathImage::Absent).then(|| step.path.name());
            if is_parent
                && name.is_some()
                && let Some(why) = reason(dir.refuses_write(name), &[Errno::PERM, Errno::ROFS])
            {
                return Some(why);
            }
            // A directory whose bits the plan restores may be writable by then.
            let is_changed = above.as_ref().is_some_and(|above| steps.contains_key(above));
            let by = [Errno::ACCESS, Errno::PERM, Errno::ROFS];
            if is_chmod || is_changed {
                return None;
            }
            return reason(dir.refuses_write(None), &by);
        }
        None
    }

    /// The directories to be removed that hold something that stays; those above them stay too.
    fn find_kept_directories(&self, steps: &BTreeMap<&RelPath, &RestoreStep>) -> BTreeSet<RelPath> {
        let mut kept = BTreeSet::new();
        let removals = steps
            .values()
            .filter(|step| step.expected.is_directory() && step.target == PathImage::Absent);
        // What is in a directory sorts behind it.
        for step in removals.rev() {
            let names = self.worktree.open_dir(Some(&step.path)).and_then(|dir| dir.list());
            let goes = |name: &[u8]| {
                step.path.join(name).is_ok_and(|child| {
                    let is_removed = |it: &&RestoreStep| it.target == PathImage::Absent;
                    steps.get(&child).is_some_and(is_removed) && !kept.contains(&child)
                })
            };
            // One that cannot be listed is not known to be empty.
            if !names.is_ok_and(|names| names.iter().all(|entry| goes(&entry.name))) {
                kept.insert(step.path.clone());
            }
        }
        kept
    }

    /// Turns steps that do not fit on the disk into conflicts, the largest first.
    fn check_room(&self, plan: &mut RestorePlan) -> Result<(), RestoreError> {
        let mut files: Vec<WrittenFile> = Vec::new();
        for step in &plan.steps {
            let (Some(target), expected) = (step.target.leaf(), step.expected.leaf()) else {
                continue;
            };
            if expected.map(|leaf| leaf.blob) == Some(target.blob) {
                continue;
            }
            let now = self.worktree.stat(&step.path).ok().flatten().map_or(0, |stat| stat.size);
            let size = match step.merged {
                // No larger than both of its sides, nearly always.
                true => now,
                false => self.repository.object_size(&target.blob)?,
            };
            let (growth, is_new) = (size.saturating_sub(now), step.expected == PathImage::Absent);
            files.push(WrittenFile { size, growth, is_new, path: step.path.clone() });
        }
        files.sort_unstable_by(|one, other| (one.size, &one.path).cmp(&(other.size, &other.path)));
        let is_new_directory =
            |step: &&RestoreStep| step.target.is_directory() && step.expected == PathImage::Absent;
        let directories: Vec<&RelPath> =
            plan.steps.iter().filter(is_new_directory).map(|step| &step.path).collect();
        let free = self.worktree.free_bytes().unwrap_or(u64::MAX);
        let inodes = self.worktree.free_inodes().ok().flatten().unwrap_or(u64::MAX);
        let files_left = inodes.checked_sub(directories.len() as u64);
        let mut too_large = BTreeMap::new();
        if files_left.is_none() {
            too_large.extend(directories.into_iter().cloned().map(no_space));
        }
        // The more of them, the more is needed: the largest that do not fit are left out.
        let (mut fitting, mut most) = (0, files.len());
        while fitting < most {
            let some = fitting + (most - fitting).div_ceil(2);
            let needed = NeededRoom::of(&files[..some]);
            match needed.bytes <= free && needed.inodes <= files_left.unwrap_or(0) {
                true => fitting = some,
                false => most = some - 1,
            }
        }
        too_large.extend(files.split_off(fitting).into_iter().map(|file| no_space(file.path)));
        turn_steps_into_conflicts(plan, &too_large);
        Ok(())
    }
}

const fn no_space(path: RelPath) -> (RelPath, ConflictReason) {
    (path, ConflictReason::NoSpace)
}

/// A file that a restore writes.
struct WrittenFile {
    size: u64,
    /// How much larger it is than what is there now.
    growth: u64,
    /// True if there is nothing now.
    is_new: bool,
    path: RelPath,
}

/// What writing some files takes at most: what all of them grow by, and the old files that are still there while the new
/// ones are written next to them.
struct NeededRoom {
    bytes: u64,
    inodes: u64,
}

impl NeededRoom {
    fn of(files: &[WrittenFile]) -> Self {
        let mut replaced: Vec<u64> = files.iter().map(|file| file.size - file.growth).collect();
        replaced.sort_unstable();
        let replaced: u64 = replaced.iter().rev().take(MAX_PARALLEL_WRITES).sum();
        let new = files.iter().filter(|file| file.is_new).count();
        let bytes: u64 = files.iter().map(|file| file.growth).sum();
        Self {
            bytes: bytes.saturating_add(replaced),
            inodes: (new + (files.len() - new).min(MAX_PARALLEL_WRITES)) as u64,
        }
    }
}

/// True if a file or directory is changed in its place, which only its owner may do, and we are not.
///
/// A file of another user keeps its owner, so it is written and not replaced.
fn is_owner_needed(dir: &WorktreeDir, step: &RestoreStep) -> bool {
    let bits = |image: PathImage| match image {
        PathImage::Present { leaf, perm } if leaf.mode != FileMode::Link => Some((false, perm)),
        PathImage::Directory { perm } => Some((true, perm)),
        PathImage::Present { .. } | PathImage::Absent | PathImage::Uncovered { .. } => None,
    };
    let (Some(old), Some(new)) = (bits(step.expected), bits(step.target)) else { return false };
    let name = step.path.name();
    let is_locked = || !old.0 && dir.refuses_write(Some(name)) == Some(Errno::ACCESS);
    old.0 == new.0 && dir.belongs_to_another_user(name) && (old.1 != new.1 || is_locked())
}

/// Makes conflicts of steps; where one of another kind was to take a place, all below goes with it.
fn turn_steps_into_conflicts(plan: &mut RestorePlan, found: &BTreeMap<RelPath, ConflictReason>) {
    let is_exchange = |step: &RestoreStep| {
        step.expected.leaf().is_some() != step.target.leaf().is_some()
            && (step.expected.is_directory() || step.target.is_directory())
    };
    let roots: BTreeMap<RelPath, ConflictReason> = plan
        .steps
        .iter()
        .filter(|step| is_exchange(step))
        .filter_map(|step| Some((step.path.clone(), *found.get(&step.path)?)))
        .collect();
    let mut kept = Vec::new();
    for step in std::mem::take(&mut plan.steps) {
        let above = || step.path.ancestors().find_map(|above| roots.get(&above));
        match found.get(&step.path).or_else(above) {
            Some(why) => {
                plan.conflicts.push(RestoreConflict { path: step.path, why: *why });
            }
            None => kept.push(step),
        }
    }
    plan.steps = kept;
}

/// The name git gives to no bytes.
const EMPTY_BLOB: Oid = Oid([
    0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b, 0x29, 0xae, 0x77, 0x5a, 0xd8, 0xc2,
    0xe4, 0x8c, 0x53, 0x91,
]);
