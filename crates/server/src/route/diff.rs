//! Differences: what a message's turn, an answer's calls or a session changed in files.

use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::MessageId;
use turnstone_core::wire;
use turnstone_engine::{Compared, Form};

use super::session::session_id;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Query, id_in};

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/{session}/diff", get(diff))
}

/// `GET /session/{sessionID}/diff`
async fn diff(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let named = query.filled("messageID");
    let read = |text| id_in::<MessageId>(&query, "messageID", "msg", text);
    let message = named.map(read).transpose()?;
    app.blocking(move |app| {
        let what = message.map_or(Compared::Session, Compared::Message);
        let found = app.engine().diff(&ctx, &id, &what, Form::Clients)?;
        Ok(Json(wire::file_diffs(&found.files)))
    })
    .await
}
