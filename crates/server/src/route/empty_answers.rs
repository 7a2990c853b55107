//! What clients ask at their start and Turnstone has nothing of: the documented empty answer.

use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::app::AppState;
use crate::project_directory::RequestedDirectory;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/skill", get(empty_list))
        .route("/lsp", get(empty_list))
        .route("/formatter", get(empty_list))
        .route("/mcp", get(empty_table))
        .route("/pty", get(empty_list))
        .route("/pty/shells", get(empty_list))
        .route("/experimental/capabilities", get(capabilities))
        .route("/experimental/console", get(console))
        .route("/experimental/console/orgs", get(organisations))
        .route("/experimental/resource", get(empty_table))
        .route("/experimental/tool/ids", get(empty_list))
        .route("/experimental/workspace", get(empty_list))
        .route("/experimental/workspace/adapter", get(empty_list))
        .route("/experimental/workspace/status", get(empty_list))
}

async fn empty_list(_asked: RequestedDirectory) -> Json<Value> {
    Json(json!([]))
}

async fn empty_table(_asked: RequestedDirectory) -> Json<Value> {
    Json(json!({}))
}

/// `GET /experimental/capabilities`
async fn capabilities(_asked: RequestedDirectory) -> Json<Value> {
    Json(json!({ "backgroundSubagents": false }))
}

/// `GET /experimental/console`
async fn console(_asked: RequestedDirectory) -> Json<Value> {
    Json(json!({ "consoleManagedProviders": [], "switchableOrgCount": 0 }))
}

/// `GET /experimental/console/orgs`
async fn organisations(_asked: RequestedDirectory) -> Json<Value> {
    Json(json!({ "orgs": [] }))
}
