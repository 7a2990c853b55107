//! Pinning: a copy keeps the captures it needs in its own group (R40).

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::ChangeRoot;
use turnstone_core::id::TurnId;
use turnstone_snapshot::Oid;
use turnstone_store::Context;

use super::copy::SessionCopy;
use crate::error::{EngineError, Result};
use crate::history::fork::SessionCopies;
use crate::tool_calls::tracked_call::session_pin_group;

impl SessionCopies {
    /// Pins the captures of the copy in its own group, before its first row; notes which turns have
    /// lost one.
    pub(super) fn pin_captures(&self, ctx: &Context, copy: &mut SessionCopy) -> Result<()> {
        let mut captures: BTreeMap<&ChangeRoot, Vec<(Oid, &TurnId)>> = BTreeMap::new();
        for selected in &copy.changes {
            let row = &selected.row;
            let pinned = captures.entry(&row.set.root).or_default();
            for id in row.before.iter().chain(&row.after) {
                let unreadable = |source| EngineError::UnreadableCaptureId {
                    change: row.set.id.clone(),
                    source,
                };
                pinned.push((id.parse::<Oid>().map_err(unreadable)?, &selected.turn));
            }
        }
        let mut lost = BTreeSet::new();
        for (root, needs) in captures {
            if needs.is_empty() {
                continue;
            }
            let handle = match self.snapshots.of_root(root, ctx.now) {
                // In a directory that is gone nothing can be undone anyway.
                Err(EngineError::DirectoryGone { .. } | EngineError::DirectoryReplaced { .. }) => {
                    continue;
                }
                found => found?,
            };
            let ids: Vec<Oid> = needs.iter().map(|(id, _)| *id).collect();
            let missing =
                handle.pin_captures(&ids, &session_pin_group(&copy.session.id), ctx.now)?;
            let gone = needs.into_iter().filter(|(id, _)| missing.contains(id));
            lost.extend(gone.map(|(_, turn)| turn.clone()));
        }
        copy.expired_turns = lost;
        Ok(())
    }
}
