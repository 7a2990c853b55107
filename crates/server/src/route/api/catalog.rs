//! Agents, commands, models and providers; and the empty lists of what Turnstone does not offer.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use turnstone_config::Configuration;

use super::super::empty_answers::EmptyList;
use super::super::skill::list_skills;
use super::location::LocatedData;
use crate::app::AppState;
use crate::config_response::{
    ShownConfig, agent_v2_json, command_v2_json, models_v2_json, provider_v2_json,
};
use crate::configuration::project_config;
use crate::error::ApiError;
use crate::prompt_runner::SkillSummary;
use crate::request_scope::DirectoryRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/agent", get(agents))
        .route("/api/command", get(commands))
        .route("/api/model", get(models))
        .route("/api/provider", get(providers))
        .route("/api/provider/{provider}", get(provider))
        .route("/api/integration", get(empty_list))
        .route("/api/reference", get(empty_list))
        .route("/api/skill", get(skills))
}

/// A part of the configuration with the location it applies to.
type LocatedConfig = Result<Json<LocatedData<ShownConfig>>, ApiError>;

async fn show_config(
    request: DirectoryRequest,
    select: impl FnOnce(&Configuration) -> Result<Value, ApiError> + Send + 'static,
) -> LocatedConfig {
    request
        .in_project(|app, _, place| {
            let shown = ShownConfig::new(select(&project_config(app, &place)?)?);
            Ok(Json(LocatedData::new(&place, shown)))
        })
        .await
}

/// `GET /api/agent`
async fn agents(request: DirectoryRequest) -> LocatedConfig {
    show_config(request, |config| Ok(config.agents().iter().map(agent_v2_json).collect())).await
}

/// `GET /api/command`
async fn commands(request: DirectoryRequest) -> LocatedConfig {
    show_config(request, |config| Ok(config.commands().iter().map(command_v2_json).collect())).await
}

/// `GET /api/model`
async fn models(request: DirectoryRequest) -> LocatedConfig {
    show_config(request, |config| {
        Ok(config.available_providers().flat_map(models_v2_json).collect())
    })
    .await
}

/// `GET /api/provider`
async fn providers(request: DirectoryRequest) -> LocatedConfig {
    show_config(request, |config| Ok(config.available_providers().map(provider_v2_json).collect()))
        .await
}

/// `GET /api/provider/{providerID}`
async fn provider(request: DirectoryRequest, Path(id): Path<String>) -> LocatedConfig {
    show_config(request, move |config| {
        let found = config.providers().iter().find(|provider| provider.id == id);
        found.map(provider_v2_json).ok_or_else(|| {
            let message = format!("Provider not found: {id}");
            ApiError::tagged(StatusCode::NOT_FOUND, "ProviderNotFoundError", &message)
                .with_field("providerID", id.as_str())
        })
    })
    .await
}

/// `GET /api/skill`
async fn skills(
    request: DirectoryRequest,
) -> Result<Json<LocatedData<Vec<SkillSummary>>>, ApiError> {
    request
        .in_project(|app, _, place| {
            let skills = list_skills(app, &place.directory)?;
            Ok(Json(LocatedData::new(&place, skills)))
        })
        .await
}

/// `GET /api/integration`, `/api/reference`: there are none.
async fn empty_list(request: DirectoryRequest) -> Result<Json<LocatedData<EmptyList>>, ApiError> {
    request.in_project(|_, _, place| Ok(Json(LocatedData::new(&place, [])))).await
}
