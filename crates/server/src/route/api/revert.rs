//! Back to a message in three steps: gone there, brought back, or stayed.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::history::Back;
use crate::input::Body;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/api/session/{session}/revert/stage", post(stage))
        .route("/api/session/{session}/revert/clear", post(clear))
        .route("/api/session/{session}/revert/commit", post(commit))
}

/// `POST /api/session/{sessionID}/revert/stage`
async fn stage(
    State(app): State<App>,
    // Whoever asks again asks for the same point: what was cut off is finished on the way.
    Repeat(ctx, _): Repeat,
    Path(session): Path<String>,
    Body(mut fields): Body,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let to = Back {
        message: fields.need_id("messageID", "msg_")?,
        part: None,
        files: fields.read("files", "boolean | undefined")?.unwrap_or(true),
    };
    app.blocking(move |app| {
        let conflict = |why: String| ApiError::tagged(StatusCode::CONFLICT, "ConflictError", &why);
        match app.go_back(&ctx, &id, &to)? {
            Some(report) if !report.without_effect => {
                let mut shown = app.show_session(&ctx, &id)?;
                Ok(Json(json!({ "data": shown["revert"].take() })))
            }
            Some(_) => Err(conflict(format!(
                "no file behind {} could be taken back; the session stands where it stood",
                to.message
            ))),
            None => Err(conflict(format!("{} is no place to go back to", to.message))),
        }
    })
    .await
}

/// `POST /api/session/{sessionID}/revert/clear`
async fn clear(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    app.blocking(move |app| app.go_forth(&ctx, &id).map(|()| StatusCode::NO_CONTENT)).await
}

/// `POST /api/session/{sessionID}/revert/commit`
async fn commit(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    app.blocking(move |app| app.stay_back(&ctx, &id).map(|()| StatusCode::NO_CONTENT)).await
}
