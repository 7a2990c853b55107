//! The commands a client can offer.

use axum::Router;
use axum::routing::get;

use super::config::show_config;
use crate::app::AppState;
use crate::config_response::{ShownConfig, command_json};
use crate::error::ApiError;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/command", get(list))
}

/// `GET /command`
async fn list(request: DirectoryRequest) -> Result<ShownConfig, ApiError> {
    show_config(request, |config| Ok(config.commands().iter().map(command_json).collect())).await
}
