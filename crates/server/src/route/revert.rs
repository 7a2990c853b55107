//! Back to a message, and forward again, as OpenCode's clients ask for it.

use axum::routing::post;
use axum::{Json, Router};

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::JsonBody;
use crate::request_scope::SessionRequest;
use crate::session_revert::{RevertTarget, revert_session, unrevert_session};
use crate::wire_json::{StoredJson, session_json};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session/{session}/revert", post(revert))
        .route("/session/{session}/unrevert", post(unrevert))
}

/// `POST /session/{sessionID}/revert`
///
/// A repeat asks for the same point, so an earlier try that was cut off is finished on the way.
async fn revert(
    request: SessionRequest<RetryAwareContext>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let to = RevertTarget {
        message: fields.require_id("messageID", "msg")?,
        part: fields.id("partID", "prt")?,
        files: true,
    };
    request
        .run(move |app, ctx, _, id| {
            revert_session(app, ctx, id, &to)?;
            Ok(Json(session_json(app, ctx, id)?))
        })
        .await
}

/// `POST /session/{sessionID}/unrevert`
async fn unrevert(
    request: SessionRequest<RetryAwareContext>,
) -> Result<Json<StoredJson>, ApiError> {
    request
        .run(|app, ctx, _, id| {
            unrevert_session(app, ctx, id)?;
            Ok(Json(session_json(app, ctx, id)?))
        })
        .await
}
