//! Where a request is about.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::place::{Asked, Place};

pub(super) fn routes() -> Router<App> {
    Router::new().route("/api/location", get(read))
}

/// A place as the newer routes name it.
pub(super) fn info(place: &Place) -> Value {
    json!({ "directory": place.directory.to_string_lossy(),
        "project": { "id": place.project.id.as_str(), "directory": place.root.to_string_lossy() } })
}

/// Data with where it is from.
pub(super) fn with(place: &Place, data: impl Into<Value>) -> Json<Value> {
    Json(json!({ "location": info(place), "data": data.into() }))
}

/// `GET /api/location`
async fn read(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| Ok(Json(info(&app.place(&ctx, &asked.directory)?)))).await
}
