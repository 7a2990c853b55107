//! What the sessions of a directory are doing.

use axum::routing::get;
use axum::{Json, Router};
use turnstone_core::model::SessionStatus;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::find_project_directory;
use crate::request_scope::DirectoryRequest;
use crate::wire_json::BySession;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/session/status", get(status))
}

/// `GET /session/status`
async fn status(request: DirectoryRequest) -> Result<Json<BySession<SessionStatus>>, ApiError> {
    request
        .run(|app, ctx, asked| {
            let Some(found) = find_project_directory(app, ctx, &asked.directory)? else {
                return Ok(Json(BySession(Vec::new())));
            };
            let directory = found.directory.to_string_lossy();
            Ok(Json(BySession(
                app.engine().store().read(ctx, |r| r.sessions().active_statuses(&directory))?,
            )))
        })
        .await
}
