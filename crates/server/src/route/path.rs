//! The folders of the server and of a request.

use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::find_project_directory;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/path", get(read))
}

/// The folders of the server and of a request.
#[derive(Serialize)]
struct PathInfo {
    /// The home directory of the user.
    home: String,
    /// The data directory.
    state: String,
    /// The folder of the user's configuration.
    config: String,
    /// The root of the checkout.
    worktree: String,
    /// The directory of the request.
    directory: String,
}

/// `GET /path`
async fn read(request: DirectoryRequest) -> Result<Json<PathInfo>, ApiError> {
    request
        .run(|app, ctx, asked| {
            let folders = &app.settings().folders;
            let (directory, worktree) = match find_project_directory(app, ctx, &asked.directory)? {
                Some(found) => (found.directory, found.root),
                // As OpenCode: a directory that does not exist is named as it was asked for.
                None => (asked.directory, "/".into()),
            };
            let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
            Ok(Json(PathInfo {
                home: text(&folders.home),
                state: text(&folders.data),
                config: text(&folders.config.join("opencode")),
                worktree: text(&worktree),
                directory: text(&directory),
            }))
        })
        .await
}
