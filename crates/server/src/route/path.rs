//! Where things are.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/path", get(read))
}

/// `GET /path`
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let folders = &app.settings().folders;
        let (directory, worktree) = match app.find_project_directory(&ctx, &asked.directory)? {
            Some(place) => (place.directory, place.root),
            // As OpenCode: what is not there is named as it was asked for.
            None => (asked.directory, "/".into()),
        };
        Ok(Json(json!({
            "home": folders.home.to_string_lossy(),
            "state": folders.data.to_string_lossy(),
            "config": folders.config.join("opencode").to_string_lossy(),
            "worktree": worktree.to_string_lossy(),
            "directory": directory.to_string_lossy(),
        })))
    })
    .await
}
