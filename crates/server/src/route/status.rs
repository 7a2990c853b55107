//! What the sessions of a directory are doing.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/status", get(status))
}

/// `GET /session/status`
async fn status(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let Some(place) = app.find_project_directory(&ctx, &asked.directory)? else {
            return Ok(Json(json!({})));
        };
        let directory = place.directory.to_string_lossy().into_owned();
        let found =
            app.engine().store().read(&ctx, |r| r.sessions().active_statuses(&directory))?;
        let shown: Map<String, Value> =
            found.into_iter().map(|(id, status)| (id.to_string(), json!(status))).collect();
        Ok(Json(Value::Object(shown)))
    })
    .await
}
