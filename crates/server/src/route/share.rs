//! Sharing, which this server does not offer yet: it answers as a server on which it is disabled.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};

use super::session::read;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_scope::SessionRequest;
use crate::wire_json::StoredJson;

pub(super) fn routes() -> Router<AppState> {
    // Nothing is shared, so the session is unchanged when its share is removed.
    Router::new().route("/session/{session}/share", post(share).delete(read))
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
