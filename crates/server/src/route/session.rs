//! Sessions: created, listed, changed, deleted.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use turnstone_core::id::{SessionId, WorkspaceId};
use turnstone_core::model::{SessionUsage, Todo};
use turnstone_core::permission::CallerRole;
use turnstone_core::wire;
use turnstone_engine::{NewSession, SessionPatch};
use turnstone_store::{SessionFilter, SessionRow};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{
    RequestedDirectory, find_project_directory, open_project_directory,
};
use crate::request_context::RetryAwareContext;
use crate::request_input::{JsonBody, JsonFields, OptionalJsonBody, QueryParams, parse_path_id};
use crate::request_scope::{DirectoryRequest, SessionRequest};
use crate::rule_setter::{check_can_set_rules, is_in_charge};
use crate::runner_registry::check_session_reach;
use crate::session_revert::session_created_at;
use crate::wire_json::{
    JsonTextResponse, StoredJson, json_text_response, session_json, session_list_json,
    sessions_json,
};

/// How many sessions are listed unless the client says otherwise.
const DEFAULT_LIMIT: usize = 100;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/session", get(list).post(create))
        .route("/session/{session}", get(read).patch(update).delete(remove))
        .route("/session/{session}/children", get(children))
        .route("/session/{session}/todo", get(todos))
}

/// The session a path names.
pub(super) fn session_id(text: &str) -> Result<SessionId, ApiError> {
    parse_path_id("sessionID", "ses", text)
}

/// `GET /session`
async fn list(request: DirectoryRequest, query: QueryParams) -> Result<JsonTextResponse, ApiError> {
    let roots = query.flag("roots")?;
    request
        .run(move |app, ctx, asked| {
            let Some(place) = find_project_directory(app, ctx, &asked.directory)? else {
                return Ok(json_text_response("[]".to_owned()));
            };
            // A runner sees no session outside of its directory.
            let is_runner = ctx.role == CallerRole::Runner;
            let path = query.non_empty("path").filter(|_| !is_runner).map(str::to_owned);
            let is_wide = path.is_some() || query.get("scope") == Some("project");
            let narrow = is_runner || (asked.by_query && !is_wide);
            let here = || place.directory.to_string_lossy().into_owned();
            let filter = SessionFilter {
                directory: narrow.then(here),
                // A session that was stored without a path is found by its directory.
                pathless: (asked.by_query && path.is_some()).then(here),
                project: Some(place.project.id),
                path,
                roots,
                start: query.non_empty("start").and_then(|text| text.parse().ok()),
                search: query.non_empty("search").map(str::to_owned),
                archived: true,
                actor: None,
            };
            let limit = query.non_empty("limit").and_then(|text| text.parse().ok());
            let limit = limit.unwrap_or(DEFAULT_LIMIT);
            Ok(json_text_response(session_list_json(app, ctx, &filter, limit)?))
        })
        .await
}

/// Reads the fields of a new session.
fn read_new_session(mut fields: JsonFields) -> Result<NewSession, ApiError> {
    if let Some(workspace) = fields.id::<WorkspaceId>("workspaceID", "wrk")? {
        return Err(ApiError::NotFound(format!("Workspace not found: {workspace}")));
    }
    Ok(NewSession {
        title: fields.text("title")?,
        parent: fields.id("parentID", "ses")?,
        agent: fields.text("agent")?,
        model: fields.read("model", "{ id, providerID, variant }")?,
        metadata: fields.read("metadata", "object")?,
        permission: fields.read("permission", "PermissionRuleset")?,
    })
}

/// `POST /session`
async fn create(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    asked: RequestedDirectory,
    OptionalJsonBody(fields): OptionalJsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let new = read_new_session(fields)?;
    app.run_blocking(move |app| {
        if let Some(made) = began.map(|at| session_created_at(app, &ctx, at)).transpose()?.flatten()
        {
            return Ok(Json(session_json(app, &ctx, &made.id)?));
        }
        if let Some(parent) = new.parent.as_ref().filter(|_| ctx.role == CallerRole::Runner) {
            check_session_reach(app, &ctx, parent)?;
        }
        check_can_set_rules(app, &ctx, None, new.permission.as_deref().unwrap_or_default())?;
        let place = open_project_directory(app, &ctx, &asked.directory)?;
        let (project, root) = (&place.project.id, &place.root);
        let engine = app.engine();
        let made =
            engine.projects().create_session_in(&ctx, project, root, &place.directory, &new)?;
        Ok(Json(StoredJson(wire::session_info(&made, SessionUsage::default()))))
    })
    .await
}

/// `GET /session/{sessionID}`
pub(super) async fn read(request: SessionRequest) -> Result<Json<StoredJson>, ApiError> {
    request.run(|app, ctx, id| Ok(Json(session_json(app, ctx, id)?))).await
}

/// Reads the fields of a session that a client changes.
fn read_session_patch(fields: &mut JsonFields) -> Result<SessionPatch, ApiError> {
    let title = fields.text("title")?;
    let metadata = fields.read("metadata", "object")?;
    let added_rules = fields.read("permission", "PermissionRuleset")?;
    let time = fields.object("time")?;
    let archived = time.map(|mut time| time.read("archived", "number")).transpose()?.flatten();
    Ok(SessionPatch { title, archived, metadata, added_rules, ..SessionPatch::default() })
}

/// `PATCH /session/{sessionID}`
async fn update(
    request: SessionRequest<RetryAwareContext>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<StoredJson>, ApiError> {
    let patch = read_session_patch(&mut fields)?;
    request
        .run(move |app, ctx, began, id| {
            // One transaction: if an earlier try began, it is done.
            if began.is_some() {
                return Ok(Json(session_json(app, ctx, id)?));
            }
            if patch.archived.is_some() && !is_in_charge(app, ctx, id)? {
                // The undo of archived sessions is the first to expire.
                let message = "only a person, or the client that created a session, archives it";
                return Err(ApiError::not_for_runners(message));
            }
            let added_rules = patch.added_rules.as_deref().unwrap_or_default();
            check_can_set_rules(app, ctx, Some(id), added_rules)?;
            app.engine().history().edits().patch_session(ctx, id, patch)?;
            Ok(Json(session_json(app, ctx, id)?))
        })
        .await
}

/// `DELETE /session/{sessionID}`
async fn remove(request: SessionRequest) -> Result<Json<bool>, ApiError> {
    request
        .run(|app, ctx, id| {
            app.engine().projects().delete_session(ctx, id)?;
            Ok(Json(true))
        })
        .await
}

/// `GET /session/{sessionID}/children`
async fn children(request: SessionRequest) -> Result<Json<Vec<StoredJson>>, ApiError> {
    request
        .run(|app, ctx, id| {
            let children = sessions_json(app, ctx, |r| {
                r.sessions().get(id)?;
                let children = r.sessions().children(id)?.into_iter();
                children
                    .map(|session| {
                        Ok(SessionRow { usage: r.sessions().usage(&session.id)?, session })
                    })
                    .collect()
            })?;
            Ok(Json(children))
        })
        .await
}

/// `GET /session/{sessionID}/todo`
async fn todos(request: SessionRequest) -> Result<Json<Vec<Todo>>, ApiError> {
    request
        .run(|app, ctx, id| Ok(Json(app.engine().store().read(ctx, |r| r.sessions().todos(id))?)))
        .await
}
