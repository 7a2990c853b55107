//! Permission requests: what waits for an answer, and the answer.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{PermissionId, SessionId};
use turnstone_core::model::{PermissionReply, RequestBody};
use turnstone_core::permission::{BuiltinAgent, ReplyError, RuleDirectories, agent_rules};
use turnstone_core::wire;
use turnstone_engine::{BaseRules, PermissionError};
use turnstone_store::Context;

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, JsonFields, parse_path_id};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/permission", get(list))
        .route("/permission/{request}/reply", post(reply))
        .route("/session/{session}/permissions/{request}", post(respond))
}

/// `GET /permission`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let is_one = |body: &RequestBody| matches!(body, RequestBody::Permission(_));
        Ok(Json(pending_requests_json(app, &ctx, &asked, is_one)?))
    })
    .await
}

/// What waits for an answer in the sessions of a directory.
pub(super) fn pending_requests_json(
    app: &AppState,
    ctx: &Context,
    asked: &RequestedDirectory,
    wanted: impl Fn(&RequestBody) -> bool,
) -> Result<Value, ApiError> {
    let Some(place) = app.find_project_directory(ctx, &asked.directory)? else {
        return Ok(Value::Array(Vec::new()));
    };
    let directory = place.directory.to_string_lossy();
    let shown = app.engine().store().read(ctx, |r| {
        let mut shown = Vec::new();
        for request in r.requests().pending(None)? {
            let session = r.sessions().find(&request.session)?;
            if wanted(&request.body) && session.is_some_and(|it| it.directory == directory) {
                shown.push(wire::request_info(&request));
            }
        }
        Ok(shown)
    })?;
    Ok(Value::Array(shown))
}

fn read_reply(fields: &mut JsonFields, key: &str) -> Result<PermissionReply, ApiError> {
    fields.require(key, "\"once\" | \"always\" | \"reject\"")
}

fn request_id(name: &str, text: &str) -> Result<PermissionId, ApiError> {
    parse_path_id(name, "per", text)
}

/// `POST /permission/{requestID}/reply`
pub(super) async fn reply(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(request): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let id = request_id("requestID", &request)?;
    let reply = read_reply(&mut fields, "reply")?;
    let message = fields.text("message")?;
    app.run_blocking(move |app| reply_to_request(app, &ctx, None, &id, reply, message.as_deref()))
        .await
}

/// `POST /session/{sessionID}/permissions/{permissionID}`, the older way.
async fn respond(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, request)): Path<(String, String)>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<bool>, ApiError> {
    let session = session_id(&session)?;
    let id = request_id("permissionID", &request)?;
    let reply = read_reply(&mut fields, "response")?;
    app.run_blocking(move |app| reply_to_request(app, &ctx, Some(&session), &id, reply, None)).await
}

fn reply_to_request(
    app: &AppState,
    ctx: &Context,
    session: Option<&SessionId>,
    id: &PermissionId,
    reply: PermissionReply,
    message: Option<&str>,
) -> Result<Json<bool>, ApiError> {
    let pending = app.engine().permissions().pending(ctx, session)?;
    let asked = pending.iter().find(|request| request.id.as_str() == id.as_str());
    let Some(asked) = asked else { return Err(unknown_permission(id)) };
    let base = base_rules(app, ctx, &asked.session, None)?;
    match app.engine().permissions().reply(ctx, id, reply, message, &base) {
        Ok(_) => {
            app.runners().notify_waiters();
            Ok(Json(true))
        }
        // Somebody else answered first: it is not open any more, as OpenCode says it.
        Err(PermissionError::Reply(ReplyError::NoSuchRequest(_) | ReplyError::NotPending(_))) => {
            Err(unknown_permission(id))
        }
        Err(error) => Err(error.into()),
    }
}

/// The rules that are not in the ledger, those of an agent among them; by default the session's.
///
/// What a configuration says of a single agent counts as part of that configuration, behind what it says
/// of all agents.
pub(super) fn base_rules(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    agent: Option<&str>,
) -> Result<BaseRules, ApiError> {
    let mut base = app.engine().permissions().rules().base(ctx, session)?;
    let session = app.engine().store().read(ctx, |r| r.sessions().get(session))?;
    let place = app.find_project_directory(ctx, std::path::Path::new(&session.directory))?;
    let Some(place) = place else { return Ok(base) };
    let name = agent.or(session.agent.as_deref()).unwrap_or("build");
    if agent.is_some() {
        let builtin = BuiltinAgent::parse(name);
        let rules = builtin.map(|agent| agent_rules(agent, &RuleDirectories::default()));
        base.agent = rules.unwrap_or_default();
    }
    let user = app.user_config(&place.directory)?;
    // The files among them have been read by the engine; the variables have not.
    base.user.splice(0..0, user.permission_rules()?);
    base.user.extend(user.agent_permission_rules(name)?);
    base.project.extend(app.project_config(&place)?.agent_permission_rules(name)?);
    Ok(base)
}

fn unknown_permission(id: &PermissionId) -> ApiError {
    let message = format!("Permission request not found: {id}");
    ApiError::tagged(StatusCode::NOT_FOUND, "PermissionNotFoundError", &message)
        .with_field("requestID", id.as_str())
}
