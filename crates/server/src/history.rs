//! What must hold before history is rewritten: nothing runs, and the session is where it was seen.

use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, Status};
use turnstone_core::time::Cursor;
use turnstone_store::Context;

use crate::app::App;
use crate::error::ApiError;

impl App {
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
