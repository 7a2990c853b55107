//! Plans: what would be written, removed, merged, left alone; pure, from facts obtained first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use gix::objs::Kind;
use serde::{Deserialize, Serialize};
use turnstone_core::change::ThreeWayStep;

use super::operation_log::LoggedOperation;
use super::report::{ConflictReason, RestoreConflict};
use super::stored_form;
use super::text_merge::{TextMerge, merge_text};
use crate::capture::{Capture, CaptureError};
use crate::diff::{capture_changes, permission_changes};
use crate::file_hashing::{CurrentContent, read_current_content};
use crate::object_store::{FileMode, ObjectError, ObjectRepository, TreeLeaf, hash_object};
use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason};
use crate::worktree::Worktree;

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
    /// The path.
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
    /// The path.
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
    /// Paths nothing can be said of.
    pub not_covered: Vec<(RelPath, UncoveredReason)>,
    /// The bytes of merges, which no capture holds yet.
    #[serde(with = "stored_form::merged_bytes")]
    pub merges: Vec<Vec<u8>>,
}

impl RestorePlan {
    /// What takes this plan back: each path as it was, changes made since kept.
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
}

impl RestorePlanner<'_> {
    /// Plans to bring paths to their targets, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Object`] if anything that is needed cannot be read whole.
    pub fn plan_targets(&self, targets: &[TargetState]) -> Result<RestorePlan, RestoreError> {
        let target_paths: BTreeSet<&RelPath> = targets.iter().map(|wanted| &wanted.path).collect();
        let by_path: BTreeMap<&RelPath, &TargetState> =
            targets.iter().map(|wanted| (&wanted.path, wanted)).collect();
        let mut plan = RestorePlan::default();
        for wanted in by_path.values() {
            for leaf in wanted.links.iter().filter_map(|link| link.target.leaf()) {
                self.repository.read_verified(&leaf.blob, Kind::Blob)?;
            }
            let disk = match read_current_content(self.worktree, &wanted.path) {
                // The link above it is to go by the same plan; then nothing is in the way.
                CurrentContent::Uncovered(UncoveredReason::BehindLink)
                    if wanted.path.ancestors().any(|above| target_paths.contains(&above)) =>
                {
                    CurrentContent::Absent
                }
                disk @ (CurrentContent::Present(..)
                | CurrentContent::Absent
                | CurrentContent::Uncovered(_)) => disk,
            };
            self.plan_path(&mut plan, wanted, disk)?;
        }
        Ok(plan)
    }

    /// Follows the steps of a target in memory; the path is written once, or not at all (R4).
    fn plan_path(
        &self,
        plan: &mut RestorePlan,
        wanted: &TargetState,
        disk: CurrentContent,
    ) -> Result<(), RestoreError> {
        let path = wanted.path.clone();
        let (expected, data) = match disk {
            CurrentContent::Absent => (PathImage::Absent, Vec::new()),
            CurrentContent::Present(stat, leaf, data) => {
                let perm = if leaf.mode == FileMode::Link { 0 } else { stat.perm };
                (PathImage::Present { leaf, perm }, data)
            }
            CurrentContent::Uncovered(reason) => {
                plan.not_covered.push((path, reason));
                return Ok(());
            }
        };
        let mut at = DerivedState { state: expected, data: Some(data), merged: false };
        match self.follow_links(&mut at, &wanted.links)? {
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
        if merged {
            plan.merges.extend(data);
        } else if wanted.links.iter().any(|link| !link.target_by.is_empty()) {
            // The result differs from the targets that were verified above.
            self.read_state_bytes(target)?;
        }
        plan.steps.push(RestoreStep { path, expected, target, merged });
        Ok(())
    }

    /// Goes steps in memory, until one cannot be gone.
    fn follow_links(
        &self,
        at: &mut DerivedState,
        links: &[ThreeWayStep],
    ) -> Result<Result<(), LinkFailure>, RestoreError> {
        for link in links {
            let base = match &link.base {
                Some(base) => self.derive_state(base, &link.base_by)?.map(Some),
                None => Ok(None),
            };
            let (base, target) = match (base, self.derive_state(&link.target, &link.target_by)?) {
                (Ok(base), Ok(target)) => (base, target),
                (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
            };
            if let Err(why) = self.apply_link(at, base.as_ref(), target)? {
                return Ok(Err(LinkFailure::Conflict(why)));
            }
        }
        Ok(Ok(()))
    }

    /// Where steps lead from an image.
    fn derive_state(
        &self,
        image: &PathImage,
        by: &[ThreeWayStep],
    ) -> Result<Result<DerivedState, LinkFailure>, RestoreError> {
        if let Some(reason) = image.uncovered_reason() {
            return Ok(Err(LinkFailure::NotCovered(reason)));
        }
        let mut at = DerivedState { state: *image, data: None, merged: false };
        Ok(self.follow_links(&mut at, by)?.map(|()| at))
    }

    /// Goes one step: restores, merges, finds it done already, or says why it cannot be gone.
    fn apply_link(
        &self,
        at: &mut DerivedState,
        base: Option<&DerivedState>,
        target: DerivedState,
    ) -> Result<Result<(), ConflictReason>, RestoreError> {
        let from = base.map(|base| base.state);
        // Done already, or a step that leads nowhere: whatever is there now came later and stays.
        if at.state == target.state || from == Some(target.state) {
            return Ok(Ok(()));
        }
        if from.is_none_or(|base| base.leaf() == at.state.leaf()) {
            *at = target;
        } else if at.state.leaf() != target.state.leaf() {
            match self.merge_states(base, at, &target)? {
                Ok((state, bytes)) => *at = DerivedState { state, data: Some(bytes), merged: true },
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(()))
    }

    fn read_state_bytes(&self, state: PathImage) -> Result<Vec<u8>, RestoreError> {
        match state.leaf() {
            Some(leaf) => Ok(self.repository.read_verified(&leaf.blob, Kind::Blob)?),
            None => Ok(Vec::new()),
        }
    }

    /// Merges what is there with what is wanted, if both are text.
    fn merge_states(
        &self,
        base: Option<&DerivedState>,
        disk: &DerivedState,
        target: &DerivedState,
    ) -> Result<Result<(PathImage, Vec<u8>), ConflictReason>, RestoreError> {
        let Some(base) = base else { return Ok(Err(ConflictReason::NotMergeable)) };
        let sides = [base.state, disk.state, target.state].map(|state| state.leaf());
        let [Some(was), Some(ours), Some(theirs)] = sides else {
            return Ok(Err(ConflictReason::NotMergeable));
        };
        if [was, ours, theirs].iter().any(|leaf| leaf.mode == FileMode::Link) {
            return Ok(Err(ConflictReason::NotMergeable));
        }
        let read = |side: &DerivedState| match &side.data {
            Some(data) => Ok(data.clone()),
            None => self.read_state_bytes(side.state),
        };
        let bytes = match merge_text(&read(base)?, &read(disk)?, &read(target)?) {
            TextMerge::Text(bytes) => bytes,
            TextMerge::Overlap => return Ok(Err(ConflictReason::Overlap)),
            TextMerge::NotText => return Ok(Err(ConflictReason::NotMergeable)),
        };
        // The mode is merged too: the side that changed it against the base wins.
        let kept = if ours.mode == was.mode { target.state } else { disk.state };
        let (mode, perm) = match kept {
            PathImage::Present { leaf, perm } => (leaf.mode, perm),
            PathImage::Absent | PathImage::Uncovered { .. } => (ours.mode, 0o600),
        };
        let blob = hash_object(Kind::Blob, &bytes)?;
        Ok(Ok((PathImage::Present { leaf: TreeLeaf { blob, mode }, perm }, bytes)))
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
        let mut changes = capture_changes(self.repository, now, target)?;
        changes.extend(permission_changes(self.repository, now, target)?);
        let targets: Vec<TargetState> = changes
            .into_iter()
            .filter(|change| chosen(&change.path))
            .filter(|change| !(keep_added && change.after == PathImage::Absent))
            .map(|change| {
                let base = matches!(change.before, PathImage::Uncovered { .. });
                TargetState::new(change.path, base.then_some(change.before), change.after)
            })
            .collect();
        self.plan_targets(&targets)
    }
}

/// The state of a path after some steps of its target.
struct DerivedState {
    state: PathImage,
    /// The bytes, unless the store has them.
    data: Option<Vec<u8>>,
    merged: bool,
}

/// Why a walk goes no further.
enum LinkFailure {
    Conflict(ConflictReason),
    NotCovered(UncoveredReason),
}
