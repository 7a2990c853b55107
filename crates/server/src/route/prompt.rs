//! Prompts: answered when their turn has ended, or taken in and left to events.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::PromptInput;
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/message", post(prompt))
        .route("/session/{session}/prompt_async", post(prompt_async))
}

/// `POST /session/{sessionID}/message`
async fn prompt(
    State(app): State<AppState>,
    repeat: RetryAwareContext,
    Path(session): Path<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let asked = PromptInput::parse(fields)?;
    Ok(Json(app.prompt_and_wait(&repeat, &id, asked).await?))
}

/// `POST /session/{sessionID}/prompt_async`
async fn prompt_async(
    State(app): State<AppState>,
    repeat: RetryAwareContext,
    Path(session): Path<String>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    let asked = PromptInput::parse(fields)?;
    app.prompt_in_background(&repeat, &id, asked).await?;
    Ok(StatusCode::NO_CONTENT)
}
