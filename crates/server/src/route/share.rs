//! Sharing, which this server does not do yet: it answers as a server on which it is switched off.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/share", post(share).delete(unshare))
}

/// `POST /session/{sessionID}/share`
async fn share(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        app.engine().store().read(&ctx, |r| r.sessions().get(&id))?;
        let message = "Sharing is disabled";
        Err(ApiError::tagged(StatusCode::FORBIDDEN, "SharingDisabledError", message)
            .with_field("sessionID", id.as_str()))
    })
    .await
}

/// `DELETE /session/{sessionID}/share`
async fn unshare(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    // Nothing is shared, so nothing is left to take back.
    app.run_blocking(move |app| Ok(Json(app.session_json(&ctx, &id)?))).await
}
