//! Stopping whatever a session does.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::SessionId;
use turnstone_core::model::Status;
use turnstone_engine::{Abort, EngineError, Turn};
use turnstone_store::{Context, StoreError, Takeover};

use super::session::session_id;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;

/// How long the end of a command is waited for.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often it is looked for.
const TICK: Duration = Duration::from_millis(50);

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/abort", post(abort))
}

/// `POST /session/{sessionID}/abort`: true whether there was anything to stop or not.
pub(super) async fn abort(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
) -> Result<Json<bool>, ApiError> {
    let id = session_id(&session)?;
    let (asked, name) = (ctx.clone(), id.clone());
    let is_ending = app.blocking(move |app| stop(app, &asked, &name)).await?;
    let until = tokio::time::Instant::now() + PATIENCE;
    let mut waits = is_ending;
    while waits && tokio::time::Instant::now() < until {
        tokio::time::sleep(TICK).await;
        let (ctx, id) = (ctx.clone(), id.clone());
        waits = app
            .blocking(move |app| {
                Ok(app.engine().store().read(&ctx, |r| r.status(&id))? != Status::Idle)
            })
            .await?;
    }
    Ok(Json(true))
}

/// Stops the turn of a session, whoever runs it; true if its end is still to come.
fn stop(app: &App, ctx: &Context, id: &SessionId) -> Result<bool, ApiError> {
    let asked = match app.engine().request_abort(ctx, id) {
        Ok(Abort::Asked(turn)) => turn,
        Ok(Abort::Nothing | Abort::Ended(_)) => return Ok(false),
        // There is no such session: nothing is left to stop.
        Err(EngineError::Store(StoreError::NoSession(_) | StoreError::Deleted(_))) => {
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    // A command of ours hears of it by itself.
    if app.runners().runs_command(id) {
        return Ok(true);
    }
    let lease = match app.engine().store().lease(ctx, id, Takeover::IfDead) {
        Ok(lease) => lease,
        // So does another process that runs the turn.
        Err(StoreError::Busy(_)) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    // A program outside drives it, under our lease: its next call learns that the turn has ended.
    let turn = Turn { session: id.clone(), id: asked, lease };
    app.abort_driven(ctx, &turn)?;
    Ok(false)
}
