//! Compaction on request; a model runner carries it out.

use std::path::Path as Directory;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;

use super::super::summarize::compact as carry_out;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;
use crate::request_scope::SessionRequest;
use crate::runner_registry::has_runner;
use crate::session_revert::check_expected_seq;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/api/session/{session}/compact", post(compact))
}

/// `POST /api/session/{sessionID}/compact`: as `summarize`, by the model of the session.
///
/// Without a runner nothing is stored, so that a later repeat is not a second request.
async fn compact(
    SessionRequest { app, caller, id }: SessionRequest<RetryAwareContext>,
) -> Result<StatusCode, ApiError> {
    let (read, name) = (caller.0.clone(), id.clone());
    let is_run = app.run_blocking(move |app| {
        check_expected_seq(app, &read, &name)?;
        let session = app.engine().store().read(&read, |r| r.sessions().get(&name))?;
        Ok(has_runner(app, Directory::new(&session.directory)))
    });
    if !is_run.await? {
        let message = "No model runner is attached to this server";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(ApiError::tagged(status, "ServiceUnavailableError", message)
            .with_field("service", "session.compact"));
    }
    carry_out(&app, &caller, &id, None, false).await?;
    Ok(StatusCode::NO_CONTENT)
}
