//! Disposal: the cache of directories is cleared, terminals end, and clients are notified.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::pty::PtyRegistry;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/instance/dispose", post(dispose))
        .route("/global/dispose", post(dispose_all))
}

/// `POST /instance/dispose`
async fn dispose(
    State(app): State<AppState>,
    asked: RequestedDirectory,
) -> Result<Json<bool>, ApiError> {
    app.run_blocking(move |app| {
        app.project_directories().clear();
        if let Ok(real) = fs_err::canonicalize(&asked.directory) {
            PtyRegistry::remove_all(app, Some(&real));
        }
        let directory = asked.directory.to_string_lossy();
        let properties = json!({ "directory": directory });
        app.hub().publish(&asked.directory, "server.instance.disposed", &properties);
        Ok(Json(true))
    })
    .await
}

/// `POST /global/dispose`
async fn dispose_all(State(app): State<AppState>) -> Result<Json<bool>, ApiError> {
    app.run_blocking(|app| {
        app.project_directories().clear();
        PtyRegistry::remove_all(app, None);
        app.hub().publish_globally("global.disposed", json!({}));
        Ok(Json(true))
    })
    .await
}
