//! Worktrees of a project, made and removed by Turnstone.

use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use turnstone_core::id::ProjectId;
use turnstone_engine::{WorktreeError, WorktreeRequest};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{
    body_directory, current_project, open_project_directory, require_project_directory,
};
use crate::request_input::{JsonBody, OptionalJsonBody};
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/experimental/worktree", get(list).post(create).delete(remove))
        .route("/experimental/worktree/reset", post(reset))
}

/// A refusal changes nothing; an unexpected failure is an error of the server.
fn worktree_error(error: WorktreeError) -> ApiError {
    let words = error.to_string();
    let conflict = |tag| ApiError::tagged(StatusCode::CONFLICT, tag, &words);
    match error {
        WorktreeError::NotGit(_) | WorktreeError::NoCommit(_) => conflict("WorktreeNotGitError"),
        WorktreeError::NoName(_) => conflict("WorktreeNameGenerationFailedError"),
        WorktreeError::NotOurs(_) => {
            ApiError::tagged(StatusCode::NOT_FOUND, "WorktreeNotFoundError", &words)
        }
        WorktreeError::Primary(_) => conflict("WorktreePrimaryError"),
        WorktreeError::UnsavedWork { .. } => conflict("WorktreeHasWorkError"),
        WorktreeError::NoDefaultBranch(_) | WorktreeError::LeftChanges { .. } => {
            conflict("WorktreeResetFailedError")
        }
        WorktreeError::Engine(error) => error.into(),
        WorktreeError::Git(ref error) => error.into(),
        WorktreeError::NoCapture { .. }
        | WorktreeError::NotCaptured { .. }
        | WorktreeError::NotFilled { .. } => ApiError::unexpected(&error),
    }
}

/// `GET /experimental/worktree`
async fn list(request: DirectoryRequest) -> Result<Json<Vec<String>>, ApiError> {
    request
        .in_project(|app, ctx, place| {
            let project = current_project(app, ctx, &place)?;
            // The worktrees Turnstone created are stored, so git is not asked.
            let ready = project.worktrees.into_iter().filter(|one| one.ready);
            Ok(Json(ready.map(|one| one.directory).collect()))
        })
        .await
}

/// A worktree that was created.
#[derive(Serialize)]
struct CreateWorktreeResponse {
    name: String,
    directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
}

/// `POST /experimental/worktree`
async fn create(
    request: DirectoryRequest,
    OptionalJsonBody(mut fields): OptionalJsonBody,
) -> Result<Json<CreateWorktreeResponse>, ApiError> {
    let name = fields.read::<String>("name", "string | undefined")?;
    if fields.text("startCommand")?.is_some() {
        let message = "a start command runs code: only a person may set it";
        let status = StatusCode::FORBIDDEN;
        return Err(ApiError::tagged(status, "StartCommandRefusedError", message));
    }
    request
        .run(move |app, ctx, asked| {
            let worktrees = app.engine().projects().worktrees();
            let new = WorktreeRequest { name, ..WorktreeRequest::default() };
            // A refused request stores no project.
            let found = require_project_directory(app, ctx, &asked.directory)?;
            worktrees.check_source(&found.project, &new).map_err(worktree_error)?;
            let stored = open_project_directory(app, ctx, &asked.directory)?;
            let created =
                worktrees.create(ctx, &stored.project.id, &new).map_err(worktree_error)?;
            Ok(Json(CreateWorktreeResponse {
                name: created.name,
                directory: created.directory.to_string_lossy().into_owned(),
                branch: created.branch,
            }))
        })
        .await
}

/// `DELETE /experimental/worktree`
async fn remove(
    request: DirectoryRequest,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let directory = body_directory(&fields.require_text("directory")?)?;
    in_stored_project(request, move |app, ctx, project| {
        app.engine().projects().worktrees().remove(ctx, project, &directory, false)?;
        app.project_directories().clear();
        Ok(true)
    })
    .await
}

/// `POST /experimental/worktree/reset`
async fn reset(
    request: DirectoryRequest,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let directory = body_directory(&fields.require_text("directory")?)?;
    in_stored_project(request, move |app, ctx, project| {
        app.engine().projects().worktrees().reset(ctx, project, &directory, false).map(|_| true)
    })
    .await
}

/// Changes a worktree of the project a request is about; the project is stored first.
async fn in_stored_project<T: Send + 'static>(
    request: DirectoryRequest,
    work: impl FnOnce(&AppState, &Context, &ProjectId) -> Result<T, WorktreeError> + Send + 'static,
) -> Result<Json<T>, ApiError> {
    request
        .run(|app, ctx, asked| {
            let place = open_project_directory(app, ctx, &asked.directory)?;
            work(app, ctx, &place.project.id).map(Json).map_err(worktree_error)
        })
        .await
}
