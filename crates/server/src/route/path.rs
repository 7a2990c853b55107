//! Where things are.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/path", get(read))
}

/// `GET /path`
async fn read(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let folders = &app.settings().folders;
        let (directory, worktree) = match app.find_place(&ctx, &asked.directory)? {
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
