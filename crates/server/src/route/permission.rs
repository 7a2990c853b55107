//! Permission requests: what waits for an answer, and the answer.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::Value;
use turnstone_core::id::{PermissionId, SessionId};
use turnstone_core::model::{PermissionReply, RequestBody};
use turnstone_core::permission::{BuiltinAgent, Directories, ReplyError, agent_rules};
use turnstone_core::wire;
use turnstone_engine::{BaseRules, PermissionError};
use turnstone_store::Context;

use super::session::session_id;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Body, Fields, parse_id};
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/permission", get(list))
        .route("/permission/{request}/reply", post(reply))
        .route("/session/{session}/permissions/{request}", post(respond))
}

/// `GET /permission`
async fn list(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let is_one = |body: &RequestBody| matches!(body, RequestBody::Permission(_));
        Ok(Json(pending(app, &ctx, &asked, is_one)?))
    })
    .await
}

/// What waits for an answer in the sessions of a directory.
pub(super) fn pending(
    app: &App,
    ctx: &Context,
    asked: &Asked,
    wanted: impl Fn(&RequestBody) -> bool,
) -> Result<Value, ApiError> {
    let Some(place) = app.find_place(ctx, &asked.directory)? else {
        return Ok(Value::Array(Vec::new()));
    };
    let directory = place.directory.to_string_lossy();
    let shown = app.engine().store().read(ctx, |r| {
        let mut shown = Vec::new();
        for request in r.pending_requests(None)? {
            let session = r.find_session(&request.session)?;
            if wanted(&request.body) && session.is_some_and(|it| it.directory == directory) {
                shown.push(wire::request_info(&request));
            }
        }
        Ok(shown)
    })?;
    Ok(Value::Array(shown))
}

fn answer(fields: &mut Fields, key: &str) -> Result<PermissionReply, ApiError> {
    fields.need(key, "\"once\" | \"always\" | \"reject\"")
}

fn request_id(name: &str, text: &str) -> Result<PermissionId, ApiError> {
    parse_id(name, "per", text)
}

/// `POST /permission/{requestID}/reply`
pub(super) async fn reply(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(request): Path<String>,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let id = request_id("requestID", &request)?;
    let reply = answer(&mut fields, "reply")?;
    let message = fields.text("message")?;
    app.blocking(move |app| decide(app, &ctx, None, &id, reply, message.as_deref())).await
}

/// `POST /session/{sessionID}/permissions/{permissionID}`, the older way.
async fn respond(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path((session, request)): Path<(String, String)>,
    Body(mut fields): Body,
) -> Result<Json<bool>, ApiError> {
    let session = session_id(&session)?;
    let id = request_id("permissionID", &request)?;
    let reply = answer(&mut fields, "response")?;
    app.blocking(move |app| decide(app, &ctx, Some(&session), &id, reply, None)).await
}

fn decide(
    app: &App,
    ctx: &Context,
    session: Option<&SessionId>,
    id: &PermissionId,
    reply: PermissionReply,
    message: Option<&str>,
) -> Result<Json<bool>, ApiError> {
    let pending = app.engine().pending_requests(ctx, session)?;
    let asked = pending.iter().find(|request| request.id.as_str() == id.as_str());
    let Some(asked) = asked else { return Err(unknown(id)) };
    let base = base_rules(app, ctx, &asked.session, None)?;
    match app.engine().reply_permission(ctx, id, reply, message, &base) {
        Ok(_) => {
            app.runners().stir();
            Ok(Json(true))
        }
        // Somebody else answered first: it is not open any more, as OpenCode says it.
        Err(PermissionError::Reply(ReplyError::NoSuchRequest(_) | ReplyError::NotPending(_))) => {
            Err(unknown(id))
        }
        Err(error) => Err(error.into()),
    }
}

/// The rules that are not in the ledger, those of an agent among them; by default the session's.
///
/// What a configuration says of a single agent counts as part of that configuration, behind what it says
/// of all agents.
pub(super) fn base_rules(
    app: &App,
    ctx: &Context,
    session: &SessionId,
    agent: Option<&str>,
) -> Result<BaseRules, ApiError> {
    let mut base = app.engine().base_rules(ctx, session)?;
    let session = app.engine().store().read(ctx, |r| r.get_session(session))?;
    let place = app.find_place(ctx, std::path::Path::new(&session.directory))?;
    let Some(place) = place else { return Ok(base) };
    let name = agent.or(session.agent.as_deref()).unwrap_or("build");
    if agent.is_some() {
        let builtin = BuiltinAgent::parse(name);
        let rules = builtin.map(|agent| agent_rules(agent, &Directories::default()));
        base.agent = rules.unwrap_or_default();
    }
    let user = app.user_config(&place.directory)?;
    // The files among them have been read by the engine; the variables have not.
    base.user.splice(0..0, user.rules()?);
    base.user.extend(user.rules_of_agent(name)?);
    base.project.extend(app.config(&place)?.rules_of_agent(name)?);
    Ok(base)
}

fn unknown(id: &PermissionId) -> ApiError {
    let message = format!("Permission request not found: {id}");
    ApiError::tagged(StatusCode::NOT_FOUND, "PermissionNotFoundError", &message)
        .with("requestID", id.as_str())
}
