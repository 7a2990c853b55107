//! Forks: a copy of a session up to a message.

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::MessageId;

use super::session::session_id;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;
use crate::input::MaybeBody;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/fork", post(fork))
}

/// `POST /session/{sessionID}/fork`
async fn fork(
    State(app): State<App>,
    Repeat(ctx, began): Repeat,
    Path(session): Path<String>,
    MaybeBody(mut fields): MaybeBody,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let at: Option<MessageId> = fields.id("messageID", "msg")?;
    app.blocking(move |app| {
        let Some(began) = began else {
            let made = app.engine().fork(&ctx, &id, at.as_ref())?;
            return Ok(Json(app.show_session(&ctx, &made.id)?));
        };
        // The first try was cut off: its copy is whole, or it goes and is made anew.
        let half = app.session_made_at(&ctx, began)?;
        if let Some(copy) = half {
            if copy.origin.is_some() {
                return Ok(Json(app.show_session(&ctx, &copy.id)?));
            }
            app.engine().store().delete_session(&ctx.aside(), &copy.id)?;
        }
        let made = app.engine().fork(&ctx.aside(), &id, at.as_ref())?;
        Ok(Json(app.show_session(&ctx, &made.id)?))
    })
    .await
}
