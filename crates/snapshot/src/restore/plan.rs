//! Plans: what would be written, removed, merged, left alone; pure, from facts obtained first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;

use gix::objs::Kind;
use serde::{Deserialize, Serialize};
use turnstone_core::change::{FileChange, ThreeWayStep};

use super::linked_files::plan_linked_files;
use super::operation_log::LoggedOperation;
use super::path_merge::{DerivedState, LinkFailure, PathMerger};
use super::plan_obstacles::ObstacleCheck;
use super::report::RestoreConflict;
use super::stored_form;
use crate::capture::{Capture, CaptureError};
use crate::diff::list_path_changes;
use crate::file_hashing::{CurrentContent, read_current_content};
use crate::object_store::{ObjectError, ObjectRepository};
use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason};
use crate::worktree::Worktree;
use crate::worktree_index::WorktreeIndex;

/// Why nothing was restored. No file has changed, except under [`Self::Unfinished`].
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A tree or a file that is needed cannot be read: nothing is deleted on that account.
    #[error("cannot read the content to restore from the store")]
    Object(#[from] ObjectError),
    /// The present bytes could not be kept.
    #[error("cannot save the current content")]
    Guard(#[from] CaptureError),
    /// The plan could not be stored, or not be read.
    #[error("cannot store the plan")]
    Io(#[from] io::Error),
    /// The disk failed half way: files were written that could neither be rolled back nor made
    /// durable. The plan is kept, and `RestoreRunner::resume` finishes it.
    #[error("the restore was interrupted; resume it to finish")]
    Unfinished(#[source] io::Error),
}

/// What one path should hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetState {
    /// The file or directory, below the root.
    pub path: RelPath,
    /// The steps to what it should hold, each from where the one before led.
    pub links: Vec<ThreeWayStep>,
}

impl TargetState {
    /// A target of one step.
    #[must_use]
    pub fn new(path: RelPath, base: Option<PathImage>, target: PathImage) -> Self {
        Self { path, links: vec![ThreeWayStep::new(base, target)] }
    }
}

/// One path that will be written or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreStep {
    /// The file or directory, below the root.
    pub path: RelPath,
    /// What it holds now; if it holds anything else when its turn comes, it is left alone.
    #[serde(with = "stored_form::step_image")]
    pub expected: PathImage,
    /// What it will hold.
    #[serde(with = "stored_form::step_image")]
    pub target: PathImage,
    /// True if the target is a merge with changes made since.
    pub merged: bool,
}

/// What a restore would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestorePlan {
    /// Paths to write or remove, sorted.
    pub steps: Vec<RestoreStep>,
    /// Paths that would be left as they are.
    pub conflicts: Vec<RestoreConflict>,
    /// Paths that already hold what is wanted.
    pub unchanged: Vec<RelPath>,
    /// Directories that would be removed if they did not hold something that stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_directories: Vec<RelPath>,
    /// Directories that no step creates and that files to be written need, sorted. A run creates them,
    /// with the bits that any new directory gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_directories: Vec<RelPath>,
    /// Paths that are not covered.
    pub not_covered: Vec<(RelPath, UncoveredReason)>,
    /// Files with several names of which this one becomes a file of its own, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub separated: Vec<RelPath>,
    /// Files that have names in no step and are written in place: the others change with them, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked_elsewhere: Vec<RelPath>,
    /// The bytes of merges, which no capture holds yet.
    #[serde(with = "stored_form::merged_bytes")]
    pub merges: Vec<Vec<u8>>,
}

impl RestorePlan {
    /// What undoes this plan: each path as it was, changes made since kept.
    #[must_use]
    pub fn inverse(&self) -> Vec<TargetState> {
        let wanted = |step: &RestoreStep| {
            TargetState::new(step.path.clone(), Some(step.target), step.expected)
        };
        self.steps.iter().map(wanted).collect()
    }
}

/// Makes plans from what is stored and what is on disk. It writes nothing.
pub struct RestorePlanner<'s> {
    pub(crate) repository: &'s ObjectRepository,
    pub(crate) worktree: &'s Worktree,
    /// Bytes that may be stored before anything is overwritten.
    pub(crate) guard_space: u64,
    pub(crate) worktree_index: &'s Mutex<WorktreeIndex>,
}

impl RestorePlanner<'_> {
    /// Plans to bring paths to their targets, keeping what was changed since.
    ///
    /// What would keep a step from being done is looked for now: such a step is a conflict of the plan,
    /// so that a dry run reports what a run would.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Object`] if the disk reports an error. A path whose bytes the store does not have whole is
    /// not covered, and then nothing is removed.
    pub fn plan_targets(&self, targets: &[TargetState]) -> Result<RestorePlan, RestoreError> {
        let by_path: BTreeMap<&RelPath, &TargetState> =
            targets.iter().map(|wanted| (&wanted.path, wanted)).collect();
        let mut plan = RestorePlan::default();
        for wanted in by_path.values() {
            match self.plan_stored_path(&mut plan, wanted, &by_path) {
                Err(RestoreError::Object(ObjectError::Missing(_) | ObjectError::Corrupt(_))) => {
                    plan.not_covered.push((wanted.path.clone(), UncoveredReason::Missing));
                }
                planned => planned?,
            }
        }
        keep_if_damaged(&mut plan);
        ObstacleCheck::new(self, &by_path).apply(&mut plan)?;
        plan_linked_files(&mut plan, self.worktree, self.worktree_index);
        plan.missing_directories = self.find_missing_directories(&plan.steps);
        Ok(plan)
    }

    /// Plans one path, if the store has what it is to hold.
    fn plan_stored_path(
        &self,
        plan: &mut RestorePlan,
        wanted: &TargetState,
        by_path: &BTreeMap<&RelPath, &TargetState>,
    ) -> Result<(), RestoreError> {
        for leaf in wanted.links.iter().filter_map(|link| link.target.leaf()) {
            self.repository.read_verified(&leaf.blob, Kind::Blob)?;
        }
        let mut disk = read_current_content(self.worktree, &wanted.path);
        // The same plan removes the link above it.
        if disk.image.uncovered_reason() == Some(UncoveredReason::BehindLink)
            && wanted.path.ancestors().any(|above| by_path.contains_key(&above))
        {
            disk.image = PathImage::Absent;
        }
        self.plan_path(plan, wanted, disk)
    }

    /// The directories above written paths that are not there and that no step creates.
    fn find_missing_directories(&self, steps: &[RestoreStep]) -> Vec<RelPath> {
        let written = steps.iter().filter(|step| step.target != PathImage::Absent);
        let mut above: BTreeSet<RelPath> = written.flat_map(|step| step.path.ancestors()).collect();
        for step in steps {
            above.remove(&step.path);
        }
        above.retain(|folder| matches!(self.worktree.stat(folder), Ok(None)));
        above.into_iter().collect()
    }

    /// Follows the steps of a target in memory; the path is written once, or not at all (R4).
    fn plan_path(
        &self,
        plan: &mut RestorePlan,
        wanted: &TargetState,
        disk: CurrentContent,
    ) -> Result<(), RestoreError> {
        let path = wanted.path.clone();
        let CurrentContent { image: expected, data, .. } = disk;
        if let Some(reason) = expected.uncovered_reason() {
            plan.not_covered.push((path, reason));
            return Ok(());
        }
        let merger = PathMerger { repository: self.repository };
        let mut at = DerivedState { state: expected, data: Some(data), merged: false };
        match merger.follow_links(&mut at, &wanted.links)? {
            Ok(()) => {}
            Err(LinkFailure::Conflict(why)) => {
                plan.conflicts.push(RestoreConflict { path, why });
                return Ok(());
            }
            Err(LinkFailure::NotCovered(reason)) => {
                plan.not_covered.push((path, reason));
                return Ok(());
            }
        }
        if at.state == expected {
            plan.unchanged.push(path);
            return Ok(());
        }
        let DerivedState { state: target, data, merged } = at;
        let has_new_bytes =
            target.leaf().map(|leaf| leaf.blob) != expected.leaf().map(|leaf| leaf.blob);
        if merged {
            plan.merges.extend(data);
        } else if has_new_bytes && wanted.links.iter().any(|link| !link.target_by.is_empty()) {
            // The result differs from the targets that were verified above.
            merger.read_state_bytes(target)?;
        }
        plan.steps.push(RestoreStep { path, expected, target, merged });
        Ok(())
    }

    /// Plans to undo an operation, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// As [`RestorePlanner::plan_targets`].
    pub fn plan_undo(&self, operation: &LoggedOperation) -> Result<RestorePlan, RestoreError> {
        self.plan_targets(&operation.inverse())
    }

    /// Plans to make the worktree, or some paths of it, equal to `target`; `now` is a fresh capture.
    ///
    /// With `keep_added`, files that `target` does not have stay.
    ///
    /// # Errors
    ///
    /// As [`RestorePlanner::plan_targets`].
    pub fn plan_restore(
        &self,
        target: &Capture,
        now: &Capture,
        paths: Option<&BTreeSet<RelPath>>,
        keep_added: bool,
    ) -> Result<RestorePlan, RestoreError> {
        let chosen = |path: &RelPath| {
            paths.is_none_or(|paths| {
                paths.contains(path) || path.ancestors().any(|above| paths.contains(&above))
            })
        };
        let changes = list_path_changes(self.repository, now, target)?;
        // A chosen file brings the directories above it.
        let restored = changes.iter().filter(|change| change.after != PathImage::Absent);
        let above: BTreeSet<RelPath> = restored
            .filter(|change| chosen(&change.path))
            .flat_map(|change| change.path.ancestors())
            .collect();
        let is_needed = |change: &FileChange| {
            above.contains(&change.path)
                && change.before == PathImage::Absent
                && change.after.is_directory()
        };
        let targets: Vec<TargetState> = changes
            .into_iter()
            .filter(|change| chosen(&change.path) || is_needed(change))
            .filter(|change| !(keep_added && change.after == PathImage::Absent))
            .map(|change| {
                let base = matches!(change.before, PathImage::Uncovered { .. });
                TargetState::new(change.path, base.then_some(change.before), change.after)
            })
            .collect();
        self.plan_targets(&targets)
    }
}

/// Leaves out removals if content is missing from the store: what is there may be the last copy.
fn keep_if_damaged(plan: &mut RestorePlan) {
    if !plan.not_covered.iter().any(|(_, reason)| *reason == UncoveredReason::Missing) {
        return;
    }
    let is_removal = |step: &RestoreStep| step.target == PathImage::Absent;
    let (removals, stay): (Vec<RestoreStep>, Vec<RestoreStep>) =
        std::mem::take(&mut plan.steps).into_iter().partition(is_removal);
    plan.steps = stay;
    let kept = removals.into_iter().map(|step| (step.path, UncoveredReason::Missing));
    plan.not_covered.extend(kept);
    plan.not_covered.sort_by(|one, other| one.0.cmp(&other.0));
}
