//! Prompts: answered when their turn has ended, or taken in and left to events.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};

use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::{PromptInput, prompt_and_wait, prompt_in_background};
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;
use crate::request_scope::SessionRequest;
use crate::wire_json::MessageResponse;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/message", post(prompt))
        .route("/session/{session}/prompt_async", post(prompt_async))
}

/// `POST /session/{sessionID}/message`
async fn prompt(
    SessionRequest { app, caller, id }: SessionRequest<RetryAwareContext>,
    JsonBody(fields): JsonBody,
) -> Result<Json<MessageResponse>, ApiError> {
    Ok(Json(prompt_and_wait(&app, &caller, &id, PromptInput::parse(fields)?).await?))
}

/// `POST /session/{sessionID}/prompt_async`
async fn prompt_async(
    SessionRequest { app, caller, id }: SessionRequest<RetryAwareContext>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    prompt_in_background(&app, &caller, &id, PromptInput::parse(fields)?).await?;
    Ok(StatusCode::NO_CONTENT)
}
