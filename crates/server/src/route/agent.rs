//! The agents.

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use crate::app::AppState;
use crate::config::{AgentConfig, ShownConfig};
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/agent", get(list))
}

/// `GET /agent`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<ShownConfig, ApiError> {
    app.run_blocking(move |app| {
        let agents = app.requested_config(&ctx, &asked)?.agents()?;
        Ok(ShownConfig::new(agents.iter().map(AgentConfig::to_json).collect()))
    })
    .await
}
