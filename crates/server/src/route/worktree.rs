//! Worktrees of a project, made and removed by Turnstone.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::ProjectId;
use turnstone_engine::{WorktreeError, WorktreeRequest};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{RequestedDirectory, body_directory};
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, OptionalJsonBody};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/experimental/worktree", get(list).post(create).delete(remove))
        .route("/experimental/worktree/reset", post(reset))
}

/// A refusal changes nothing; what could not be told is the server's fault.
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
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        let project = app.current_project(&ctx, &place)?;
        // Those Turnstone made are known without asking git.
        let shown = project.worktrees.iter().filter(|one| one.ready).map(|one| &one.directory);
        Ok(Json(shown.map(|directory| Value::from(directory.as_str())).collect()))
    })
    .await
}

/// `POST /experimental/worktree`
async fn create(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    OptionalJsonBody(mut fields): OptionalJsonBody,
) -> Result<Json<Value>, ApiError> {
    let name = fields.read::<String>("name", "string | undefined")?;
    if fields.text("startCommand")?.is_some() {
        let message = "a start command needs the consent of a person (R37)";
        let status = StatusCode::FORBIDDEN;
        return Err(ApiError::tagged(status, "StartCommandRefusedError", message));
    }
    app.run_blocking(move |app| {
        let place = app.open_project_directory(&ctx, &asked.directory)?;
        let new = WorktreeRequest { name, ..WorktreeRequest::default() };
        let made = app
            .engine()
            .projects()
            .worktrees()
            .create(&ctx, &place.project.id, &new)
            .map_err(worktree_error)?;
        let mut shown = json!({ "name": made.name, "directory": made.directory.to_string_lossy() });
        if let Some(branch) = &made.branch {
            shown["branch"] = Value::from(branch.as_str());
        }
        Ok(Json(shown))
    })
    .await
}

/// `DELETE /experimental/worktree`
async fn remove(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let directory = body_directory(&fields.require_text("directory")?)?;
    app.with_worktree_project(asked, ctx, move |app, ctx, project| {
        app.engine().projects().worktrees().remove(ctx, project, &directory, false)?;
        app.project_directories().clear();
        Ok(())
    })
    .await
}

/// `POST /experimental/worktree/reset`
async fn reset(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let directory = body_directory(&fields.require_text("directory")?)?;
    app.with_worktree_project(asked, ctx, move |app, ctx, project| {
        app.engine().projects().worktrees().reset(ctx, project, &directory, false).map(drop)
    })
    .await
}

impl AppState {
    /// Does something to a worktree of the project a request is about.
    async fn with_worktree_project(
        &self,
        asked: RequestedDirectory,
        ctx: Context,
        work: impl FnOnce(&Self, &Context, &ProjectId) -> Result<(), WorktreeError> + Send + 'static,
    ) -> Result<Json<bool>, ApiError> {
        self.run_blocking(move |app| {
            let place = app.open_project_directory(&ctx, &asked.directory)?;
            work(app, &ctx, &place.project.id).map_err(worktree_error)?;
            Ok(Json(true))
        })
        .await
    }
}
