//! What came of a restore, path by path.

use std::io;

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
    /// Something that is not in the plan is in its place, above it, or in the directory to be replaced.
    InTheWay,
    /// The disk reported an error.
    Refused,
    /// Only its permissions were changed since, and it was to be removed or replaced.
    ModeChanged,
    /// It was created by what is undone, and its content was changed since.
    ChangedSinceCreation,
    /// It was removed since.
    Removed,
    /// Another file, link or directory was created there since.
    Recreated,
    /// It became a file, a link or a directory since.
    KindChanged,
    /// It holds the content of a path that could not be restored; without it only the guard would.
    OnlyCopy,
    /// It, or the directory it is in, may not be changed: it is read-only, or belongs to another user.
    ReadOnly,
    /// It, or the directory it is in, is immutable or append-only.
    Immutable,
    /// The disk has no room for it.
    NoSpace,
}

impl ConflictReason {
    /// The reason behind an error of the file system.
    pub(super) fn from_io_error(error: &io::Error) -> Self {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let kind = error.kind();
        if [PermissionDenied, ReadOnlyFilesystem].contains(&kind) {
            Self::ReadOnly
        } else if [StorageFull, QuotaExceeded].contains(&kind) {
            Self::NoSpace
        } else {
            Self::Refused
        }
    }

    /// As [`Self::from_io_error`] where the file system refused us; otherwise `other`.
    pub(super) fn from_io_error_or(error: &io::Error, other: Self) -> Self {
        match Self::from_io_error(error) == Self::ReadOnly {
            true => Self::ReadOnly,
            false => other,
        }
    }
}

/// A path that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreConflict {
    /// The file or directory that was left as it is.
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
    /// Directories that were created, removed, or given other permission bits, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<RelPath>,
    /// Directories that were to be removed and stay, because they hold something that stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_directories: Vec<RelPath>,
    /// How many paths already held what was wanted.
    pub unchanged: usize,
    /// Paths that are not covered, or whose current bytes could not be kept.
    pub not_covered: Vec<(RelPath, UncoveredReason)>,
    /// Paths written in place, because their owner, attributes or second names had to stay (R18).
    pub in_place: Vec<RelPath>,
    /// The capture of everything that was overwritten or removed; `None` if nothing was.
    pub guard: Option<Oid>,
}
