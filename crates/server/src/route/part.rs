//! Parts and messages, written and removed one by one.
//!
//! Each of these is one transaction: one that was begun was done, and doing it again is nothing.

use axum::extract::{Path, State};
use axum::routing::{delete, patch};
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::wire::{self, ParseMode};

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::{JsonBody, parse_path_id, quote_value};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/message/{message}", delete(remove_message))
        .route("/session/{session}/message/{message}/part/{part}", patch(update).delete(remove))
}

/// The ids of a path to a part.
type PartPathIds = (SessionId, MessageId, PartId);

fn parse_part_path(
    (session, message, part): &(String, String, String),
) -> Result<PartPathIds, ApiError> {
    Ok((
        session_id(session)?,
        parse_path_id("messageID", "msg", message)?,
        parse_path_id("partID", "prt", part)?,
    ))
}

/// `PATCH /session/{sessionID}/message/{messageID}/part/{partID}`
async fn update(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String, String)>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let (session, message, id) = parse_part_path(&path)?;
    let body = Value::Object(fields.into_map());
    let shape = |_| ApiError::invalid_payload(format!("Expected Part, got {}", quote_value(&body)));
    let part = wire::parse_part(body.clone(), ParseMode::Strict).map_err(shape)?;
    if (&part.session, &part.message, &part.id) != (&session, &message, &id) {
        return Err(ApiError::bare_bad_request());
    }
    app.run_blocking(move |app| {
        app.engine().history().edits().replace_part(&ctx, &part)?;
        Ok(Json(crate::wire_json::part_json(&part)))
    })
    .await
}

/// `DELETE /session/{sessionID}/message/{messageID}/part/{partID}`
///
/// What is not there is as good as deleted, as OpenCode answers.
async fn remove(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String, String)>,
) -> Result<Json<bool>, ApiError> {
    let (session, message, id) = parse_part_path(&path)?;
    app.run_blocking(move |app| {
        app.engine().history().edits().remove_part(&ctx, &session, &message, &id)?;
        Ok(Json(true))
    })
    .await
}

/// `DELETE /session/{sessionID}/message/{messageID}`
async fn remove_message(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path((session, message)): Path<(String, String)>,
) -> Result<Json<bool>, ApiError> {
    let session = session_id(&session)?;
    let message: MessageId = parse_path_id("messageID", "msg", &message)?;
    app.run_blocking(move |app| {
        app.check_expected_seq(&ctx, &session)?;
        app.check_idle(&ctx, &session)?;
        app.engine().history().edits().remove_message(&ctx, &session, &message)?;
        Ok(Json(true))
    })
    .await
}
