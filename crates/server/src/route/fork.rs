//! Forks: a copy of a session up to a message.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::MessageId;

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::OptionalJsonBody;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/fork", post(fork))
}

/// `POST /session/{sessionID}/fork`
async fn fork(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(session): Path<String>,
    OptionalJsonBody(mut fields): OptionalJsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let at: Option<MessageId> = fields.id("messageID", "msg")?;
    app.run_blocking(move |app| {
        let Some(began) = began else {
            let made = app.engine().history().forks().fork_session(&ctx, &id, at.as_ref())?;
            return Ok(Json(app.session_json(&ctx, &made.id)?));
        };
        // The first try was cut off: its copy is whole, or it goes and is made anew.
        let half = app.session_created_at(&ctx, began)?;
        if let Some(copy) = half {
            if copy.origin.is_some() {
                return Ok(Json(app.session_json(&ctx, &copy.id)?));
            }
            app.engine().history().forks().discard_partial(&ctx, &copy.id)?;
        }
        let made = app.engine().history().forks().fork_session(
            &ctx.without_preconditions(),
            &id,
            at.as_ref(),
        )?;
        Ok(Json(app.session_json(&ctx, &made.id)?))
    })
    .await
}
