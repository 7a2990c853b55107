//! What came of a restore, path by path.

use serde::{Deserialize, Serialize};

use crate::object_store::Oid;
use crate::path::RelPath;
use crate::path_image::UncoveredReason;

/// Why a path was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictReason {
    /// The same lines were changed in both.
    Overlap,
    /// It was changed since and is no text that could be merged.
    NotMergeable,
    /// It was changed since the plan was made.
    Changed,
    /// Something that is not in the plan is in its place.
    InTheWay,
    /// The disk reported an error.
    Refused,
}

/// A path that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreConflict {
    /// The path.
    pub path: RelPath,
    /// Why it was left as it is.
    pub why: ConflictReason,
}

/// What a restore did, compared with the bytes on disk afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// Paths that hold what was wanted now and did not before.
    pub restored: Vec<RelPath>,
    /// Paths that are gone now.
    pub removed: Vec<RelPath>,
    /// Paths that hold what was wanted and what was changed since.
    pub merged: Vec<RelPath>,
    /// Paths that were left as they are.
    pub conflicts: Vec<RestoreConflict>,
    /// How many paths already held what was wanted.
    pub unchanged: usize,
    /// Paths nothing can be said of, or whose present bytes could not be kept.
    pub not_covered: Vec<(RelPath, UncoveredReason)>,
    /// Paths written in place, because their owner, attributes or second names had to stay (R18).
    pub in_place: Vec<RelPath>,
    /// The capture of everything that was overwritten or removed; `None` if nothing was.
    pub guard: Option<Oid>,
}
