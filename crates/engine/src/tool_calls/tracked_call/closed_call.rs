//! The result of a call: what it changed, found by comparing bytes.

use std::path::PathBuf;

use turnstone_core::change::{Evidence, FileChange, TraceReport};
use turnstone_core::id::{ChangeId, PartId};
use turnstone_snapshot::{Capture, SnapshotHandle};
use turnstone_store::NewChangeSet;

use crate::error::Result;

/// What a call did to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedCall {
    /// Its change set.
    pub id: ChangeId,
    /// How its changes are known.
    pub evidence: Evidence,
    /// What changed, sorted by path; a change with an unknown side is in it too (R1).
    pub changes: Vec<FileChange>,
    /// How many of them, and of the paths outside, cannot be undone.
    pub not_covered: u64,
    /// What a trace of the call tells besides; nothing if none was asked for.
    pub trace: Option<TraceReport>,
    /// What it did in other roots of the project (R39).
    pub other_roots: Vec<ClosedCall>,
    /// True if the disk was too full to capture what it changed: recovery finds that out later.
    pub is_pending: bool,
    /// Files in other worktrees of the project that changed while it ran, by whom is not known: they belong to no
    /// change set of this call.
    pub unclaimed: Vec<PathBuf>,
    /// Other worktrees of the project that were not compared.
    pub uncompared: Vec<PathBuf>,
    /// The window of the processes that it left running; nothing if none is left, or they are not traced.
    pub continuation: Option<Box<NewChangeSet>>,
}

impl ClosedCall {
    /// What a call did in one root.
    pub(crate) const fn new(
        id: ChangeId,
        evidence: Evidence,
        changes: Vec<FileChange>,
        not_covered: u64,
    ) -> Self {
        Self {
            id,
            evidence,
            changes,
            not_covered,
            trace: None,
            other_roots: Vec::new(),
            is_pending: false,
            unclaimed: Vec::new(),
            uncompared: Vec::new(),
            continuation: None,
        }
    }

    /// The change set of the processes that the call left running, as one of the same tool call.
    pub(crate) fn continuation_for(&self, part: &PartId) -> Option<NewChangeSet> {
        let next = self.continuation.as_deref()?;
        Some(NewChangeSet { part: Some(part.clone()), ..next.clone() })
    }
}

/// What differs between two captures, in the words of change sets.
pub(crate) fn compare_captures(
    handle: &SnapshotHandle,
    before: &Capture,
    after: &Capture,
) -> Result<Vec<FileChange>> {
    Ok(handle.reader().list_changes(before, after)?)
}
