//! Providers of models: those that are configured.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Caller;
use crate::config::{Provider, ShownConfig};
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new().route("/provider", get(list)).route("/provider/auth", get(auth))
}

/// `GET /provider`
async fn list(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<ShownConfig, ApiError> {
    app.blocking(move |app| {
        let config = app.asked_config(&ctx, &asked)?;
        let providers = config.providers()?;
        let shown: Vec<Value> = providers.iter().map(Provider::shown).collect();
        let connected: Vec<&str> = providers.iter().map(|provider| provider.id.as_str()).collect();
        let default = config.default_models()?;
        let shown = json!({ "all": shown, "default": default, "connected": connected });
        Ok(ShownConfig::new(shown))
    })
    .await
}

/// `GET /provider/auth`: there is no way to sign in here.
async fn auth(_asked: Asked) -> Json<Value> {
    Json(json!({}))
}
