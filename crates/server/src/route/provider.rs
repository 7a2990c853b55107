//! Providers of models: those that are configured.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::AppState;
use crate::config::{ProviderConfig, ShownConfig};
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/provider", get(list)).route("/provider/auth", get(auth))
}

/// `GET /provider`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<ShownConfig, ApiError> {
    app.run_blocking(move |app| {
        let config = app.requested_config(&ctx, &asked)?;
        let providers = config.providers()?;
        let shown: Vec<Value> = providers.iter().map(ProviderConfig::to_json).collect();
        let connected: Vec<&str> = providers.iter().map(|provider| provider.id.as_str()).collect();
        let default = config.default_models()?;
        let shown = json!({ "all": shown, "default": default, "connected": connected });
        Ok(ShownConfig::new(shown))
    })
    .await
}

/// `GET /provider/auth`: there is no way to sign in here.
async fn auth(_asked: RequestedDirectory) -> Json<Value> {
    Json(json!({}))
}
