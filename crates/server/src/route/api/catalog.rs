//! Agents, commands, models and providers; and what Turnstone has none of.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_store::Context;

use super::location::with_location;
use crate::app::AppState;
use crate::config::{AgentConfig, CommandConfig, OpenCodeConfig, ProviderConfig, ShownConfig};
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/agent", get(agents))
        .route("/api/command", get(commands))
        .route("/api/model", get(models))
        .route("/api/provider", get(providers))
        .route("/api/provider/{provider}", get(provider))
        .route("/api/integration", get(empty_list))
        .route("/api/pty", get(empty_list))
        .route("/api/reference", get(empty_list))
        .route("/api/skill", get(empty_list))
}

async fn config_list(
    app: AppState,
    ctx: Context,
    asked: RequestedDirectory,
    read: impl FnOnce(&OpenCodeConfig) -> Result<Value, ApiError> + Send + 'static,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        let data = ShownConfig::new(read(&app.project_config(&place)?)?).into_value();
        Ok(with_location(&place, data))
    })
    .await
}

/// `GET /api/agent`
async fn agents(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &OpenCodeConfig| {
        Ok(config.agents()?.iter().map(AgentConfig::to_v2_json).collect())
    };
    config_list(app, ctx, asked, read).await
}

/// `GET /api/command`
async fn commands(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &OpenCodeConfig| {
        Ok(config.commands()?.iter().map(CommandConfig::to_v2_json).collect())
    };
    config_list(app, ctx, asked, read).await
}

/// `GET /api/model`
async fn models(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &OpenCodeConfig| {
        let providers = config.providers()?;
        Ok(providers.iter().flat_map(ProviderConfig::models_v2_json).collect())
    };
    config_list(app, ctx, asked, read).await
}

/// `GET /api/provider`
async fn providers(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    let read = |config: &OpenCodeConfig| {
        Ok(config.providers()?.iter().map(ProviderConfig::to_v2_json).collect())
    };
    config_list(app, ctx, asked, read).await
}

/// `GET /api/provider/{providerID}`
async fn provider(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let read = move |config: &OpenCodeConfig| {
        let providers = config.providers()?;
        let found = providers.iter().find(|provider| provider.id == id);
        found.map(ProviderConfig::to_v2_json).ok_or_else(|| {
            let message = format!("Provider not found: {id}");
            ApiError::tagged(StatusCode::NOT_FOUND, "ProviderNotFoundError", &message)
                .with_field("providerID", id.as_str())
        })
    };
    config_list(app, ctx, asked, read).await
}

/// `GET /api/integration`, `/api/pty`, `/api/reference`, `/api/skill`: there are none.
async fn empty_list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        Ok(with_location(&place, Vec::<Value>::new()))
    })
    .await
}
