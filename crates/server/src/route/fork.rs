//! Forks: a copy of a session up to a message.

use axum::routing::post;
use axum::{Json, Router};
use turnstone_core::id::MessageId;

use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_input::OptionalJsonBody;
use crate::request_scope::SessionRequest;
use crate::session_revert::session_created_at;
use crate::wire_json::{StoredJson, session_json};

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/{session}/fork", post(fork))
}

/// `POST /session/{sessionID}/fork`
async fn fork(
    request: SessionRequest<RetryAwareContext>,
    OptionalJsonBody(mut fields): OptionalJsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let at: Option<MessageId> = fields.id("messageID", "msg")?;
    request
        .run(move |app, ctx, began, id| {
            let Some(began) = began else {
                let made = app.engine().history().forks().fork_session(ctx, id, at.as_ref())?;
                return Ok(Json(session_json(app, ctx, &made.id)?));
            };
            // The first try was cut off: its copy is complete, or it is removed and made again.
            if let Some(copy) = session_created_at(app, ctx, began)? {
                if copy.origin.is_some() {
                    return Ok(Json(session_json(app, ctx, &copy.id)?));
                }
                app.engine().history().forks().discard_partial(ctx, &copy.id)?;
            }
            let ctx = &ctx.without_preconditions();
            let made = app.engine().history().forks().fork_session(ctx, id, at.as_ref())?;
            Ok(Json(session_json(app, ctx, &made.id)?))
        })
        .await
}
