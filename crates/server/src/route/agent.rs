//! The agents.

use axum::Router;
use axum::routing::get;

use super::config::show_config;
use crate::app::AppState;
use crate::config_response::{ShownConfig, agent_json};
use crate::error::ApiError;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/agent", get(list))
}

/// `GET /agent`
async fn list(request: DirectoryRequest) -> Result<ShownConfig, ApiError> {
    show_config(request, |config| Ok(config.agents().iter().map(agent_json).collect())).await
}
