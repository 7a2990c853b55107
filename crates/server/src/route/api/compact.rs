//! Compaction on request; whoever runs the models carries it out.

use std::path::Path as Directory;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;

use super::super::session::session_id;
use super::super::summarize::compact as carry_out;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/api/session/{session}/compact", post(compact))
}

/// `POST /api/session/{sessionID}/compact`: as `summarize`, by the model of the session.
///
/// Where nobody runs models nothing is stored, so that a repeat later is not the second one.
async fn compact(
    State(app): State<AppState>,
    repeat: RetryAwareContext,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    let (read, name) = (repeat.0.clone(), id.clone());
    let is_run = app.run_blocking(move |app| {
        app.check_expected_seq(&read, &name)?;
        let session = app.engine().store().read(&read, |r| r.sessions().get(&name))?;
        Ok(app.has_runner(Directory::new(&session.directory)))
    });
    if !is_run.await? {
        let message = "No model runner is attached to this server";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(ApiError::tagged(status, "ServiceUnavailableError", message)
            .with_field("service", "session.compact"));
    }
    carry_out(&app, &repeat, &id, None, false).await?;
    Ok(StatusCode::NO_CONTENT)
}
