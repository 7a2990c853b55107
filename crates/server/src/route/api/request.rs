//! Permission requests and questions in the newer shape.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Request, RequestBody};
use turnstone_core::wire;
use turnstone_store::Context;

use super::super::session::session_id;
use super::super::{permission, question};
use super::location::with;
use crate::app::App;
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::{Body, Query, parse_id};
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/api/permission/request", get(permissions))
        .route("/api/permission/saved", get(saved))
        .route("/api/question/request", get(questions))
        .route("/api/session/{session}/permission", get(session_permissions))
        .route("/api/session/{session}/permission/{request}", get(session_permission))
        .route("/api/session/{session}/permission/{request}/reply", post(reply_permission))
        .route("/api/session/{session}/question", get(session_questions))
        .route("/api/session/{session}/question/{request}/reply", post(reply_question))
        .route("/api/session/{session}/question/{request}/reject", post(reject_question))
}

/// A request in the newer shape; nothing if it is of the other kind.
fn newer(request: &Request, wants_permission: bool) -> Option<Value> {
    let older = wire::request_info(request);
    match (&request.body, wants_permission) {
        (RequestBody::Permission(ask), true) => {
            let mut shown = json!({ "id": older["id"], "sessionID": older["sessionID"],
                "action": ask.permission, "resources": ask.patterns, "save": ask.always,
                "metadata": older["metadata"] });
            if let Some(tool) = older.get("tool") {
                shown["source"] = json!({ "type": "tool", "messageID": tool["messageID"],
                    "callID": tool["callID"] });
            }
            Some(shown)
        }
        (RequestBody::Question(_), false) => Some(older),
        (RequestBody::Permission(_) | RequestBody::Question(_), _) => None,
    }
}

async fn in_place(
    app: App,
    ctx: Context,
    asked: Asked,
    wants_permission: bool,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let place = app.place(&ctx, &asked.directory)?;
        let directory = place.directory.to_string_lossy();
        let data = app.engine().store().read(&ctx, |r| {
            let mut data = Vec::new();
            for request in r.pending_requests(None)? {
                let session = r.find_session(&request.session)?;
                if session.is_some_and(|session| session.directory == directory) {
                    data.extend(newer(&request, wants_permission));
                }
            }
            Ok(data)
        })?;
        Ok(with(&place, data))
    })
    .await
}

async fn in_session(
    app: App,
    ctx: Context,
    id: SessionId,
    wants_permission: bool,
) -> Result<Json<Value>, ApiError> {
    app.blocking(move |app| {
        let requests = app.engine().store().read(&ctx, |r| {
            r.get_session(&id)?;
            r.pending_requests(Some(&id))
        })?;
        let data: Vec<Value> =
            requests.iter().filter_map(|request| newer(request, wants_permission)).collect();
        Ok(Json(json!({ "data": data })))
    })
    .await
}

/// `GET /api/permission/request`
async fn permissions(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    in_place(app, ctx, asked, true).await
}

/// `GET /api/question/request`
async fn questions(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
) -> Result<Json<Value>, ApiError> {
    in_place(app, ctx, asked, false).await
}

/// `GET /api/permission/saved`
async fn saved(
    State(app): State<App>,
    Caller(ctx): Caller,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let wanted = query.filled("projectID").map(str::to_owned);
    app.blocking(move |app| {
        let data = app.engine().store().read(&ctx, |r| {
            let mut data = Vec::new();
            let is_wanted =
                |id: &ProjectId| wanted.as_deref().is_none_or(|text| text == id.as_str());
            for project in r.projects()?.iter().filter(|project| is_wanted(&project.id)) {
                for rule in r.approvals(&project.id)? {
                    data.push(json!({ "id": format!("{}:{}", rule.permission, rule.pattern),
                        "projectID": project.id.as_str(), "action": rule.permission,
                        "resource": rule.pattern }));
                }
            }
            Ok(data)
        })?;
        Ok(Json(json!({ "data": data })))
    })
    .await
}

/// `GET /api/session/{sessionID}/permission`
async fn session_permissions(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    in_session(app, ctx, session_id(&session)?, true).await
}

/// `GET /api/session/{sessionID}/question`
async fn session_questions(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    in_session(app, ctx, session_id(&session)?, false).await
}

/// Makes sure that the session has such an open request.
async fn check(
    app: &App,
    ctx: &Context,
    session: &str,
    request: &str,
    tag: &'static str,
) -> Result<Value, ApiError> {
    let id = session_id(session)?;
    let (ctx, request) = (ctx.clone(), request.to_owned());
    app.blocking(move |app| {
        let pending = app.engine().store().read(&ctx, |r| {
            r.get_session(&id)?;
            r.pending_requests(Some(&id))
        })?;
        let found = pending.iter().filter(|one| one.id.as_str() == request);
        let shown = found.filter_map(|one| newer(one, tag == "PermissionNotFoundError")).next();
        shown.ok_or_else(|| {
            let message = format!("Request not found: {request}");
            ApiError::tagged(StatusCode::NOT_FOUND, tag, &message)
                .with("requestID", request.as_str())
        })
    })
    .await
}

/// `GET /api/session/{sessionID}/permission/{requestID}`
async fn session_permission(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path((session, request)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    parse_id::<turnstone_core::id::PermissionId>("requestID", "per", &request)?;
    let shown = check(&app, &ctx, &session, &request, "PermissionNotFoundError").await?;
    Ok(Json(json!({ "data": shown })))
}

/// `POST /api/session/{sessionID}/permission/{requestID}/reply`
async fn reply_permission(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path((session, request)): Path<(String, String)>,
    body: Body,
) -> Result<StatusCode, ApiError> {
    parse_id::<turnstone_core::id::PermissionId>("requestID", "per", &request)?;
    check(&app, &ctx, &session, &request, "PermissionNotFoundError").await?;
    let Json(_) = permission::reply(State(app), Caller(ctx), Path(request), body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/question/{requestID}/reply`
async fn reply_question(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path((session, request)): Path<(String, String)>,
    body: Body,
) -> Result<StatusCode, ApiError> {
    parse_id::<turnstone_core::id::QuestionId>("requestID", "que", &request)?;
    check(&app, &ctx, &session, &request, "QuestionNotFoundError").await?;
    let Json(_) = question::reply(State(app), Caller(ctx), Path(request), body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/question/{requestID}/reject`
async fn reject_question(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path((session, request)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    parse_id::<turnstone_core::id::QuestionId>("requestID", "que", &request)?;
    check(&app, &ctx, &session, &request, "QuestionNotFoundError").await?;
    let Json(_) = question::reject(State(app), Caller(ctx), Path(request)).await?;
    Ok(StatusCode::NO_CONTENT)
}
