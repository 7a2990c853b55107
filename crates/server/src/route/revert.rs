//! Back to a message, and forward again, as OpenCode's clients ask for it.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;
use crate::session_revert::RevertTarget;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/revert", post(revert))
        .route("/session/{session}/unrevert", post(unrevert))
}

/// `POST /session/{sessionID}/revert`
async fn revert(
    State(app): State<AppState>,
    // Whoever asks again asks for the same point: what was cut off is finished on the way.
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(session): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let to = RevertTarget {
        message: fields.require_id("messageID", "msg")?,
        part: fields.id("partID", "prt")?,
        files: true,
    };
    app.run_blocking(move |app| {
        app.revert_session(&ctx, &id, &to)?;
        Ok(Json(app.session_json(&ctx, &id)?))
    })
    .await
}

/// `POST /session/{sessionID}/unrevert`
async fn unrevert(
    State(app): State<AppState>,
    // Whoever asks again asks for the same point: what was cut off is finished on the way.
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        app.unrevert_session(&ctx, &id)?;
        Ok(Json(app.session_json(&ctx, &id)?))
    })
    .await
}
