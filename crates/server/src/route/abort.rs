//! Aborting the open turn of a session.

use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::SessionId;
use turnstone_core::model::SessionStatus;
use turnstone_engine::{AbortOutcome, EngineError};
use turnstone_store::{Context, StoreError};

use crate::app::AppState;
use crate::driven_turn::abort_driven_turn;
use crate::error::ApiError;
use crate::request_context::RequestContext;
use crate::request_scope::SessionRequest;

/// How long to wait for a command to end.
const MAX_WAIT: Duration = Duration::from_secs(8);
/// How often to look whether it has.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/abort", post(abort))
}

/// `POST /session/{sessionID}/abort`: true whether there was anything to stop or not.
pub(super) async fn abort(
    SessionRequest { app, caller: RequestContext(ctx), id }: SessionRequest,
) -> Result<Json<bool>, ApiError> {
    let (asked, name) = (ctx.clone(), id.clone());
    let is_ending = app.run_blocking(move |app| request_stop(app, &asked, &name)).await?;
    let until = tokio::time::Instant::now() + MAX_WAIT;
    let mut waits = is_ending;
    while waits && tokio::time::Instant::now() < until {
        tokio::time::sleep(POLL_INTERVAL).await;
        let (ctx, id) = (ctx.clone(), id.clone());
        waits = app
            .run_blocking(move |app| {
                Ok(app.engine().store().read(&ctx, |r| r.sessions().status(&id))?
                    != SessionStatus::Idle)
            })
            .await?;
    }
    Ok(Json(true))
}

/// Stops the open turn of a session, in whichever process it runs; true if it has not ended yet.
fn request_stop(app: &AppState, ctx: &Context, id: &SessionId) -> Result<bool, ApiError> {
    let asked = match app.engine().turns().aborts().request(ctx, id) {
        Ok(AbortOutcome::Requested(turn)) => turn,
        Ok(AbortOutcome::NoOpenTurn | AbortOutcome::Ended(_)) => return Ok(false),
        // There is no such session: nothing is left to stop.
        Err(EngineError::Store(StoreError::NoSession(_) | StoreError::Deleted(_))) => {
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    // A command or an agent of this process notices the request by itself.
    if app.runners().runs_turn(id) {
        return Ok(true);
    }
    // So does another process that runs the turn.
    let Some(turn) = app.engine().turns().take_over_to_end(ctx, id, &asked)? else {
        return Ok(true);
    };
    // A program outside drives it, under our lease: its next call learns that the turn has ended.
    abort_driven_turn(app, ctx, &turn)?;
    Ok(false)
}
