//! The commands a client can offer.

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use crate::app::AppState;
use crate::config::{CommandConfig, ShownConfig};
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/command", get(list))
}

/// `GET /command`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<ShownConfig, ApiError> {
    app.run_blocking(move |app| {
        let commands = app.requested_config(&ctx, &asked)?.commands()?;
        Ok(ShownConfig::new(commands.iter().map(CommandConfig::to_json).collect()))
    })
    .await
}
