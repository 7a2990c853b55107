//! Sessions in the newer shape.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use turnstone_core::id::{ProjectId, SessionId, WorkspaceId};
use turnstone_core::model::SessionModel;
use turnstone_engine::{NewSession, SessionPatch};
use turnstone_store::{SessionFilter, SessionRow};

use super::super::abort;
use super::super::session::session_id;
use super::page_request::PageRequest;
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{RequestedDirectory, list_filter_directory};
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, OptionalJsonBody, QueryParams};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/session", get(list).post(create))
        .route("/api/session/active", get(active))
        .route("/api/session/{session}", get(read))
        .route("/api/session/{session}/agent", post(switch_agent))
        .route("/api/session/{session}/model", post(switch_model))
        .route("/api/session/{session}/interrupt", post(interrupt))
        .route("/api/session/{session}/wait", post(wait))
}

/// The fields both shapes have.
const SHARED_FIELDS: [&str; 8] =
    ["id", "parentID", "projectID", "agent", "model", "cost", "tokens", "title"];

/// A session of the older shape in the newer one.
fn session_v2_json(older: &Value) -> Value {
    let mut map = Map::new();
    let fields = SHARED_FIELDS.iter().filter_map(|key| older.get(*key).map(|value| (*key, value)));
    map.extend(fields.map(|(key, value)| (key.to_owned(), value.clone())));
    let mut time =
        json!({ "created": older["time"]["created"], "updated": older["time"]["updated"] });
    if let Some(archived) = older["time"].get("archived") {
        time["archived"] = archived.clone();
    }
    map.insert("time".to_owned(), time);
    map.insert("location".to_owned(), json!({ "directory": older["directory"] }));
    if let Some(path) = older["path"].as_str().filter(|path| !path.is_empty()) {
        map.insert("subpath".to_owned(), Value::from(path));
    }
    if let Some(revert) = older.get("revert") {
        map.insert("revert".to_owned(), revert.clone());
    }
    Value::Object(map)
}

/// `GET /api/session`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    _asked: RequestedDirectory,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let page = PageRequest::parse(&query)?;
    let project = query.non_empty("project").map(str::to_owned);
    let project = match project.map(ProjectId::try_from).transpose() {
        Ok(project) => project,
        Err(_) => return Err(ApiError::invalid_query("Expected a project\n  at [\"project\"]")),
    };
    let filter = SessionFilter {
        project,
        directory: list_filter_directory(&query)?,
        path: query.non_empty("subpath").map(str::to_owned),
        search: query.non_empty("search").map(str::to_owned),
        archived: true,
        ..SessionFilter::default()
    };
    app.run_blocking(move |app| {
        let mut cursors = Value::Null;
        let shown = app.sessions_json(&ctx, |r| {
            let mut all = r.sessions().list(&filter, None, usize::MAX)?.items;
            let made = |row: &SessionRow| row.session.time.created.as_f64().unwrap_or_default();
            let id = |row: &SessionRow| row.session.id.clone();
            all.sort_by(|a, b| made(b).total_cmp(&made(a)).then_with(|| id(a).cmp(&id(b))));
            let (items, named) = page.slice_page(all, |row| row.session.id.as_str());
            cursors = named;
            Ok(items)
        })?;
        let data: Vec<Value> = shown.iter().map(session_v2_json).collect();
        Ok(Json(json!({ "data": data, "cursor": cursors })))
    })
    .await
}

/// `POST /api/session`
async fn create(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    mut asked: RequestedDirectory,
    OptionalJsonBody(mut fields): OptionalJsonBody,
) -> Result<Json<Value>, ApiError> {
    let known: Option<SessionId> = fields.id("id", "ses")?;
    let new = NewSession {
        agent: fields.text("agent")?,
        model: fields.read::<SessionModel>("model", "{ id, providerID, variant }")?,
        ..NewSession::default()
    };
    if let Some(mut location) = fields.object("location")? {
        if let Some(workspace) = location.id::<WorkspaceId>("workspaceID", "wrk")? {
            return Err(ApiError::NotFound(format!("Workspace not found: {workspace}")));
        }
        let directory = location.require_text("directory")?;
        asked = asked.with_body_directory(&directory)?;
    }
    if let Some(id) = known {
        // The ledger mints its ids; one of a client's making is only good for one that is there.
        return app.run_blocking(move |app| read_existing(app, &ctx, &id)).await;
    }
    app.run_blocking(move |app| {
        let place = app.open_project_directory(&ctx, &asked.directory)?;
        let (project, root) = (&place.project.id, &place.root);
        let made = app.engine().projects().create_session_in(
            &ctx,
            project,
            root,
            &place.directory,
            &new,
        )?;
        Ok(Json(json!({ "data": session_v2_json(&app.session_json(&ctx, &made.id)?) })))
    })
    .await
}

fn read_existing(
    app: &AppState,
    ctx: &turnstone_store::Context,
    id: &SessionId,
) -> Result<Json<Value>, ApiError> {
    match app.session_json(ctx, id) {
        Ok(shown) => Ok(Json(json!({ "data": session_v2_json(&shown) }))),
        Err(ApiError::NotFound(_)) => {
            let message = "ids of sessions are made here";
            Err(ApiError::tagged(StatusCode::CONFLICT, "ConflictError", message)
                .with_field("resource", "session"))
        }
        Err(error) => Err(error),
    }
}

/// `GET /api/session/active`
async fn active(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let open = app.engine().store().read(&ctx, |r| r.turns().sessions_with_open())?;
        let running = |id: SessionId| (id.as_str().to_owned(), json!({ "type": "running" }));
        let data: Map<String, Value> = open.into_iter().map(running).collect();
        Ok(Json(json!({ "data": data })))
    })
    .await
}

/// `GET /api/session/{sessionID}`
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        Ok(Json(json!({ "data": session_v2_json(&app.session_json(&ctx, &id)?) })))
    })
    .await
}

async fn patch_session(
    app: AppState,
    ctx: turnstone_store::Context,
    id: SessionId,
    patch: SessionPatch,
) -> Result<StatusCode, ApiError> {
    app.run_blocking(move |app| {
        app.engine().history().edits().patch_session(&ctx, &id, patch)?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// `POST /api/session/{sessionID}/agent`
async fn switch_agent(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    let agent = Some(fields.require_text("agent")?);
    patch_session(app, ctx, id, SessionPatch { agent, ..SessionPatch::default() }).await
}

/// `POST /api/session/{sessionID}/model`
async fn switch_model(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    let model = Some(fields.require("model", "{ id, providerID, variant }")?);
    patch_session(app, ctx, id, SessionPatch { model, ..SessionPatch::default() }).await
}

/// `POST /api/session/{sessionID}/interrupt`
async fn interrupt(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    let asked = ctx.clone();
    app.run_blocking(move |app| {
        Ok(app.engine().store().read(&asked, |r| r.sessions().get(&id))?)
    })
    .await?;
    let Json(_) = abort::abort(State(app), RequestContext(ctx), Path(session)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/wait`: as OpenCode, which does not have it yet either.
async fn wait(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| Ok(app.engine().store().read(&ctx, |r| r.sessions().get(&id))?))
        .await?;
    let message = "Session wait is not available yet";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Err(ApiError::tagged(status, "ServiceUnavailableError", message)
        .with_field("service", "session.wait"))
}
