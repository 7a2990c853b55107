//! Reverting in two steps: staged first, then cleared or committed.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};

use super::location::DataResponse;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;
use crate::request_scope::SessionRequest;
use crate::session_revert::{RevertTarget, commit_revert, revert_session, unrevert_session};
use crate::wire_json::{StoredJson, session_json};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/session/{session}/revert/stage", post(stage))
        .route("/api/session/{session}/revert/clear", post(clear))
        .route("/api/session/{session}/revert/commit", post(commit))
}

/// `POST /api/session/{sessionID}/revert/stage`
///
/// A repeat asks for the same point, so an earlier try that was cut off is finished on the way.
async fn stage(
    request: SessionRequest<RetryAwareContext>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<DataResponse<StoredJson>>, ApiError> {
    let to = RevertTarget {
        message: fields.require_id("messageID", "msg_")?,
        part: None,
        files: fields.read("files", "boolean | undefined")?.unwrap_or(true),
    };
    let conflict = |why: String| ApiError::tagged(StatusCode::CONFLICT, "ConflictError", &why);
    request
        .run(move |app, ctx, _, id| match revert_session(app, ctx, id, &to)? {
            Some(report) if !report.without_effect => {
                Ok(Json(DataResponse { data: session_json(app, ctx, id)?.field("revert") }))
            }
            Some(_) => Err(conflict(format!(
                "no file after {} could be undone; the session is unchanged",
                to.message
            ))),
            None => Err(conflict(format!("the session cannot be reverted to {}", to.message))),
        })
        .await
}

/// `POST /api/session/{sessionID}/revert/clear`
async fn clear(request: SessionRequest<RetryAwareContext>) -> Result<StatusCode, ApiError> {
    request.run(|app, ctx, _, id| unrevert_session(app, ctx, id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/revert/commit`
async fn commit(request: SessionRequest<RetryAwareContext>) -> Result<StatusCode, ApiError> {
    request.run(|app, ctx, _, id| commit_revert(app, ctx, id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
