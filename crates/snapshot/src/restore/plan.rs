//! Plans: what would be written, removed, merged, left alone; pure, from facts obtained first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use super::report::{ConflictReason, RestoreConflict};
use super::text_merge::{TextMerge, merge_text};
use crate::capture::{Capture, CaptureError};
use crate::coverage::UncoveredReason;
use crate::diff::ImageChange;
use crate::file_hashing::{CurrentContent, read_current_content};
use crate::object_store::{LeafMode, ObjectError, Oid, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::snapshot_store::SnapshotStore;

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
    /// The disk refused half way: files were written that could neither be taken back nor made
    /// durable. The plan is kept, and [`SnapshotStore::resume_restores`] finishes it.
    #[error("the restore was interrupted; resume it to finish")]
    Unfinished(#[source] io::Error),
}

/// What is wanted of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetState {
    /// Where.
    pub path: RelPath,
    /// The steps to what it should hold, each from where the one before led.
    pub links: Vec<TargetLink>,
}

/// One step of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetLink {
    /// What the path held when whatever is to be taken back had been done: changes since then are
    /// kept (three-way). Nothing: whatever is there makes way.
    pub base: Option<PathImage>,
    /// What it should hold.
    pub target: PathImage,
    /// Steps that are gone in memory first: the base is where they lead from what it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_by: Vec<TargetLink>,
    /// The same for the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_by: Vec<TargetLink>,
}

impl TargetLink {
    /// A step between two images.
    #[must_use]
    pub const fn new(base: Option<PathImage>, target: PathImage) -> Self {
        Self { base, target, base_by: Vec::new(), target_by: Vec::new() }
    }
}

impl TargetState {
    /// A wish of one step.
    #[must_use]
    pub fn new(path: RelPath, base: Option<PathImage>, target: PathImage) -> Self {
        Self { path, links: vec![TargetLink::new(base, target)] }
    }
}

/// What a path holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// No file.
    Absent,
    /// A file or a link.
    Present {
        /// Its bytes and mode.
        leaf: TreeLeaf,
        /// Its permission bits; zero for a link.
        perm: u32,
    },
}

/// One path that will be written or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreStep {
    /// Where.
    pub path: RelPath,
    /// What it holds now; if it holds anything else when its turn comes, it is left alone.
    pub expected: FileState,
    /// What it will hold.
    pub target: FileState,
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
    pub merges: Vec<Vec<u8>>,
}

impl RestorePlan {
    /// What takes this plan back: each path as it was, changes made since kept.
    #[must_use]
    pub fn inverse(&self) -> Vec<TargetState> {
        let image = |state: &FileState| match state {
            FileState::Absent => PathImage::Absent,
            FileState::Present { leaf, perm } => PathImage::Present { leaf: *leaf, perm: *perm },
        };
        let wish = |step: &RestoreStep| {
            TargetState::new(step.path.clone(), Some(image(&step.target)), image(&step.expected))
        };
        self.steps.iter().map(wish).collect()
    }
}

impl SnapshotStore {
    /// Plans to bring paths to what is wished, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Object`] if anything that is needed cannot be read whole.
    pub fn plan_targets(&self, wishes: &[TargetState]) -> Result<RestorePlan, RestoreError> {
        let wished: BTreeSet<&RelPath> = wishes.iter().map(|wish| &wish.path).collect();
        let by_path: BTreeMap<&RelPath, &TargetState> =
            wishes.iter().map(|wish| (&wish.path, wish)).collect();
        let mut plan = RestorePlan::default();
        for wish in by_path.values() {
            for leaf in wish.links.iter().filter_map(|link| link.target.leaf()) {
                self.repository.read_verified(&leaf.blob, Kind::Blob)?;
            }
            let disk = match read_current_content(&self.worktree, &wish.path) {
                // The link above it is to go by the same plan; then nothing is in the way.
                CurrentContent::Uncovered(UncoveredReason::BehindLink)
                    if wish.path.ancestors().any(|above| wished.contains(&above)) =>
                {
                    CurrentContent::Absent
                }
                disk @ (CurrentContent::Present(..)
                | CurrentContent::Absent
                | CurrentContent::Uncovered(_)) => disk,
            };
            self.plan_path(&mut plan, wish, disk)?;
        }
        Ok(plan)
    }

    /// Walks the steps of a wish in memory; the path is written once, or not at all (R4).
    fn plan_path(
        &self,
        plan: &mut RestorePlan,
        wish: &TargetState,
        disk: CurrentContent,
    ) -> Result<(), RestoreError> {
        let path = wish.path.clone();
        let (expected, data) = match disk {
            CurrentContent::Absent => (FileState::Absent, Vec::new()),
            CurrentContent::Present(stat, leaf, data) => {
                let perm = if leaf.mode == LeafMode::Link { 0 } else { stat.perm };
                (FileState::Present { leaf, perm }, data)
            }
            CurrentContent::Uncovered(reason) => {
                plan.not_covered.push((path, reason));
                return Ok(());
            }
        };
        let mut at = DerivedState { state: expected, data: Some(data), merged: false };
        match self.follow_links(&mut at, &wish.links)? {
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
        } else if wish.links.iter().any(|link| !link.target_by.is_empty()) {
            // It is none of the targets that were looked at.
            self.read_state_bytes(target)?;
        }
        plan.steps.push(RestoreStep { path, expected, target, merged });
        Ok(())
    }

    /// Goes steps in memory, until one cannot be gone.
    fn follow_links(
        &self,
        at: &mut DerivedState,
        links: &[TargetLink],
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
        by: &[TargetLink],
    ) -> Result<Result<DerivedState, LinkFailure>, RestoreError> {
        let mut at = match known_state(image) {
            Ok(state) => DerivedState { state, data: None, merged: false },
            Err(reason) => return Ok(Err(LinkFailure::NotCovered(reason))),
        };
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
        if from.is_none_or(|base| leaf_of(base) == leaf_of(at.state)) {
            *at = target;
        } else if leaf_of(at.state) != leaf_of(target.state) {
            match self.merge_states(base, at, &target)? {
                Ok((state, bytes)) => *at = DerivedState { state, data: Some(bytes), merged: true },
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(()))
    }

    fn read_state_bytes(&self, state: FileState) -> Result<Vec<u8>, RestoreError> {
        match leaf_of(state) {
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
    ) -> Result<Result<(FileState, Vec<u8>), ConflictReason>, RestoreError> {
        let Some(base) = base else { return Ok(Err(ConflictReason::NotMergeable)) };
        let sides = [base.state, disk.state, target.state].map(leaf_of);
        let [Some(was), Some(ours), Some(theirs)] = sides else {
            return Ok(Err(ConflictReason::NotMergeable));
        };
        if [was, ours, theirs].iter().any(|leaf| leaf.mode == LeafMode::Link) {
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
        // The mode is a change like any other: whoever changed it last against the base has it.
        let kept = if ours.mode == was.mode { target.state } else { disk.state };
        let (mode, perm) = match kept {
            FileState::Present { leaf, perm } => (leaf.mode, perm),
            FileState::Absent => (ours.mode, 0o600),
        };
        let blob = Oid::hash_of(Kind::Blob, &bytes)?;
        Ok(Ok((FileState::Present { leaf: TreeLeaf { blob, mode }, perm }, bytes)))
    }

    /// Plans to make the worktree, or some paths of it, equal to `target`; `now` is a fresh capture.
    ///
    /// With `keep_added`, files that `target` does not have stay.
    ///
    /// # Errors
    ///
    /// As [`SnapshotStore::plan_targets`].
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
        let mut changes = self.capture_changes(now, target)?;
        changes.extend(self.permission_changes(now, target)?);
        let wishes: Vec<TargetState> = changes
            .into_iter()
            .filter(|change| chosen(&change.path))
            .filter(|change| !(keep_added && change.after == PathImage::Absent))
            .map(|change| {
                let base = matches!(change.before, PathImage::Uncovered { .. });
                TargetState::new(change.path, base.then_some(change.before), change.after)
            })
            .collect();
        self.plan_targets(&wishes)
    }
}

impl SnapshotStore {
    /// Lists files whose bytes are the same and whose permission bits are not (R18).
    pub(crate) fn permission_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<ImageChange>, ObjectError> {
        let (before, after) = (&one.coverage.permissions, &other.coverage.permissions);
        if before == after {
            return Ok(Vec::new());
        }
        let images = |(path, leaf): (RelPath, TreeLeaf), also: Option<TreeLeaf>| {
            let before = PathImage::present(one, &path, leaf);
            let after = PathImage::present(other, &path, leaf);
            (also == Some(leaf) && before != after).then_some(ImageChange { path, before, after })
        };
        if (before.file, before.exec) != (after.file, after.exec) {
            // What is usual is another now, so any file may differ.
            let mut also = self.list_tree_leaves(&other.tree)?;
            let leaves = self.list_tree_leaves(&one.tree)?.into_iter();
            let change = |found: (RelPath, TreeLeaf)| {
                let also = also.remove(&found.0);
                images(found, also)
            };
            return Ok(leaves.filter_map(change).collect());
        }
        let listed: BTreeSet<&(RelPath, u32)> = before.other.iter().collect();
        let relisted: BTreeSet<&(RelPath, u32)> = after.other.iter().collect();
        let paths: BTreeSet<&RelPath> =
            listed.symmetric_difference(&relisted).map(|(path, _)| path).collect();
        let mut found = Vec::new();
        for path in paths {
            if let Some(leaf) = self.path_image(one, path)?.leaf() {
                let also = self.path_image(other, path)?.leaf();
                found.extend(images((path.clone(), leaf), also));
            }
        }
        Ok(found)
    }
}

/// Where the walk along the steps of a wish has come.
struct DerivedState {
    state: FileState,
    /// The bytes, unless the store has them.
    data: Option<Vec<u8>>,
    merged: bool,
}

/// Why a walk goes no further.
enum LinkFailure {
    Conflict(ConflictReason),
    NotCovered(UncoveredReason),
}

/// An image on which something may be built; otherwise the reason.
fn known_state(image: &PathImage) -> Result<FileState, UncoveredReason> {
    match image {
        PathImage::Present { leaf, perm } => Ok(FileState::Present { leaf: *leaf, perm: *perm }),
        PathImage::Absent => Ok(FileState::Absent),
        PathImage::Uncovered { reason } => Err(*reason),
    }
}

pub(super) fn leaf_of(state: FileState) -> Option<TreeLeaf> {
    match state {
        FileState::Present { leaf, .. } => Some(leaf),
        FileState::Absent => None,
    }
}
