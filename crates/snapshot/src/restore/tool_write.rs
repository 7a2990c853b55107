//! Writes on behalf of a tool: the same swap and judgement, without an operation of their own.

use fail::fail_point;
use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use super::pending_plan::{PendingPlan, random_id};
use super::plan::{FileState, RestoreError, RestorePlan, RestoreStep};
use super::report::RestoreReport;
use crate::coverage::UncoveredReason;
use crate::file_hashing::{CurrentContent, read_current_content};
use crate::object_store::{LeafMode, Oid, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::snapshot_store::SnapshotStore;

/// The permission bits of a file nobody had before.
const DEFAULT_PERMISSIONS: u32 = 0o644;

/// A file a tool wants to have other bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionalWrite {
    /// Which.
    pub path: RelPath,
    /// What the tool believes is there; anything else is left alone.
    pub expected: PathImage,
    /// The new bytes; nothing removes the file.
    pub bytes: Option<Vec<u8>>,
}

/// What is at a path at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathState {
    /// Its image; uncovered if it cannot be looked at.
    pub image: PathImage,
    /// Its bytes, if it is a file or a link.
    pub bytes: Option<Vec<u8>>,
    /// When it was last written, in milliseconds since the epoch.
    pub modified: Option<i64>,
}

impl SnapshotStore {
    /// Looks at one path, following no link.
    #[must_use]
    pub fn read_path(&self, path: &RelPath) -> PathState {
        match read_current_content(&self.worktree, path) {
            CurrentContent::Absent => {
                PathState { image: PathImage::Absent, bytes: None, modified: None }
            }
            CurrentContent::Uncovered(reason) => {
                PathState { image: PathImage::Uncovered { reason }, bytes: None, modified: None }
            }
            CurrentContent::Present(stat, leaf, data) => {
                let perm = if leaf.mode == LeafMode::Link { 0 } else { stat.perm };
                let image = PathImage::Present { leaf, perm };
                PathState { image, bytes: Some(data), modified: Some(stat.mtime / 1_000_000) }
            }
        }
    }

    /// Writes files that still hold what their writer believes; the others are conflicts.
    ///
    /// `guard` is a capture that holds the present bytes: the caller made and keeps it, and nothing
    /// is written that is not in it. After a crash, [`SnapshotStore::resume_restores`] finishes the work.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]; no file has changed, except under [`RestoreError::Unfinished`].
    pub fn write_files(
        &self,
        writes: &[ConditionalWrite],
        guard: &Oid,
    ) -> Result<RestoreReport, RestoreError> {
        let mut plan = RestorePlan::default();
        for write in writes {
            let expected = match write.expected {
                PathImage::Present { leaf, perm } => FileState::Present { leaf, perm },
                PathImage::Absent => FileState::Absent,
                PathImage::Uncovered { reason } => {
                    plan.not_covered.push((write.path.clone(), reason));
                    continue;
                }
            };
            let target = target_of_write(expected, write.bytes.as_deref())?;
            let path = write.path.clone();
            if target == expected {
                plan.unchanged.push(path);
                continue;
            }
            plan.merges.extend(write.bytes.clone());
            plan.steps.push(RestoreStep { path, expected, target, merged: write.bytes.is_some() });
        }
        self.worktree.check_root().map_err(|error| RestoreError::Guard(error.into()))?;
        let guard = self.get_capture(guard)?;
        let stored =
            PendingPlan { id: random_id()?, guard: guard.id, plan, left: None, entry: None };
        stored.save(&self.directory)?;
        fail_point!("snapshot::write_stored", |_| Err(std::io::Error::other("failpoint").into()));
        self.run_plan(&stored, &guard)
    }
}

/// The file with its new bytes: what it was, it stays.
fn target_of_write(expected: FileState, bytes: Option<&[u8]>) -> Result<FileState, RestoreError> {
    let Some(bytes) = bytes else {
        return Ok(FileState::Absent);
    };
    let blob = Oid::hash_of(Kind::Blob, bytes)?;
    let (mode, perm) = match expected {
        FileState::Present { leaf, perm } if leaf.mode != LeafMode::Link => (leaf.mode, perm),
        FileState::Present { .. } | FileState::Absent => (LeafMode::File, DEFAULT_PERMISSIONS),
    };
    Ok(FileState::Present { leaf: TreeLeaf { blob, mode }, perm })
}

impl PathState {
    /// Why it cannot be looked at, if it cannot.
    #[must_use]
    pub const fn uncovered_reason(&self) -> Option<UncoveredReason> {
        match self.image {
            PathImage::Uncovered { reason } => Some(reason),
            PathImage::Present { .. } | PathImage::Absent => None,
        }
    }
}
