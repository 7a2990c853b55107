//! Providers of models: those of the catalogue and of the configuration.

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

use super::config::show_config;
use super::empty_answers::empty_table;
use crate::app::AppState;
use crate::config_response::{ShownConfig, default_models, provider_json};
use crate::error::ApiError;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    // No provider offers a way to sign in here.
    Router::new().route("/provider", get(list)).route("/provider/auth", get(empty_table))
}

/// `GET /provider`
async fn list(request: DirectoryRequest) -> Result<ShownConfig, ApiError> {
    show_config(request, |config| {
        let shown: Vec<Value> = config.providers().iter().map(provider_json).collect();
        let connected: Vec<&str> =
            config.available_providers().map(|provider| provider.id.as_str()).collect();
        let default = default_models(config, config.providers().iter());
        Ok(json!({ "all": shown, "default": default, "connected": connected }))
    })
    .await
}
