//! Branching: a prompt at a head before the end hides what is behind it and destroys nothing (R19).

use serde::{Deserialize, Serialize};
use turnstone_core::id::{MessageId, OperationId, PartId, SessionId};
use turnstone_core::operation::{HeadMove, OperationKind, SessionHead};
use turnstone_store::{Context, FinishedOperation, MessageOutlineRow, NewOperation, StoreError};

use crate::engine::Engine;
use crate::error::Result;
use crate::history::undo::encode_branch;

/// Things hidden in one transaction.
const HIDE_BATCH: usize = 100;

/// What a branch hides: the log keeps all of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionBranchPlan {
    messages: Vec<MessageId>,
    parts: Vec<PartId>,
}

impl Engine {
    /// Makes the head the end of the session, if it is not. Returns the context of what follows: if
    /// this was the first write of a call, what the caller relied on is settled (R43).
    pub(crate) fn branch_at_head(&self, ctx: &Context, session: &SessionId) -> Result<Context> {
        let (head, outline) = self
            .store
            .read(ctx, |r| Ok((r.sessions().head(session)?, r.messages().outline(session)?)))?;
        let Some(head) = head else {
            return Ok(ctx.clone());
        };
        let plan = plan_after_head(&head, &outline);
        let id = self.id_generator.new_operation_id(ctx.now)?;
        let new = NewOperation {
            id: id.clone(),
            kind: OperationKind::Branch,
            plan: encode_branch(&plan)?,
        };
        let name = session.clone();
        self.store.write(ctx, move |tx| tx.operations().plan(&name, &new)).wait()?;
        let settled = ctx.without_expected_seq();
        self.finish_branch(&settled, session, &id, &plan)?;
        Ok(settled)
    }

    /// Hides what is left to hide, newest first, and ends the operation.
    pub(crate) fn finish_branch(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &OperationId,
        plan: &SessionBranchPlan,
    ) -> Result<()> {
        self.hide_messages(ctx, session, &plan.messages, &plan.parts)?;
        let done = FinishedOperation {
            id: id.clone(),
            head: HeadMove::Tip,
            taken: Vec::new(),
            report: serde_json::json!({ "hidden": plan.messages.len() }),
        };
        let name = session.clone();
        self.store.write(ctx, move |tx| tx.operations().finish(&name, &done)).wait()?;
        Ok(())
    }

    /// Hides messages and parts, newest first; what is hidden already stays so.
    pub(crate) fn hide_messages(
        &self,
        ctx: &Context,
        session: &SessionId,
        messages: &[MessageId],
        parts: &[PartId],
    ) -> Result<()> {
        for parts in parts.rchunks(HIDE_BATCH) {
            let (name, parts) = (session.clone(), parts.to_vec());
            let hide = move |tx: &turnstone_store::Tx<'_>| {
                parts
                    .iter()
                    .rev()
                    .try_for_each(|part| ignore_missing(tx.messages().remove_part(&name, part)))
            };
            self.store.write(ctx, hide).wait()?;
        }
        for messages in messages.rchunks(HIDE_BATCH) {
            let (name, messages) = (session.clone(), messages.to_vec());
            let hide = move |tx: &turnstone_store::Tx<'_>| {
                messages
                    .iter()
                    .rev()
                    .try_for_each(|message| ignore_missing(tx.messages().remove(&name, message)))
            };
            self.store.write(ctx, hide).wait()?;
            fail::fail_point!("engine::branch_hides", |_| {
                Err(std::io::Error::other("failpoint").into())
            });
        }
        Ok(())
    }
}

/// What was hidden before a crash is hidden.
fn ignore_missing(removed: Result<(), StoreError>) -> Result<(), StoreError> {
    match removed {
        Err(StoreError::NoMessage { .. } | StoreError::NoPart { .. }) => Ok(()),
        removed => removed,
    }
}

/// What lies behind a head: the message itself and all after it, or parts of it and all after it.
fn plan_after_head(head: &SessionHead, outline: &[MessageOutlineRow]) -> SessionBranchPlan {
    let at = outline.iter().position(|it| it.message == head.message).unwrap_or(outline.len());
    let (keeps, parts) = match (&head.part, outline.get(at)) {
        (Some(part), Some(message)) => {
            let from = message.parts.iter().position(|(id, _)| id == part);
            let from = from.unwrap_or(message.parts.len());
            (1, message.parts[from..].iter().map(|(id, _)| id.clone()).collect())
        }
        _ => (0, Vec::new()),
    };
    let messages = outline.iter().skip(at + keeps).map(|it| it.message.clone()).collect();
    SessionBranchPlan { messages, parts }
}
