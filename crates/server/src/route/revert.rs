//! Back to a message, and forward again, as OpenCode's clients ask for it.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::history::Back;
use crate::input::Body;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session/{session}/revert", post(revert))
        .route("/session/{session}/unrevert", post(unrevert))
}

/// `POST /session/{sessionID}/revert`
async fn revert(
    State(app): State<App>,
    // Whoever asks again asks for the same point: what was cut off is finished on the way.
    Repeat(ctx, _): Repeat,
    Path(session): Path<String>,
    Body(mut fields): Body,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let to = Back {
        message: fields.need_id("messageID", "msg")?,
        part: fields.id("partID", "prt")?,
        files: true,
    };
    app.blocking(move |app| {
        app.go_back(&ctx, &id, &to)?;
        Ok(Json(app.show_session(&ctx, &id)?))
    })
    .await
}

/// `POST /session/{sessionID}/unrevert`
async fn unrevert(
    State(app): State<App>,
    // Whoever asks again asks for the same point: what was cut off is finished on the way.
    Repeat(ctx, _): Repeat,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    app.blocking(move |app| {
        app.go_forth(&ctx, &id)?;
        Ok(Json(app.show_session(&ctx, &id)?))
    })
    .await
}
