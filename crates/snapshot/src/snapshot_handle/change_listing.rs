//! What lies between two captures, path by path, for whoever keeps change sets.

use serde::{Deserialize, Serialize};

use super::error::SnapshotError;
use super::handle::SnapshotHandle;
use crate::capture::Capture;
use crate::diff::{CaptureDiff, DiffOptions, ImageChange, UnreadSide};
use crate::object_store::ObjectError;
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::snapshot_store::SnapshotStore;

/// A path of which two captures say different things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// Where.
    pub path: RelPath,
    /// What the first capture says.
    pub before: PathImage,
    /// What the second capture says.
    pub after: PathImage,
}

impl SnapshotStore {
    /// Lists the paths of which two captures say different things, sorted: bytes, kinds, modes and
    /// permission bits. Where one of them does not cover a path, its side says so (R1).
    ///
    /// # Errors
    ///
    /// A tree cannot be read; there is no list then, not a short one.
    pub fn list_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<PathChange>, ObjectError> {
        let mut changes = self.capture_changes(one, other)?;
        changes.extend(self.permission_changes(one, other)?);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes.dedup_by(|one, other| one.path == other.path);
        let change = |ImageChange { path, before, after }| PathChange { path, before, after };
        Ok(changes.into_iter().map(change).collect())
    }

    /// Shows changes whose sides are known, in the order given; a path may come more than once.
    ///
    /// # Errors
    ///
    /// An object cannot be read; there is no difference then, not an empty one.
    pub fn diff_changes(
        &self,
        changes: &[PathChange],
        options: &DiffOptions,
    ) -> Result<CaptureDiff, ObjectError> {
        let _held = self.lock_objects_shared();
        let change = |it: &PathChange| ImageChange {
            path: it.path.clone(),
            before: it.before,
            after: it.after,
        };
        let changes = changes.iter().map(change).collect();
        self.build_diff(changes, options, |_, leaf| {
            self.read_leaf_bytes(leaf).map_err(UnreadSide::Object)
        })
    }
}

impl SnapshotHandle {
    /// As [`SnapshotStore::list_changes`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<PathChange>, SnapshotError> {
        Ok(self.store()?.list_changes(one, other)?)
    }

    /// As [`SnapshotStore::diff_changes`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn diff_changes(
        &self,
        changes: &[PathChange],
        options: &DiffOptions,
    ) -> Result<CaptureDiff, SnapshotError> {
        Ok(self.store()?.diff_changes(changes, options)?)
    }
}
