//! The MCP servers whose tools the agent of this server can call.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::find_project_directory;
use crate::prompt_runner::McpServerStatus;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/mcp", get(statuses))
}

/// `GET /mcp`: connects the servers and waits a little; none without an agent in this process.
async fn statuses(
    request: DirectoryRequest,
) -> Result<Json<BTreeMap<String, McpServerStatus>>, ApiError> {
    request
        .run(|app, ctx, asked| {
            let place = find_project_directory(app, ctx, &asked.directory)?;
            let (Some(place), Some(runner)) = (place, app.runners().in_process()) else {
                return Ok(Json(BTreeMap::new()));
            };
            let invalid =
                |why: String| ApiError::tagged(StatusCode::BAD_REQUEST, "ConfigInvalidError", &why);
            runner.list_mcp_servers(&place.directory).map(Json).map_err(invalid)
        })
        .await
}
