//! Parts and messages, written and removed one by one.
//!
//! Each of these is one transaction: a repeat changes nothing.

use axum::extract::Path;
use axum::routing::{delete, patch};
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{MessageId, PartId};
use turnstone_core::wire::{self, ParseMode};

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::{JsonBody, parse_path_id, quote_value};
use crate::request_scope::SessionRequest;
use crate::session_revert::{check_expected_seq, check_idle};
use crate::wire_json::{StoredJson, part_json};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/message/{message}", delete(remove_message))
        .route("/session/{session}/message/{message}/part/{part}", patch(update).delete(remove))
}

/// The message and the part of a path.
fn parse_part_path(
    (_, message, part): &(String, String, String),
) -> Result<(MessageId, PartId), ApiError> {
    Ok((parse_path_id("messageID", "msg", message)?, parse_path_id("partID", "prt", part)?))
}

/// `PATCH /session/{sessionID}/message/{messageID}/part/{partID}`
async fn update(
    request: SessionRequest<RetryAwareContext>,
    Path(path): Path<(String, String, String)>,
    JsonBody(fields): JsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let (message, id) = parse_part_path(&path)?;
    let body = Value::Object(fields.into_map());
    let shape = |_| ApiError::invalid_payload(format!("Expected Part, got {}", quote_value(&body)));
    let part = wire::parse_part(body.clone(), ParseMode::Strict).map_err(shape)?;
    if (&part.session, &part.message, &part.id) != (&request.id, &message, &id) {
        return Err(ApiError::bare_bad_request());
    }
    request
        .run(move |app, ctx, _, _| {
            app.engine().history().edits().replace_part(ctx, &part)?;
            Ok(Json(StoredJson(part_json(&part))))
        })
        .await
}

/// `DELETE /session/{sessionID}/message/{messageID}/part/{partID}`
///
/// True also if there is no such part, as OpenCode answers.
async fn remove(
    request: SessionRequest<RetryAwareContext>,
    Path(path): Path<(String, String, String)>,
) -> Result<Json<bool>, ApiError> {
    let (message, part) = parse_part_path(&path)?;
    request
        .run(move |app, ctx, _, id| {
            app.engine().history().edits().remove_part(ctx, id, &message, &part)?;
            Ok(Json(true))
        })
        .await
}

/// `DELETE /session/{sessionID}/message/{messageID}`
async fn remove_message(
    request: SessionRequest<RetryAwareContext>,
    Path((_, message)): Path<(String, String)>,
) -> Result<Json<bool>, ApiError> {
    let message: MessageId = parse_path_id("messageID", "msg", &message)?;
    request
        .run(move |app, ctx, _, id| {
            check_expected_seq(app, ctx, id)?;
            check_idle(app, ctx, id)?;
            app.engine().history().edits().remove_message(ctx, id, &message)?;
            Ok(Json(true))
        })
        .await
}
