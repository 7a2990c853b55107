//! The skills that the agent of this server can load.

use std::path::Path;

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::find_project_directory;
use crate::prompt_runner::SkillSummary;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/skill", get(list))
}

/// `GET /skill`
async fn list(request: DirectoryRequest) -> Result<Json<Vec<SkillSummary>>, ApiError> {
    request
        .run(|app, ctx, asked| {
            let place = find_project_directory(app, ctx, &asked.directory)?;
            let skills = place.map(|place| list_skills(app, &place.directory)).transpose()?;
            Ok(Json(skills.unwrap_or_default()))
        })
        .await
}

/// The skills of a directory; none without an agent in this process, because nothing here could load one.
pub(super) fn list_skills(app: &AppState, directory: &Path) -> Result<Vec<SkillSummary>, ApiError> {
    let Some(runner) = app.runners().in_process() else { return Ok(Vec::new()) };
    let invalid =
        |why: String| ApiError::tagged(StatusCode::BAD_REQUEST, "ConfigInvalidError", &why);
    runner.list_skills(directory).map_err(invalid)
}
