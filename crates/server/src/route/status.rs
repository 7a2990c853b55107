//! What the sessions of a directory are doing.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/session/status", get(status))
}

/// `GET /session/status`
async fn status(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let Some(place) = app.find_place(&ctx, &asked.directory)? else {
            return Ok(Json(json!({})));
        };
        let directory = place.directory.to_string_lossy().into_owned();
        let found = app.engine().store().read(&ctx, |r| r.statuses(&directory))?;
        let shown: Map<String, Value> =
            found.into_iter().map(|(id, status)| (id.to_string(), json!(status))).collect();
        Ok(Json(Value::Object(shown)))
    })
    .await
}
