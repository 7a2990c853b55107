//! What must hold before history is rewritten: nothing runs, and the rules let this caller.

use axum::http::StatusCode;
use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, Status};
use turnstone_core::permission::{Caller, Gate};
use turnstone_core::time::Cursor;
use turnstone_engine::{BaseRules, Ruling};
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

    /// Refuses whoever may not take work back (R37): the owner of this server may, others are asked
    /// about.
    pub(crate) fn may_revert(&self, ctx: &Context, session: &SessionId) -> Result<(), ApiError> {
        let caller = match ctx.actor == self.settings().actor {
            true => Caller::Client,
            false => Caller::Other,
        };
        let (gate, base) = ((Gate::Revert, "*"), BaseRules::default());
        match self.engine().gate(&ctx.aside(), session, gate, caller, &base)? {
            Ruling::Allowed => Ok(()),
            Ruling::Denied(_) => {
                let message = "a permission rule denies taking work back here";
                Err(ApiError::tagged(StatusCode::FORBIDDEN, "PermissionDeniedError", message))
            }
            Ruling::Pending(id) => {
                let message = "a person is asked whether this may be done; nothing has changed";
                Err(ApiError::tagged(StatusCode::FORBIDDEN, "PermissionPendingError", message)
                    .with("requestID", id.as_str()))
            }
        }
    }
}
