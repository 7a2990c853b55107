//! The configuration: shown, never written.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};
use turnstone_store::Context;

use crate::app::App;
use crate::call::Caller;
use crate::config::{Config, Provider, ShownConfig};
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/config", get(read))
        .route("/config/providers", get(providers))
        .route("/global/config", get(global))
}

impl App {
    /// The configuration where a request is about; of a directory that is not there, the user's own.
    pub(super) fn asked_config(&self, ctx: &Context, asked: &Asked) -> Result<Config, ApiError> {
        match self.find_place(ctx, &asked.directory)? {
            Some(place) => self.config(&place),
            None => self.global_config(),
        }
    }
}

/// `GET /config`
async fn read(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<ShownConfig, ApiError> {
    app.blocking(move |app| {
        let config = app.asked_config(&ctx, &asked)?;
        Ok(config.shown(app.settings().actor.as_str()))
    })
    .await
}

/// `GET /global/config`
async fn global(State(app): State<App>) -> Result<ShownConfig, ApiError> {
    app.blocking(|app| Ok(app.global_config()?.shown_bare())).await
}

/// `GET /config/providers`
async fn providers(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<ShownConfig, ApiError> {
    app.blocking(move |app| {
        let config = app.asked_config(&ctx, &asked)?;
        let shown: Vec<Value> = config.providers()?.iter().map(Provider::shown).collect();
        let shown = json!({ "providers": shown, "default": config.default_models()? });
        Ok(ShownConfig::new(shown))
    })
    .await
}
