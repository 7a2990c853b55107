//! Sharing, which this server does not offer yet: it answers as a server on which it is disabled. A share that was
//! imported stays until a later version can end it at its hub.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_scope::SessionRequest;
use crate::wire_json::{StoredJson, session_json};

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/share", post(share).delete(unshare))
}

/// `POST /session/{sessionID}/share`
async fn share(request: SessionRequest) -> Result<Json<StoredJson>, ApiError> {
    request
        .run(|app, ctx, id| {
            app.engine().store().read(ctx, |r| r.sessions().get(id))?;
            let message = "Sharing is disabled";
            Err(ApiError::tagged(StatusCode::FORBIDDEN, "SharingDisabledError", message)
                .with_field("sessionID", id.as_str()))
        })
        .await
}

/// `DELETE /session/{sessionID}/share`
///
/// A session that is not shared stays as it is. Removing an imported share here would leave it public at its hub,
/// without the secret that can end it.
async fn unshare(request: SessionRequest) -> Result<Json<StoredJson>, ApiError> {
    request
        .run(|app, ctx, id| {
            let Some(share) = app.engine().store().read(ctx, |r| r.shares().find(id))? else {
                return Ok(Json(session_json(app, ctx, id)?));
            };
            let message = format!(
                "This server cannot reach the hub of {} yet, so the session is still shared; \
                 its link and secret are kept",
                share.url
            );
            Err(ApiError::tagged(StatusCode::NOT_IMPLEMENTED, "ShareNotRemovableError", &message)
                .with_field("sessionID", id.as_str()))
        })
        .await
}
