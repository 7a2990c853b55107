//! The configuration: shown, never written.

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};
use turnstone_config::{Configuration, ProviderProfile};
use turnstone_store::Context;

use crate::app::AppState;
use crate::config_response::{ShownConfig, default_models, provider_json};
use crate::configuration::{config_json, global_config, project_config};
use crate::error::ApiError;
use crate::project_directory::{RequestedDirectory, find_project_directory};
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/config", get(read))
        .route("/config/providers", get(providers))
        .route("/global/config", get(global))
}

/// The configuration that applies to a request; the user's own if the directory does not exist.
fn requested_config(
    app: &AppState,
    ctx: &Context,
    asked: &RequestedDirectory,
) -> Result<Configuration, ApiError> {
    match find_project_directory(app, ctx, &asked.directory)? {
        Some(place) => project_config(app, &place),
        None => global_config(app),
    }
}

/// Answers with a part of the configuration that applies to a request.
pub(super) async fn show_config(
    request: DirectoryRequest,
    select: impl FnOnce(&Configuration) -> Result<Value, ApiError> + Send + 'static,
) -> Result<ShownConfig, ApiError> {
    request
        .run(|app, ctx, asked| Ok(ShownConfig::new(select(&requested_config(app, ctx, &asked)?)?)))
        .await
}

/// `GET /config`
async fn read(request: DirectoryRequest) -> Result<ShownConfig, ApiError> {
    request
        .run(|app, ctx, asked| {
            let config = requested_config(app, ctx, &asked)?;
            Ok(config_json(&config, app.settings().actor.as_str()))
        })
        .await
}

/// `GET /global/config`
async fn global(State(app): State<AppState>) -> Result<ShownConfig, ApiError> {
    app.run_blocking(|app| {
        Ok(ShownConfig::new(Value::Object(global_config(app)?.shown_settings().clone())))
    })
    .await
}

/// `GET /config/providers`
async fn providers(request: DirectoryRequest) -> Result<ShownConfig, ApiError> {
    show_config(request, |config| {
        let available: Vec<&ProviderProfile> = config.available_providers().collect();
        let shown: Vec<Value> = available.iter().map(|provider| provider_json(provider)).collect();
        let default = default_models(config, available.into_iter());
        Ok(json!({ "providers": shown, "default": default }))
    })
    .await
}
