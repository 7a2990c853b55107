//! Back to a message in three steps: gone there, brought back, or stayed.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;
use crate::session_revert::RevertTarget;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/session/{session}/revert/stage", post(stage))
        .route("/api/session/{session}/revert/clear", post(clear))
        .route("/api/session/{session}/revert/commit", post(commit))
}

/// `POST /api/session/{sessionID}/revert/stage`
async fn stage(
    State(app): State<AppState>,
    // Whoever asks again asks for the same point: what was cut off is finished on the way.
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(session): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let to = RevertTarget {
        message: fields.require_id("messageID", "msg_")?,
        part: None,
        files: fields.read("files", "boolean | undefined")?.unwrap_or(true),
    };
    app.run_blocking(move |app| {
        let conflict = |why: String| ApiError::tagged(StatusCode::CONFLICT, "ConflictError", &why);
        match app.revert_session(&ctx, &id, &to)? {
            Some(report) if !report.without_effect => {
                let mut shown = app.session_json(&ctx, &id)?;
                Ok(Json(json!({ "data": shown["revert"].take() })))
            }
            Some(_) => Err(conflict(format!(
                "no file behind {} could be taken back; the session stands where it stood",
                to.message
            ))),
            None => Err(conflict(format!("{} is no place to go back to", to.message))),
        }
    })
    .await
}

/// `POST /api/session/{sessionID}/revert/clear`
async fn clear(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| app.unrevert_session(&ctx, &id).map(|()| StatusCode::NO_CONTENT))
        .await
}

/// `POST /api/session/{sessionID}/revert/commit`
async fn commit(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| app.commit_revert(&ctx, &id).map(|()| StatusCode::NO_CONTENT)).await
}
