//! Work that began in a process that is gone, found again in the database.

use turnstone_core::id::{MessageId, PartId};
use turnstone_core::model::PartBody;
use turnstone_core::time::LogCursor;
use turnstone_store::{ChangeSetRow, Context, StoreError};

use crate::error::Result;
use crate::tool_calls::tracked_call::TrackedCall;
use crate::turns::step::{ModelStep, Steps, ToolRun};
use crate::turns::turn::Turn;

impl Steps {
    /// The model call that writes an answer, as [`Self::begin`] returned it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`] if it never began.
    pub fn find(&self, ctx: &Context, turn: &Turn, message: &MessageId) -> Result<ModelStep> {
        let session = &turn.session;
        let missing =
            || StoreError::NoMessage { session: session.clone(), message: message.clone() };
        let found = self.store.read(ctx, |r| {
            let said = r.messages().get(session, message)?;
            let outline = r.messages().outline(session)?;
            let outline = outline.into_iter().find(|it| it.message == *message);
            let parts =
                said.parts.into_iter().zip(outline.map(|it| it.part_cursors).unwrap_or_default());
            let start = |(part, at): (turnstone_core::model::Part, LogCursor)| {
                if let PartBody::StepStart(start) = part.body { Some((start, at)) } else { None }
            };
            parts.rev().find_map(start).ok_or_else(missing)
        })?;
        let (start, at) = found;
        Ok(ModelStep::from_database(message.clone(), start.snapshot, at))
    }

    /// A tool that runs, as [`Self::begin_tool`] returned it: its change sets are still open.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPart`], or a snapshot store cannot be opened.
    pub fn find_tool_run(&self, ctx: &Context, turn: &Turn, part: &PartId) -> Result<ToolRun> {
        let (found, rows) = self.store.read(ctx, |r| {
            let found = r.messages().get_part(&turn.session, part)?;
            Ok((found, r.change_sets().of_turn(&turn.session, &turn.id)?))
        })?;
        let is_its =
            |row: &ChangeSetRow| row.closed.is_none() && row.set.part.as_ref() == Some(part);
        let mut calls = Vec::new();
        for row in rows.into_iter().filter(is_its) {
            calls.push(self.calls.reopen(ctx, row)?);
        }
        let mut calls = calls.into_iter();
        let call = calls.next().map(|first| TrackedCall { other_roots: calls.collect(), ..first });
        Ok(ToolRun::from_database(found, call))
    }
}
