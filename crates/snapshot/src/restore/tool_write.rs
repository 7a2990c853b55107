//! Writes on behalf of a tool: the same swap and judgement, without an operation of their own.

use fail::fail_point;
use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use super::apply::RestoreRunner;
use super::pending_plan::{PendingPlan, random_id};
use super::plan::{RestoreError, RestorePlan, RestoreStep};
use super::report::RestoreReport;
use super::stored_form;
use crate::file_hashing::{CurrentContent, read_current_content};
use crate::object_store::{FileMode, Oid, TreeLeaf, hash_object};
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::worktree::Worktree;

/// The permission bits of a new file.
const DEFAULT_PERMISSIONS: u32 = 0o644;

/// A file a tool wants to have other bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionalWrite {
    /// The file, below the root.
    pub path: RelPath,
    /// What the tool last read; a path that holds anything else is not written.
    pub expected: PathImage,
    /// The new bytes; nothing removes the file.
    #[serde(with = "stored_form::optional_bytes")]
    pub bytes: Option<Vec<u8>>,
}

impl ConditionalWrite {
    /// Returns what the path is once it is written.
    ///
    /// # Errors
    ///
    /// The bytes cannot be hashed.
    pub fn to_written_path(&self) -> Result<WrittenPath, RestoreError> {
        let image = target_of_write(self.expected, self.bytes.as_deref())?;
        Ok(WrittenPath { path: self.path.clone(), image, bytes: self.bytes.clone() })
    }
}

/// What a tool left at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenPath {
    /// The file, below the root.
    pub path: RelPath,
    /// What it is.
    pub image: PathImage,
    /// Its bytes; nothing if the store has them, or if there is no file.
    #[serde(with = "stored_form::optional_bytes")]
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

impl RestoreRunner<'_> {
    /// Writes files that still hold what the writer expects; the others are conflicts.
    ///
    /// `guard` is a capture that holds the present bytes: the caller made and keeps it, and nothing
    /// is written that is not in it. After a crash, [`RestoreRunner::resume`] finishes the work.
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
            let expected = write.expected;
            if let Some(reason) = expected.uncovered_reason() {
                plan.not_covered.push((write.path.clone(), reason));
                continue;
            }
            let target = target_of_write(expected, write.bytes.as_deref())?;
            let path = write.path.clone();
            if target == expected {
                plan.unchanged.push(path);
                continue;
            }
            plan.merges.extend(write.bytes.clone());
            plan.steps.push(RestoreStep { path, expected, target, merged: write.bytes.is_some() });
        }
        self.store.worktree.check_root().map_err(|error| RestoreError::Guard(error.into()))?;
        let guard = self.store.captures().get(guard)?;
        let stored =
            PendingPlan { id: random_id()?, guard: guard.id, plan, left: None, entry: None };
        stored.save(&self.store.directory)?;
        fail_point!("snapshot::write_stored", |_| Err(std::io::Error::other("failpoint").into()));
        self.run_plan(&stored, &guard)
    }
}

/// Reads one path, following no link.
pub(crate) fn read_path_state(worktree: &Worktree, path: &RelPath) -> PathState {
    let CurrentContent { image, stat, data } = read_current_content(worktree, path);
    let modified = stat.map(|stat| stat.mtime / 1_000_000);
    // To a tool that reads and writes files a directory is no file.
    let image = if image.is_directory() { PathImage::Absent } else { image };
    PathState { image, bytes: stat.map(|_| data), modified }
}

/// The file with its new bytes: what it was, it stays.
fn target_of_write(expected: PathImage, bytes: Option<&[u8]>) -> Result<PathImage, RestoreError> {
    let Some(bytes) = bytes else {
        return Ok(PathImage::Absent);
    };
    let blob = hash_object(Kind::Blob, bytes)?;
    let (mode, perm) = match expected {
        PathImage::Present { leaf, perm } if leaf.mode != FileMode::Link => (leaf.mode, perm),
        PathImage::Present { .. }
        | PathImage::Directory { .. }
        | PathImage::Absent
        | PathImage::Uncovered { .. } => (FileMode::File, DEFAULT_PERMISSIONS),
    };
    Ok(PathImage::Present { leaf: TreeLeaf { blob, mode }, perm })
}
