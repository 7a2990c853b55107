//! What clients ask at their start and Turnstone has nothing of: the documented empty answer.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_store::SessionFilter;

use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::Query;
use crate::place::Asked;

/// How many sessions are listed unless the client says otherwise.
const PAGE: usize = 100;

pub(super) fn routes() -> Router<App> {
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
        .route("/experimental/session", get(sessions))
        .route("/experimental/tool/ids", get(empty_list))
        .route("/experimental/workspace", get(empty_list))
        .route("/experimental/workspace/adapter", get(empty_list))
        .route("/experimental/workspace/status", get(empty_list))
}

async fn empty_list(_asked: Asked) -> Json<Value> {
    Json(json!([]))
}

async fn empty_table(_asked: Asked) -> Json<Value> {
    Json(json!({}))
}

/// `GET /experimental/capabilities`
async fn capabilities(_asked: Asked) -> Json<Value> {
    Json(json!({ "backgroundSubagents": false }))
}

/// `GET /experimental/console`
async fn console(_asked: Asked) -> Json<Value> {
    Json(json!({ "consoleManagedProviders": [], "switchableOrgCount": 0 }))
}

/// `GET /experimental/console/orgs`
async fn organisations(_asked: Asked) -> Json<Value> {
    Json(json!({ "orgs": [] }))
}

/// `GET /experimental/session`: the sessions of all projects, each with its project.
async fn sessions(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let (roots, archived) = (query.flag("roots")?, query.flag("archived")?);
    app.blocking(move |app| {
        let directory = asked.by_query.then(|| asked.directory.to_string_lossy().into_owned());
        let filter = SessionFilter {
            directory,
            roots,
            start: query.filled("start").and_then(|text| text.parse().ok()),
            search: query.filled("search").map(str::to_owned),
            archived,
            ..SessionFilter::default()
        };
        let limit = query.filled("limit").and_then(|text| text.parse().ok()).unwrap_or(PAGE);
        let projects = app.engine().store().read(&ctx, |r| r.projects())?;
        let mut shown = app.show_sessions(&ctx, |r| {
            let page = r.list_sessions(&filter, None, limit)?;
            Ok(page.items.into_iter().map(|row| row.session).collect())
        })?;
        for session in &mut shown {
            let project = projects.iter().find(|project| session["projectID"] == project.id.as_str());
            session["project"] = project.map_or(Value::Null, |project| {
                let mut brief = json!({ "id": project.id.as_str(), "worktree": project.worktree });
                if let Some(name) = &project.name {
                    brief["name"] = Value::from(name.as_str());
                }
                brief
            });
        }
        Ok(Json(Value::Array(shown)))
    })
    .await
}
