//! Providers of models: those that are configured.

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

use super::config::show_config;
use super::empty_answers::empty_table;
use crate::app::AppState;
use crate::config::{ProviderConfig, ShownConfig};
use crate::error::ApiError;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    // No provider offers a way to sign in here.
    Router::new().route("/provider", get(list)).route("/provider/auth", get(empty_table))
}

/// `GET /provider`
async fn list(request: DirectoryRequest) -> Result<ShownConfig, ApiError> {
    show_config(request, |config| {
        let providers = ProviderConfig::list(config)?;
        let shown: Vec<Value> = providers.iter().map(ProviderConfig::to_json).collect();
        let connected: Vec<&str> = providers.iter().map(|provider| provider.id.as_str()).collect();
        let default = ProviderConfig::default_models(&providers);
        Ok(json!({ "all": shown, "default": default, "connected": connected }))
    })
    .await
}
