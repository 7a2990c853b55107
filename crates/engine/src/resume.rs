//! Work that began in a process that is gone, found again in the ledger; and new ids for whoever
//! writes rows from outside.

use turnstone_core::change::Evidence;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::PartBody;
use turnstone_core::time::Cursor;
use turnstone_store::{ChangeRow, Context, StoreError};

use crate::call::Call;
use crate::engine::Engine;
use crate::error::Result;
use crate::step::{Step, ToolRun};
use crate::turn::Turn;

impl Engine {
    /// An id for a new message of a session: it sorts after those that are there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn new_message(&self, ctx: &Context, session: &SessionId) -> Result<MessageId> {
        let newest = self.store.read(ctx, |r| r.greatest_recent_message(session))?;
        self.mint.message_after(newest.as_ref(), ctx.now)
    }

    /// An id for a new part.
    ///
    /// # Errors
    ///
    /// No randomness to be had.
    pub fn new_part(&self, ctx: &Context) -> Result<PartId> {
        self.mint.part(ctx.now)
    }

    /// The model call that writes an answer, as [`Engine::begin_step`] returned it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`] if it never began.
    pub fn find_step(&self, ctx: &Context, turn: &Turn, message: &MessageId) -> Result<Step> {
        let session = &turn.session;
        let missing =
            || StoreError::NoMessage { session: session.clone(), message: message.clone() };
        let found = self.store.read(ctx, |r| {
            let said = r.get_message(session, message)?;
            let outline = r.outline(session)?;
            let outline = outline.into_iter().find(|it| it.message == *message);
            let parts =
                said.parts.into_iter().zip(outline.map(|it| it.appeared).unwrap_or_default());
            let start = |(part, at): (turnstone_core::model::Part, Cursor)| {
                if let PartBody::StepStart(start) = part.body { Some((start, at)) } else { None }
            };
            parts.rev().find_map(start).ok_or_else(missing)
        })?;
        let (start, at) = found;
        Ok(Step::found(message.clone(), start.snapshot, at))
    }

    /// A tool that runs, as [`Engine::tool_before`] returned it: its change sets are still open.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPart`], or a snapshot store cannot be opened.
    pub fn find_tool(&self, ctx: &Context, turn: &Turn, part: &PartId) -> Result<ToolRun> {
        let (found, rows) = self.store.read(ctx, |r| {
            let found = r.get_part(&turn.session, part)?;
            Ok((found, r.turn_changes(&turn.session, &turn.id)?))
        })?;
        let is_its = |row: &ChangeRow| row.closed.is_none() && row.set.part.as_ref() == Some(part);
        let mut calls = Vec::new();
        for row in rows.into_iter().filter(is_its) {
            calls.push(self.call_of(ctx, row)?);
        }
        let mut calls = calls.into_iter();
        let call = calls.next().map(|first| Call { beside: calls.collect(), ..first });
        Ok(ToolRun::found(found, call))
    }

    fn call_of(&self, ctx: &Context, row: ChangeRow) -> Result<Call> {
        let (mut vault, mut capture) = (None, None);
        if let Some(before) = &row.before {
            let found = self.vault_of(&row.set.root, ctx.now)?;
            capture = Some(found.find_capture(before)?);
            vault = Some(found);
        }
        let named = match row.set.evidence {
            Evidence::Named => Some(row.named.into_iter().collect()),
            Evidence::Window | Evidence::Recovered => None,
        };
        let (outside, beside) = (Vec::new(), Vec::new());
        Ok(Call { id: row.set.id, outside, beside, vault, before: capture, named })
    }
}
