//! Back and forth in a session, and what must hold before: nothing runs, and it is where it was seen.

use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Session, SessionStatus};
use turnstone_core::permission::GatedOperation;
use turnstone_core::time::LogCursor;
use turnstone_engine::OperationReport;
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;

/// A place a session is to go back to.
#[derive(Clone, Debug)]
pub(crate) struct RevertTarget {
    /// The first message that is undone, or the one with the part.
    pub(crate) message: MessageId,
    /// The first part that is undone.
    pub(crate) part: Option<PartId>,
    /// True if the files go back, too.
    pub(crate) files: bool,
}

/// Takes a session back; nothing if there is no such place in it, and nothing has changed.
pub(crate) fn revert_session(
    app: &AppState,
    ctx: &Context,
    id: &SessionId,
    to: &RevertTarget,
) -> Result<Option<OperationReport>, ApiError> {
    // OpenCode changes nothing and says so with a 200 if there is no such message.
    app.engine().store().read(ctx, |r| {
        r.messages().get(id, &to.message)?;
        to.part.as_ref().map(|part| r.messages().get_part(id, part)).transpose()
    })?;
    check_expected_and_idle(app, ctx, id)?;
    Ok(match to.files {
        true => app.engine().history().reverts().revert(ctx, id, &to.message, to.part.as_ref())?,
        false => app.engine().history().reverts().revert_conversation(ctx, id, &to.message)?,
    })
}

/// Brings a session to its end again.
pub(crate) fn unrevert_session(
    app: &AppState,
    ctx: &Context,
    id: &SessionId,
) -> Result<(), ApiError> {
    check_expected_and_idle(app, ctx, id)?;
    app.engine().history().reverts().unrevert(ctx, id)?;
    Ok(())
}

/// Makes the place a session went back to its end, as a prompt there does (R19).
pub(crate) fn commit_revert(app: &AppState, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
    check_expected_and_idle(app, ctx, id)?;
    let ctx = app.engine().permissions().gates().require(ctx, id, GatedOperation::Revert, &[])?;
    app.engine().history().reverts().cleanup(&ctx, id)?;
    Ok(())
}

/// Refuses unless the session is where it was seen, and nothing runs.
fn check_expected_and_idle(app: &AppState, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
    check_expected_seq(app, ctx, id)?;
    check_idle(app, ctx, id)
}

/// The session that was made by the event at `cursor`; nothing if it is gone since.
pub(crate) fn session_created_at(
    app: &AppState,
    ctx: &Context,
    cursor: LogCursor,
) -> Result<Option<Session>, ApiError> {
    let found = app.engine().store().read(ctx, |r| {
        let page = r.log().after(LogCursor(cursor.0 - 1), 1)?;
        let session = page.events.into_iter().find_map(|event| event.session);
        session.map(|id| r.sessions().find(&id)).transpose()
    })?;
    Ok(found.flatten())
}

/// Refuses what relies on a number the session has passed (R43). The statement that assigns the
/// next number compares again; this is for what would not come so far.
pub(crate) fn check_expected_seq(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
) -> Result<(), ApiError> {
    let Some(expected) = ctx.expected_seq else { return Ok(()) };
    let current = app.engine().store().read(ctx, |r| r.sessions().seq(session))?;
    match current == expected {
        true => Ok(()),
        false => Err(ApiError::stale(session, expected, current)),
    }
}

/// Refuses while a turn of the session is open (R45).
pub(crate) fn check_idle(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
) -> Result<(), ApiError> {
    match app.engine().store().read(ctx, |r| r.sessions().status(session))? {
        SessionStatus::Idle => Ok(()),
        SessionStatus::Busy | SessionStatus::Retry { .. } => {
            // Its process may be gone: then it is over, and this is how one finds out.
            app.engine().maintenance().recover_all(ctx)?;
            match app.engine().store().read(ctx, |r| r.sessions().status(session))? {
                SessionStatus::Idle => Ok(()),
                SessionStatus::Busy | SessionStatus::Retry { .. } => Err(ApiError::busy(session)),
            }
        }
    }
}
