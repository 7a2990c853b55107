//! Agents, commands, models and providers; and what Turnstone has none of.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_store::Context;

use super::location::with;
use crate::app::App;
use crate::call::Caller;
use crate::config::{Agent, Command, Config, Provider, ShownConfig};
use crate::error::ApiError;
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/api/agent", get(agents))
        .route("/api/command", get(commands))
        .route("/api/model", get(models))
        .route("/api/provider", get(providers))
        .route("/api/provider/{provider}", get(provider))
        .route("/api/integration", get(nothing))
        .route("/api/pty", get(nothing))
        .route("/api/reference", get(nothing))
        .route("/api/skill", get(nothing))
}

async fn shown(
    app: App,
    ctx: Context,
    asked: Asked,
    read: impl FnOnce(&Config) -> Result<Value, ApiError> + Send + 'static,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let place = app.place(&ctx, &asked.directory)?;
        let data = ShownConfig::new(read(&app.config(&place)?)?).into_value();
        Ok(with(&place, data))
    })
    .await
}

/// `GET /api/agent`
async fn agents(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &Config| Ok(config.agents()?.iter().map(Agent::shown_v2).collect());
    shown(app, ctx, asked, read).await
}

/// `GET /api/command`
async fn commands(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &Config| Ok(config.commands()?.iter().map(Command::shown_v2).collect());
    shown(app, ctx, asked, read).await
}

/// `GET /api/model`
async fn models(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &Config| {
        let providers = config.providers()?;
        Ok(providers.iter().flat_map(Provider::models_v2).collect())
    };
    shown(app, ctx, asked, read).await
}

/// `GET /api/provider`
async fn providers(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &Config| Ok(config.providers()?.iter().map(Provider::shown_v2).collect());
    shown(app, ctx, asked, read).await
}

/// `GET /api/provider/{providerID}`
async fn provider(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let read = move |config: &Config| {
        let providers = config.providers()?;
        let found = providers.iter().find(|provider| provider.id == id);
        found.map(Provider::shown_v2).ok_or_else(|| {
            let message = format!("Provider not found: {id}");
            ApiError::tagged(StatusCode::NOT_FOUND, "ProviderNotFoundError", &message)
                .with("providerID", id.as_str())
        })
    };
    shown(app, ctx, asked, read).await
}

/// `GET /api/integration`, `/api/pty`, `/api/reference`, `/api/skill`: there are none.
async fn nothing(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let place = app.place(&ctx, &asked.directory)?;
        Ok(with(&place, Vec::<Value>::new()))
    })
    .await
}
