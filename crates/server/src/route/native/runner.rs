//! Runners: programs that take up prompts, and wait for the next one.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{delete, get};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use turnstone_store::Context;

use super::input::Typed;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::Query;
use crate::place::Asked;
use crate::runner::{Inbox, RUNNER_PATIENCE, Runner};

/// The longest a runner waits in one call, in milliseconds.
const LONGEST: usize = 30_000;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/turnstone/runner", get(list).post(register))
        .route("/turnstone/runner/{runner}", delete(leave))
        .route("/turnstone/runner/{runner}/inbox", get(inbox))
}

/// A program that runs models.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    /// What people call it.
    name: String,
    /// It takes prompts of sessions in this directory and below; the request's if it is left out.
    directory: Option<String>,
}

/// A runner that is known.
#[derive(Serialize)]
struct Registered {
    /// The runner.
    runner: Runner,
    /// Identifies its requests as `x-turnstone-token`, for as long as it is known.
    token: String,
    /// Within so many milliseconds it must be heard of again: its inbox must be read, or a turn driven.
    patience: i64,
}

/// `POST /turnstone/runner`
async fn register(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    Typed(body): Typed<Register>,
) -> Result<Json<Registered>, ApiError> {
    app.blocking(move |app| {
        let asked = match &body.directory {
            Some(directory) => asked.at(directory)?,
            None => asked,
        };
        let place = app.open_place(&ctx, &asked.directory)?;
        let (runner, token) = app.runners().register(&body.name, &place.directory, ctx.now)?;
        Ok(Json(Registered { runner, token, patience: RUNNER_PATIENCE }))
    })
    .await
}

/// `GET /turnstone/runner`
async fn list(State(app): State<App>, Caller(_): Caller) -> Json<Vec<Runner>> {
    Json(app.list_runners())
}

/// `DELETE /turnstone/runner/{runnerID}`
async fn leave(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(runner): Path<String>,
) -> Result<Json<bool>, ApiError> {
    check_own(&app, &ctx, &runner)?;
    Ok(Json(app.runners().leave(&runner)))
}

/// Refuses a runner that acts for another one.
fn check_own(app: &App, ctx: &Context, runner: &str) -> Result<(), ApiError> {
    match app.runner_of(ctx) {
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
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(runner): Path<String>,
    query: Query,
) -> Result<Json<Inbox>, ApiError> {
    check_own(&app, &ctx, &runner)?;
    let wait = query.count("wait")?.unwrap_or(0).min(LONGEST);
    let gone = || ApiError::NotFound(format!("Runner not found: {runner}"));
    let known = app.hear_runner(&runner).ok_or_else(gone)?;
    let patience = Duration::from_millis(wait as u64);
    let found = app.wait_for_prompt(&ctx, &known.directory, patience).await?;
    app.hear_runner(&runner);
    Ok(Json(found))
}
