//! Prompts: answered when their turn has ended, or taken in and left to events.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::input::Body;
use crate::prompt::PromptInput;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session/{session}/message", post(prompt))
        .route("/session/{session}/prompt_async", post(prompt_async))
}

/// `POST /session/{sessionID}/message`
async fn prompt(
    State(app): State<App>,
    repeat: Repeat,
    Path(session): Path<String>,
    Body(fields): Body,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let asked = PromptInput::read(fields)?;
    Ok(Json(app.prompt(&repeat, &id, asked).await?))
}

/// `POST /session/{sessionID}/prompt_async`
async fn prompt_async(
    State(app): State<App>,
    repeat: Repeat,
    Path(session): Path<String>,
    Body(fields): Body,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    let asked = PromptInput::read(fields)?;
    app.prompt_and_go(&repeat, &id, asked).await?;
    Ok(StatusCode::NO_CONTENT)
}
