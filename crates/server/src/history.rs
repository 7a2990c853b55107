//! Back and forth in a session, and what must hold before: nothing runs, and it is where it was seen.

use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Session, Status};
use turnstone_core::permission::Gate;
use turnstone_core::time::Cursor;
use turnstone_engine::OperationReport;
use turnstone_store::Context;

use crate::app::App;
use crate::error::ApiError;

/// A place a session is to go back to.
#[derive(Clone, Debug)]
pub(crate) struct Back {
    /// The first message that is taken back, or the one with the part.
    pub(crate) message: MessageId,
    /// The first part that is taken back.
    pub(crate) part: Option<PartId>,
    /// True if the files go back, too.
    pub(crate) files: bool,
}

impl App {
    /// Takes a session back; nothing if there is no such place in it, and nothing has changed.
    pub(crate) fn go_back(
        &self,
        ctx: &Context,
        id: &SessionId,
        to: &Back,
    ) -> Result<Option<OperationReport>, ApiError> {
        // OpenCode changes nothing and says so with a 200 if there is no such message.
        self.engine().store().read(ctx, |r| {
            r.get_message(id, &to.message)?;
            to.part.as_ref().map(|part| r.get_part(id, part)).transpose()
        })?;
        self.free(ctx, id)?;
        Ok(match to.files {
            true => self.engine().revert(ctx, id, &to.message, to.part.as_ref())?,
            false => self.engine().revert_conversation(ctx, id, &to.message)?,
        })
    }

    /// Brings a session to its end again.
    pub(crate) fn go_forth(&self, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
        self.free(ctx, id)?;
        self.engine().unrevert(ctx, id)?;
        Ok(())
    }

    /// Makes the place a session went back to its end, as a prompt there does (R19).
    pub(crate) fn stay_back(&self, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
        self.free(ctx, id)?;
        self.engine().require(ctx, id, Gate::Revert, &[])?;
        self.engine().cleanup(ctx, id)?;
        Ok(())
    }

    /// Refuses unless the session is where it was seen, and nothing runs.
    fn free(&self, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
        self.expected(ctx, id)?;
        self.idle(ctx, id)
    }

    /// The session that was made by the event at `cursor`; nothing if it is gone since.
    pub(crate) fn session_made_at(
        &self,
        ctx: &Context,
        cursor: Cursor,
    ) -> Result<Option<Session>, ApiError> {
        let found = self.engine().store().read(ctx, |r| {
            let page = r.log_after(Cursor(cursor.0 - 1), 1)?;
            let session = page.events.into_iter().find_map(|event| event.session);
            session.map(|id| r.find_session(&id)).transpose()
        })?;
        Ok(found.flatten())
    }

    /// Refuses what relies on a number the session has passed (R43). The statement that assigns the
    /// next number compares again; this is for what would not come so far.
    pub(crate) fn expected(&self, ctx: &Context, session: &SessionId) -> Result<(), ApiError> {
        let Some(expected) = ctx.expected_seq else { return Ok(()) };
        let current = self.engine().store().read(ctx, |r| r.session_seq(session))?;
        match current == expected {
            true => Ok(()),
            false => Err(ApiError::stale(session, expected, current)),
        }
    }

    /// Refuses while a turn of the session is open (R45).
    pub(crate) fn idle(&self, ctx: &Context, session: &SessionId) -> Result<(), ApiError> {
        match self.engine().store().read(ctx, |r| r.status(session))? {
            Status::Idle => Ok(()),
            Status::Busy | Status::Retry { .. } => {
                // Its process may be gone: then it is over, and this is how one finds out.
                self.engine().recover(ctx)?;
                match self.engine().store().read(ctx, |r| r.status(session))? {
                    Status::Idle => Ok(()),
                    Status::Busy | Status::Retry { .. } => Err(ApiError::busy(session)),
                }
            }
        }
    }
}
