//! Closing: what a call changed, by comparing bytes, written down for ever.

use std::path::Path;

use turnstone_core::change::{Evidence, FileChange};
use turnstone_core::id::ChangeId;
use turnstone_snapshot::{Capture, PathChange, SnapshotHandle, read_git_position};
use turnstone_store::{CloseChangeSet, Context};

use super::open::{TrackedCall, session_pin_group};
use crate::captures::budgeted_capture::unknown_changes;
use crate::captures::image_conversion::to_file_image;
use crate::engine::Engine;
use crate::error::Result;
use crate::turns::turn::Turn;

/// What a call did to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedCall {
    /// Its change set.
    pub id: ChangeId,
    /// What changed, sorted by path; a change with an unknown side is in it too (R1).
    pub changes: Vec<FileChange>,
    /// How many of them, and of the paths outside, can never be taken back.
    pub not_covered: u64,
    /// What it did in other roots of the project (R39).
    pub other_roots: Vec<ClosedCall>,
}

impl Engine {
    /// Writes down what a call changed.
    ///
    /// # Errors
    ///
    /// The capture or the ledger failed; the change set stays open and recovery closes it.
    pub fn close_call(&self, ctx: &Context, turn: &Turn, call: &TrackedCall) -> Result<ClosedCall> {
        let evidence = match call.named {
            Some(_) => Evidence::Named,
            None => Evidence::Window,
        };
        let mut unseen = 0;
        let (after, changes) = match (&call.snapshots, &call.before) {
            (Some(vault), Some(before)) => {
                let (group, named) = (session_pin_group(&turn.session), call.named.as_ref());
                match self.try_capture_with_eviction(ctx, vault, &group, named)? {
                    Some(after) => {
                        let changes = compare_captures(vault, before, &after.capture)?;
                        (Some(after.capture.id.to_string()), changes)
                    }
                    None => {
                        unseen = usize::from(named.is_none());
                        (None, unknown_changes(named.into_iter().flatten()))
                    }
                }
            }
            (Some(_), None) => {
                unseen = usize::from(call.named.is_none());
                (None, unknown_changes(call.named.iter().flatten()))
            }
            (None, _) => (None, Vec::new()),
        };
        let uncovered = changes.iter().filter(|change| !change.is_covered()).count();
        let close = CloseChangeSet {
            id: call.id.clone(),
            evidence,
            after,
            changes: changes.clone(),
            not_covered: (uncovered + unseen + call.outside.len()) as u64,
            git: call
                .snapshots
                .as_ref()
                .and_then(|vault| read_git_position(Path::new(&vault.location().root))),
        };
        let name = turn.session.clone();
        let not_covered = close.not_covered;
        self.store
            .write(&turn.context(ctx), move |tx| tx.change_sets().close(&name, &close))
            .wait()?;
        let settled = ctx.without_expected_seq();
        let beside = call.other_roots.iter().map(|call| self.close_call(&settled, turn, call));
        let beside = beside.collect::<Result<_>>()?;
        Ok(ClosedCall { id: call.id.clone(), changes, not_covered, other_roots: beside })
    }
}

/// What differs between two captures, in the words of change sets.
pub(crate) fn compare_captures(
    vault: &SnapshotHandle,
    before: &Capture,
    after: &Capture,
) -> Result<Vec<FileChange>> {
    let change = |PathChange { path, before, after }| FileChange {
        path,
        before: to_file_image(&before),
        after: to_file_image(&after),
    };
    Ok(vault.list_changes(before, after)?.into_iter().map(change).collect())
}
