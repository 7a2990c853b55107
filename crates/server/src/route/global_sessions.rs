//! The sessions of all projects.

use std::collections::HashMap;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use turnstone_core::id::ProjectId;
use turnstone_store::{ReadTx, SessionFilter, SessionPage, SessionRow};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::list_filter_directory;
use crate::request_context::RequestContext;
use crate::request_input::QueryParams;
use crate::wire_json::{StoredJson, sessions_json};

/// How many sessions are listed unless the client says otherwise.
const PAGE: usize = 100;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/experimental/session", get(list))
}

/// A session with its project.
#[derive(Serialize)]
struct GlobalSession {
    #[serde(flatten)]
    session: StoredJson,
    project: Option<ListedProjectRef>,
}

/// The project of a listed session.
#[derive(Serialize)]
struct ListedProjectRef {
    id: ProjectId,
    worktree: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// `GET /experimental/session`
///
/// The cursor is the time of the last change on the page, as OpenCode's is. Sessions that changed in
/// the same millisecond stay on one page, so that none falls between two.
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<(HeaderMap, Json<Vec<GlobalSession>>), ApiError> {
    let number = |key: &str| query.non_empty(key).and_then(|text| text.parse::<f64>().ok());
    let filter = SessionFilter {
        directory: list_filter_directory(&query)?,
        roots: query.flag("roots")?,
        start: number("start"),
        search: query.non_empty("search").map(str::to_owned),
        archived: query.flag("archived")?,
        actor: query.non_empty("actor").map(str::to_owned),
        ..SessionFilter::default()
    };
    let before = number("cursor").map(SessionPage::cursor_before);
    let limit = query.non_empty("limit").and_then(|text| text.parse().ok()).unwrap_or(PAGE).max(1);
    app.run_blocking(move |app| {
        let (mut next, mut projects) = (None, HashMap::new());
        let sessions = sessions_json(app, &ctx, |r| {
            let (sessions, more) = page_by_time(r, &filter, before.as_deref(), limit)?;
            let last = sessions.last().filter(|_| more);
            next = last.map(|it| it.session.time.updated.clone());
            for project in r.projects().list()? {
                projects.insert(project.id.to_string(), project);
            }
            Ok(sessions)
        })?;
        let with_project = |session: StoredJson| {
            let id = session.0["projectID"].as_str();
            let project = id.and_then(|id| projects.get(id)).map(|project| ListedProjectRef {
                id: project.id.clone(),
                worktree: project.worktree.clone(),
                name: project.name.clone(),
            });
            GlobalSession { session, project }
        };
        let mut headers = HeaderMap::new();
        if let Some(cursor) = next.and_then(|at| HeaderValue::from_str(&at.to_string()).ok()) {
            headers.insert("x-next-cursor", cursor);
            let names = HeaderValue::from_static("X-Next-Cursor");
            headers.insert("access-control-expose-headers", names);
        }
        Ok((headers, Json(sessions.into_iter().map(with_project).collect())))
    })
    .await
}

/// A page, and whether there is more behind it.
fn page_by_time(
    r: &ReadTx<'_>,
    filter: &SessionFilter,
    before: Option<&str>,
    limit: usize,
) -> turnstone_store::Result<(Vec<SessionRow>, bool)> {
    let first = r.sessions().list(filter, before, limit)?;
    let mut sessions = first.items;
    let mut next = first.next;
    while let Some(cursor) = next.take() {
        let one = r.sessions().list(filter, Some(&cursor), 1)?;
        let Some(row) = one.items.into_iter().next() else { break };
        let updated = |row: &SessionRow| row.session.time.updated.clone();
        if sessions.last().is_none_or(|last| updated(last) != updated(&row)) {
            return Ok((sessions, true));
        }
        sessions.push(row);
        next = one.next;
    }
    Ok((sessions, false))
}
