//! Whether the server answers.

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::AppState;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/global/health", get(health)).route("/api/health", get(api_health))
}

/// `GET /global/health`
async fn health() -> Json<Value> {
    Json(json!({ "healthy": true, "version": env!("CARGO_PKG_VERSION") }))
}

/// `GET /api/health`
async fn api_health() -> Json<Value> {
    Json(json!({ "healthy": true }))
}
