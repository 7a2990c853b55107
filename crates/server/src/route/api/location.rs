//! Where a request is about.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{ProjectDirectory, RequestedDirectory};
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/api/location", get(read))
}

/// A place as the newer routes name it.
pub(super) fn location_json(place: &ProjectDirectory) -> Value {
    json!({ "directory": place.directory.to_string_lossy(),
        "project": { "id": place.project.id.as_str(), "directory": place.root.to_string_lossy() } })
}

/// Data with where it is from.
pub(super) fn with_location(place: &ProjectDirectory, data: impl Into<Value>) -> Json<Value> {
    Json(json!({ "location": location_json(place), "data": data.into() }))
}

/// `GET /api/location`
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        Ok(Json(location_json(&app.require_project_directory(&ctx, &asked.directory)?)))
    })
    .await
}
