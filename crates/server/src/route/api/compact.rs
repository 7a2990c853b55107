//! Compaction on request; a model runner carries it out.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;

use super::super::summarize::compact as carry_out;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_scope::SessionRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/api/session/{session}/compact", post(compact))
}

/// `POST /api/session/{sessionID}/compact`: as `summarize`, by the model of the session.
async fn compact(
    SessionRequest { app, caller, id }: SessionRequest<RetryAwareContext>,
) -> Result<StatusCode, ApiError> {
    carry_out(&app, &caller, &id, None, false).await?;
    Ok(StatusCode::NO_CONTENT)
}
