//! Runners: programs that take up prompts, and wait for the next one.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{delete, get};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use turnstone_store::Context;

use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{RequestedDirectory, open_project_directory};
use crate::request_context::RequestContext;
use crate::request_input::QueryParams;
use crate::runner_registry::{
    ModelRunner, RUNNER_TIMEOUT_MS, RunnerInbox, calling_runner, list_runners, renew_runner,
    wait_for_runner_inbox,
};

/// The longest a runner waits in one call, in milliseconds.
const MAX_WAIT_MS: usize = 30_000;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/runner", get(list).post(register))
        .route("/turnstone/runner/{runner}", delete(remove))
        .route("/turnstone/runner/{runner}/inbox", get(inbox))
}

/// A program that runs models.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegisterRunnerRequest {
    /// What people call it.
    name: String,
    /// It takes prompts of sessions in this directory and below; the request's if it is left out.
    directory: Option<String>,
}

/// A runner that is known.
#[derive(Serialize)]
struct RegisterRunnerResponse {
    /// The runner.
    runner: ModelRunner,
    /// Identifies its requests as `x-turnstone-token`, for as long as it is known.
    token: String,
    /// It must read its inbox or drive a turn within this many milliseconds.
    patience: i64,
}

/// `POST /turnstone/runner`
async fn register(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    TypedBody(body): TypedBody<RegisterRunnerRequest>,
) -> Result<Json<RegisterRunnerResponse>, ApiError> {
    app.run_blocking(move |app| {
        let asked = match &body.directory {
            Some(directory) => asked.with_body_directory(directory)?,
            None => asked,
        };
        let place = open_project_directory(app, &ctx, &asked.directory)?;
        let (runner, token) = app.runners().register(&body.name, &place.directory, ctx.now)?;
        Ok(Json(RegisterRunnerResponse { runner, token, patience: RUNNER_TIMEOUT_MS }))
    })
    .await
}

/// `GET /turnstone/runner`
async fn list(
    State(app): State<AppState>,
    RequestContext(_): RequestContext,
) -> Json<Vec<ModelRunner>> {
    Json(list_runners(&app))
}

/// `DELETE /turnstone/runner/{runnerID}`
async fn remove(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(runner): Path<String>,
) -> Result<Json<bool>, ApiError> {
    check_own_runner(&app, &ctx, &runner)?;
    Ok(Json(app.runners().remove(&runner)))
}

/// Refuses a runner that acts for another one.
fn check_own_runner(app: &AppState, ctx: &Context, runner: &str) -> Result<(), ApiError> {
    match calling_runner(app, ctx) {
        Some(own) if own.id != runner => {
            Err(ApiError::not_for_runners("a runner cannot act for another one"))
        }
        Some(_) | None => Ok(()),
    }
}

/// `GET /turnstone/runner/{runnerID}/inbox`
///
/// Answers as soon as there is anything to do, or with nothing after `wait` milliseconds.
async fn inbox(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(runner): Path<String>,
    query: QueryParams,
) -> Result<Json<RunnerInbox>, ApiError> {
    check_own_runner(&app, &ctx, &runner)?;
    let wait = query.count("wait")?.unwrap_or(0).min(MAX_WAIT_MS);
    let gone = || ApiError::NotFound(format!("Runner not found: {runner}"));
    let known = renew_runner(&app, &runner).ok_or_else(gone)?;
    let patience = Duration::from_millis(wait as u64);
    let found = wait_for_runner_inbox(&app, &ctx, &known.directory, patience).await?;
    renew_runner(&app, &runner);
    Ok(Json(found))
}
