//! Routes that clients call at their start for features Turnstone does not have: the documented empty response.

use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::app::AppState;
use crate::project_directory::RequestedDirectory;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/lsp", get(empty_list))
        .route("/formatter", get(empty_list))
        .route("/experimental/capabilities", get(capabilities))
        .route("/experimental/console", get(console))
        .route("/experimental/console/orgs", get(organisations))
        .route("/experimental/resource", get(empty_table))
        .route("/experimental/tool/ids", get(empty_list))
        .route("/experimental/workspace", get(empty_list))
        .route("/experimental/workspace/adapter", get(empty_list))
        .route("/experimental/workspace/status", get(empty_list))
}

/// A list without entries: `[]`.
pub(super) type EmptyList = [(); 0];

/// An object without fields: `{}`.
#[derive(Serialize)]
pub(super) struct EmptyTable {}

async fn empty_list(_asked: RequestedDirectory) -> Json<EmptyList> {
    Json([])
}

pub(super) async fn empty_table(_asked: RequestedDirectory) -> Json<EmptyTable> {
    Json(EmptyTable {})
}

/// What this server can do beyond the usual.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    background_subagents: bool,
}

/// `GET /experimental/capabilities`
async fn capabilities(_asked: RequestedDirectory) -> Json<Capabilities> {
    Json(Capabilities { background_subagents: false })
}

/// The account of OpenCode's console; there is none.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConsoleState {
    console_managed_providers: EmptyList,
    switchable_org_count: u32,
}

/// `GET /experimental/console`
async fn console(_asked: RequestedDirectory) -> Json<ConsoleState> {
    Json(ConsoleState { console_managed_providers: [], switchable_org_count: 0 })
}

/// The organisations of an account; there are none.
#[derive(Serialize)]
struct ConsoleOrganisations {
    orgs: EmptyList,
}

/// `GET /experimental/console/orgs`
async fn organisations(_asked: RequestedDirectory) -> Json<ConsoleOrganisations> {
    Json(ConsoleOrganisations { orgs: [] })
}
