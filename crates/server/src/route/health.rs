//! Whether the server answers.

use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::app::AppState;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/global/health", get(health)).route("/api/health", get(api_health))
}

/// A server that answers.
#[derive(Serialize)]
struct Health {
    healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
}

/// `GET /global/health`
async fn health() -> Json<Health> {
    Json(Health { healthy: true, version: Some(env!("CARGO_PKG_VERSION")) })
}

/// `GET /api/health`
async fn api_health() -> Json<Health> {
    Json(Health { healthy: true, version: None })
}
