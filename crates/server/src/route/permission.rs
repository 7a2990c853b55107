//! Permission requests: what waits for an answer, and the answer.

use std::path::Path as Directory;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use turnstone_core::id::{PermissionId, SessionId};
use turnstone_core::model::{PermissionReply, RequestBody, UserRequest};
use turnstone_core::permission::ReplyError;
use turnstone_core::wire;
use turnstone_engine::PermissionError;
use turnstone_store::Context;

use super::session::session_id;
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{ProjectDirectory, find_project_directory};
use crate::request_context::RequestContext;
use crate::request_input::{JsonBody, JsonFields, parse_path_id};
use crate::request_scope::DirectoryRequest;
use crate::runner_registry::wake_runners;
use crate::wire_json::StoredJson;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/permission", pending_of_kind(|it| matches!(it, RequestBody::Permission(_))))
        .route("/permission/{request}/reply", post(reply))
        .route("/session/{session}/permissions/{request}", post(respond))
}

/// The pending requests of one kind in the sessions of a directory: `GET /permission` and `GET /question`.
pub(super) fn pending_of_kind(is_wanted: fn(&RequestBody) -> bool) -> MethodRouter<AppState> {
    get(move |request: DirectoryRequest| list_pending(request, is_wanted))
}

async fn list_pending(
    request: DirectoryRequest,
    is_wanted: fn(&RequestBody) -> bool,
) -> Result<Json<Vec<StoredJson>>, ApiError> {
    request
        .run(move |app, ctx, asked| {
            let Some(place) = find_project_directory(app, ctx, &asked.directory)? else {
                return Ok(Json(Vec::new()));
            };
            let pending = pending_in_directory(app, ctx, &place)?;
            let wanted = pending.iter().filter(|request| is_wanted(&request.body));
            Ok(Json(wanted.map(|request| StoredJson(wire::request_info(request))).collect()))
        })
        .await
}

/// The requests that wait for an answer in the sessions of a directory.
pub(super) fn pending_in_directory(
    app: &AppState,
    ctx: &Context,
    place: &ProjectDirectory,
) -> Result<Vec<UserRequest>, ApiError> {
    let directory = place.directory.to_string_lossy();
    Ok(app.engine().store().read(ctx, |r| {
        let mut pending = Vec::new();
        for request in r.requests().pending(None)? {
            let session = r.sessions().find(&request.session)?;
            if session.is_some_and(|session| session.directory == directory) {
                pending.push(request);
            }
        }
        Ok(pending)
    })?)
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
    let asked = pending.into_iter().find(|request| request.id.as_str() == id.as_str());
    let asked = asked.ok_or_else(|| unknown_permission(id))?;
    match app.engine().permissions().reply(ctx, id, reply, message) {
        Ok(_) => {
            wake_answered_session(app, ctx, &asked.session)?;
            Ok(Json(true))
        }
        // Another client answered first: the request is not pending any more, as OpenCode says.
        Err(PermissionError::Reply(ReplyError::NoSuchRequest(_) | ReplyError::NotPending(_))) => {
            Err(unknown_permission(id))
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells the runners that a request of a session has its answer: its turn may have lost its process meanwhile.
pub(super) fn wake_answered_session(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
) -> Result<(), ApiError> {
    let found = app.engine().store().read(ctx, |r| r.sessions().find(session))?;
    if let Some(found) = found {
        wake_runners(app, session, Directory::new(&found.directory));
    }
    Ok(())
}

fn unknown_permission(id: &PermissionId) -> ApiError {
    let message = format!("Permission request not found: {id}");
    ApiError::tagged(StatusCode::NOT_FOUND, "PermissionNotFoundError", &message)
        .with_field("requestID", id.as_str())
}
