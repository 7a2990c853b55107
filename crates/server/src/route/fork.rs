//! Forks: a copy of a session up to a message.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::MessageId;

use super::session::session_id;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::MaybeBody;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/fork", post(fork))
}

/// `POST /session/{sessionID}/fork`
async fn fork(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
    MaybeBody(mut fields): MaybeBody,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let at: Option<MessageId> = fields.id("messageID", "msg")?;
    app.blocking(move |app| {
        let made = app.engine().fork(&ctx, &id, at.as_ref())?;
        Ok(Json(app.show_session(&ctx, &made.id)?))
    })
    .await
}
