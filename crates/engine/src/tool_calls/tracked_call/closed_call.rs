//! The result of a call: what it changed, found by comparing bytes.

use turnstone_core::change::FileChange;
use turnstone_core::id::ChangeId;
use turnstone_snapshot::{Capture, SnapshotHandle};

use crate::error::Result;

/// What a call did to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedCall {
    /// Its change set.
    pub id: ChangeId,
    /// What changed, sorted by path; a change with an unknown side is in it too (R1).
    pub changes: Vec<FileChange>,
    /// How many of them, and of the paths outside, cannot be undone.
    pub not_covered: u64,
    /// What it did in other roots of the project (R39).
    pub other_roots: Vec<ClosedCall>,
}

/// What differs between two captures, in the words of change sets.
pub(crate) fn compare_captures(
    handle: &SnapshotHandle,
    before: &Capture,
    after: &Capture,
) -> Result<Vec<FileChange>> {
    Ok(handle.reader().list_changes(before, after)?)
}
