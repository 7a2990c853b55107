//! Closing: what a call changed, by comparing bytes, written down for ever.

use std::path::Path;

use turnstone_core::change::{Evidence, FileChange};
use turnstone_core::id::ChangeId;
use turnstone_snapshot::{Capture, PathChange, Vault, git_point};
use turnstone_store::{CloseChange, Context};

use super::open::{Call, group_of};
use crate::engine::Engine;
use crate::error::Result;
use crate::image::written;
use crate::room::unknown;
use crate::turn::Turn;

/// What a call did to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its change set.
    pub id: ChangeId,
    /// What changed, sorted by path; a change with an unknown side is in it too (R1).
    pub changes: Vec<FileChange>,
    /// How many of them, and of the paths outside, can never be taken back.
    pub not_covered: u64,
    /// What it did in other roots of the project (R39).
    pub beside: Vec<Closed>,
}

impl Engine {
    /// Writes down what a call changed.
    ///
    /// # Errors
    ///
    /// The capture or the ledger failed; the change set stays open and recovery closes it.
    pub fn close_call(&self, ctx: &Context, turn: &Turn, call: &Call) -> Result<Closed> {
        let evidence = match call.named {
            Some(_) => Evidence::Named,
            None => Evidence::Window,
        };
        let mut unseen = 0;
        let (after, changes) = match (&call.vault, &call.before) {
            (Some(vault), Some(before)) => {
                let (group, named) = (group_of(&turn.session), call.named.as_ref());
                match self.capture_after(ctx, vault, &group, named)? {
                    Some(after) => {
                        let changes = compare(vault, before, &after.capture)?;
                        (Some(after.capture.id.to_string()), changes)
                    }
                    None => {
                        unseen = usize::from(named.is_none());
                        (None, unknown(named.into_iter().flatten()))
                    }
                }
            }
            _ => (None, Vec::new()),
        };
        let uncovered = changes.iter().filter(|change| !change.is_covered()).count();
        let close = CloseChange {
            id: call.id.clone(),
            evidence,
            after,
            changes: changes.clone(),
            not_covered: (uncovered + unseen + call.outside.len()) as u64,
            git: call.vault.as_ref().and_then(|vault| git_point(Path::new(&vault.place().root))),
        };
        let name = turn.session.clone();
        let not_covered = close.not_covered;
        self.store.write(&turn.context(ctx), move |tx| tx.close_change(&name, &close)).wait()?;
        let settled = ctx.settled();
        let beside = call.beside.iter().map(|call| self.close_call(&settled, turn, call));
        let beside = beside.collect::<Result<_>>()?;
        Ok(Closed { id: call.id.clone(), changes, not_covered, beside })
    }
}

/// What differs between two captures, in the words of change sets.
pub(crate) fn compare(vault: &Vault, before: &Capture, after: &Capture) -> Result<Vec<FileChange>> {
    let change = |PathChange { path, before, after }| FileChange {
        path,
        before: written(&before),
        after: written(&after),
    };
    Ok(vault.changes(before, after)?.into_iter().map(change).collect())
}
