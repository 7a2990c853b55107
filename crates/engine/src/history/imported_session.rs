//! What an import leaves to the engine: the position that a session was reverted to, and its files.

use std::sync::Arc;

use turnstone_core::id::SessionId;
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead};
use turnstone_store::{Context, FinishedOperation, NewOperation, Store, Tx};

use crate::error::Result;
use crate::history::timeline::{TIMELINE_END, Timeline};
use crate::history::undo::{UndoPlan, UndoSelection, encode_plan, encode_report};
use crate::id_generator::IdGenerator;

/// Completes imported sessions.
#[derive(Clone)]
pub struct ImportedSessions {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) selection: UndoSelection,
}

impl ImportedSessions {
    /// Brings the head of an imported session to the position its source had reverted it to. Returns true if the
    /// head moved; repeating it changes nothing. No file changes: the source had restored them.
    ///
    /// Only for sessions that were not changed here since: a head that the user moved stays the user's.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NoSession`], [`turnstone_store::StoreError::Busy`] while a turn runs.
    pub fn adopt_revert(&self, ctx: &Context, session: &SessionId) -> Result<bool> {
        let (revert, line) = self
            .store
            .read(ctx, |r| Ok((r.sessions().get(session)?.revert, Timeline::read(r, session)?)))?;
        let wanted = revert.map(|it| SessionHead { message: it.message, part: it.part });
        // A source may name a message that it no longer has.
        let wanted = wanted.filter(|head| line.contains_head(head));
        if wanted == line.head {
            return Ok(false);
        }
        let (there, here) = (line.position_of(wanted.as_ref()), line.head_position());
        let kind = if there > here { OperationKind::Redo } else { OperationKind::Undo };
        let id = self.id_generator.new_operation_id(ctx.now)?;
        let mut plan = UndoPlan::empty(id.clone(), kind, session.clone());
        let moved = line.turns_within(there.min(here), there.max(here));
        plan.turns = moved.into_iter().map(|turn| turn.id.clone()).collect();
        plan.head = wanted.map_or(HeadTarget::Tip, HeadTarget::To);
        let files =
            self.selection.list_imported_files(ctx, session, &line, (there, TIMELINE_END))?;
        (plan.not_covered, plan.outside) = (files.inside, files.outside);
        let new = NewOperation { id: id.clone(), kind, plan: encode_plan(&plan)? };
        let report = encode_report(&plan.build_report(Vec::new()))?;
        let done = FinishedOperation { id, head: plan.head, taken: Vec::new(), report };
        let name = session.clone();
        let write = move |tx: &Tx<'_>| {
            tx.operations().plan(&name, &new)?;
            tx.operations().finish(&name, &done)
        };
        self.store.write(ctx, write).wait()?;
        Ok(true)
    }
}
