//! What an import leaves to the engine: the position that a session was reverted to, and its files.

use std::sync::Arc;

use turnstone_core::change::Evidence;
use turnstone_core::id::SessionId;
use turnstone_core::operation::{
    HeadTarget, OperationKind, SessionHead, UndoExtent, UndoneChangeSet,
};
use turnstone_store::{Context, FinishedOperation, NewOperation, OperationRow, Store, Tx};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::session_changes::SessionChanges;
use crate::history::timeline::{TIMELINE_END, Timeline, TimelinePosition};
use crate::history::undo::{UndoPlan, UndoSelection, encode_plan, encode_report};
use crate::id_generator::IdGenerator;

/// Completes imported sessions.
#[derive(Clone)]
pub struct ImportedSessions {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) changes: SessionChanges,
    pub(crate) selection: UndoSelection,
}

impl ImportedSessions {
    /// Brings the head of an imported session to the position its source had reverted it to, and records what that
    /// had undone. Returns true if it recorded anything; repeating it changes nothing. No file changes: the source had
    /// restored them.
    ///
    /// Only for sessions that were not changed here since: a head that the user moved stays the user's.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NoSession`], [`turnstone_store::StoreError::Busy`] while a turn runs.
    pub fn adopt_revert(&self, ctx: &Context, session: &SessionId) -> Result<bool> {
        let (revert, line, operations) = self.store.read(ctx, |r| {
            let line = Timeline::read(r, session)?;
            Ok((r.sessions().get(session)?.revert, line, r.operations().list(session)?))
        })?;
        let wanted = revert.map(|it| SessionHead { message: it.message, part: it.part });
        // A source may name a message that it no longer has.
        let wanted = wanted.filter(|head| line.contains_head(head));
        let (there, here) = (line.position_of(wanted.as_ref()), line.head_position());
        let undone = self.list_undone(ctx, session, (&line, &operations), there)?;
        if wanted == line.head && undone.is_empty() {
            return Ok(false);
        }
        let kind = if there > here { OperationKind::Redo } else { OperationKind::Undo };
        let id = self.id_generator.new_operation_id(ctx.now)?;
        let mut plan = UndoPlan::empty(id.clone(), kind, session.clone());
        // Without a move of the head, it is about everything behind it.
        let end = if there == here { TIMELINE_END } else { there.max(here) };
        let moved = line.turns_within(there.min(here), end);
        plan.turns = moved.into_iter().map(|turn| turn.id.clone()).collect();
        plan.head = wanted.map_or(HeadTarget::Tip, HeadTarget::To);
        let files =
            self.selection.list_imported_files(ctx, session, &line, (there, TIMELINE_END))?;
        (plan.not_covered, plan.outside) = (files.inside, files.outside);
        let new = NewOperation { id: id.clone(), kind, plan: encode_plan(&plan)? };
        let report = encode_report(&plan.build_report(Vec::new()))?;
        let done = FinishedOperation { id, head: plan.head, taken: undone, report };
        let name = session.clone();
        let write = move |tx: &Tx<'_>| {
            tx.operations().plan(&name, &new)?;
            tx.operations().finish(&name, &done)
        };
        self.store.write(ctx, write).wait()?;
        Ok(true)
    }

    /// The imported change sets behind a position of which no operation says yet whether they are undone: the source
    /// had restored their files when it reverted the session.
    fn list_undone(
        &self,
        ctx: &Context,
        session: &SessionId,
        (line, operations): (&Timeline, &[OperationRow]),
        there: TimelinePosition,
    ) -> Result<Vec<UndoneChangeSet>> {
        let mut changes = self.changes.of_session(ctx, session, line)?;
        changes.retain(|selected| {
            let set = &selected.row.set;
            let mut ended = operations.iter().filter_map(|it| it.done.as_ref());
            let is_recorded = ended.any(|done| done.taken.iter().any(|it| it.change == set.id));
            let at = line.change_set_position(session, &selected.turn, &selected.row);
            set.evidence == Evidence::Imported && !is_recorded && at.is_some_and(|at| at >= there)
        });
        let undone = |change| UndoneChangeSet { change, extent: UndoExtent::All };
        Ok(changes.into_iter().map(|selected| undone(selected.row.set.id)).collect())
    }
}
