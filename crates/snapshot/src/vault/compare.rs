//! What lies between two captures, path by path, for whoever keeps change sets.

use serde::{Deserialize, Serialize};

use super::error::VaultError;
use super::open::Vault;
use crate::capture::Capture;
use crate::diff::{Change, Diff, DiffOptions, Unread};
use crate::image::Image;
use crate::object::ObjectError;
use crate::path::RelPath;
use crate::shadow::Shadow;

/// A path of which two captures say different things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// Where.
    pub path: RelPath,
    /// What the first capture says.
    pub before: Image,
    /// What the second capture says.
    pub after: Image,
}

impl Shadow {
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
        let mut changes = self.changes(one, other)?;
        changes.extend(self.permission_changes(one, other)?);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes.dedup_by(|one, other| one.path == other.path);
        let change = |Change { path, before, after }| PathChange { path, before, after };
        Ok(changes.into_iter().map(change).collect())
    }

    /// Shows changes whose sides are known, in the order given; a path may come more than once.
    ///
    /// # Errors
    ///
    /// An object cannot be read; there is no difference then, not an empty one.
    pub fn show_changes(
        &self,
        changes: &[PathChange],
        options: &DiffOptions,
    ) -> Result<Diff, ObjectError> {
        let _held = self.hold_objects();
        let change =
            |it: &PathChange| Change { path: it.path.clone(), before: it.before, after: it.after };
        let changes = changes.iter().map(change).collect();
        self.show(changes, options, |_, leaf| self.bytes_of(leaf).map_err(Unread::Object))
    }
}

impl Vault {
    /// As [`Shadow::list_changes`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn changes(&self, one: &Capture, other: &Capture) -> Result<Vec<PathChange>, VaultError> {
        Ok(self.shadow()?.list_changes(one, other)?)
    }

    /// As [`Shadow::show_changes`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn show_changes(
        &self,
        changes: &[PathChange],
        options: &DiffOptions,
    ) -> Result<Diff, VaultError> {
        Ok(self.shadow()?.show_changes(changes, options)?)
    }
}
