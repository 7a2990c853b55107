//! Branching: a prompt at a head before the end hides what is behind it and destroys nothing (R19).

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnstone_core::id::{MessageId, OperationId, PartId, SessionId};
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead};
use turnstone_store::{
    Context, FinishedOperation, MessageOutlineRow, NewOperation, Store, StoreError,
};

use crate::error::Result;
use crate::history::undo::{TimelineSwitch, encode_branch};
use crate::id_generator::IdGenerator;

/// Things hidden in one transaction.
const HIDE_BATCH: usize = 100;
/// Messages or parts written in one transaction.
const SHOW_BATCH: usize = 50;

/// What a branch hides: the log keeps all of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionBranchPlan {
    messages: Vec<MessageId>,
    parts: Vec<PartId>,
}

/// Hides messages behind the head, and brings hidden ones back.
#[derive(Clone)]
pub(crate) struct TimelineBranches {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
}

impl TimelineBranches {
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
            head: HeadTarget::Tip,
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

    /// Changes the line of a session: hides one end and brings another one back. Safe to repeat.
    pub(crate) fn swap_timeline_messages(
        &self,
        ctx: &Context,
        session: &SessionId,
        switch: &TimelineSwitch,
    ) -> Result<()> {
        self.hide_messages(ctx, session, &switch.messages, &switch.parts)?;
        let (at, present) = self.store.read(ctx, |r| {
            Ok((
                r.history().session_at_boundary(session, switch.line)?,
                r.messages().outline(session)?,
            ))
        })?;
        let there: HashSet<&PartId> =
            present.iter().flat_map(|it| it.parts.iter().map(|(id, _)| id)).collect();
        let known: HashSet<&MessageId> = present.iter().map(|it| &it.message).collect();
        for said in at.messages {
            let mut parts: Vec<_> =
                said.parts.into_iter().filter(|part| !there.contains(&part.id)).collect();
            let mut message = (!known.contains(&said.message.id)).then_some(said.message);
            while message.is_some() || !parts.is_empty() {
                let rest = parts.split_off(parts.len().min(SHOW_BATCH));
                let (first, some) = (message.take(), std::mem::replace(&mut parts, rest));
                let show = move |tx: &turnstone_store::Tx<'_>| {
                    first.iter().try_for_each(|message| tx.messages().put(message).map(drop))?;
                    some.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
                };
                self.store.write(ctx, show).wait()?;
                fail::fail_point!("engine::line_shown", |_| {
                    Err(std::io::Error::other("failpoint").into())
                });
            }
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
