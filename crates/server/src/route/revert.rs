//! Back to a message, and forward again, as OpenCode's clients ask for it.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{MessageId, PartId};

use super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
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
    let message: MessageId = fields.need_id("messageID", "msg")?;
    let part: Option<PartId> = fields.id("partID", "prt")?;
    app.blocking(move |app| {
        // OpenCode changes nothing and says so with a 200 if there is no such message.
        app.engine().store().read(&ctx, |r| {
            r.get_message(&id, &message)?;
            part.as_ref().map(|part| r.get_part(&id, part)).transpose()
        })?;
        app.expected(&ctx, &id)?;
        app.idle(&ctx, &id)?;
        app.engine().revert(&ctx, &id, &message, part.as_ref())?;
        app.tell_diff(&ctx, &id);
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
        app.expected(&ctx, &id)?;
        app.idle(&ctx, &id)?;
        app.engine().unrevert(&ctx, &id)?;
        app.tell_diff(&ctx, &id);
        Ok(Json(app.show_session(&ctx, &id)?))
    })
    .await
}
