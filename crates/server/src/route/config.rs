//! The configuration: shown, never written.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};
use turnstone_store::Context;

use crate::app::AppState;
use crate::config::{OpenCodeConfig, ProviderConfig, ShownConfig};
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/config", get(read))
        .route("/config/providers", get(providers))
        .route("/global/config", get(global))
}

impl AppState {
    /// The configuration where a request is about; of a directory that is not there, the user's own.
    pub(super) fn requested_config(
        &self,
        ctx: &Context,
        asked: &RequestedDirectory,
    ) -> Result<OpenCodeConfig, ApiError> {
        match self.find_project_directory(ctx, &asked.directory)? {
            Some(place) => self.project_config(&place),
            None => self.global_config(),
        }
    }
}

/// `GET /config`
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<ShownConfig, ApiError> {
    app.run_blocking(move |app| {
        let config = app.requested_config(&ctx, &asked)?;
        Ok(config.to_json(app.settings().actor.as_str()))
    })
    .await
}

/// `GET /global/config`
async fn global(State(app): State<AppState>) -> Result<ShownConfig, ApiError> {
    app.run_blocking(|app| Ok(app.global_config()?.to_json_without_defaults())).await
}

/// `GET /config/providers`
async fn providers(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<ShownConfig, ApiError> {
    app.run_blocking(move |app| {
        let config = app.requested_config(&ctx, &asked)?;
        let shown: Vec<Value> = config.providers()?.iter().map(ProviderConfig::to_json).collect();
        let shown = json!({ "providers": shown, "default": config.default_models()? });
        Ok(ShownConfig::new(shown))
    })
    .await
}
