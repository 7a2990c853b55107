//! Permission requests and questions in the newer shape.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{PermissionId, ProjectId, SessionId};
use turnstone_core::model::{Extra, PermissionAsk, Request, RequestBody, ToolCall};
use turnstone_core::permission::Rule;
use turnstone_core::wire;
use turnstone_engine::Asked as Verdict;
use turnstone_store::{BlobHash, Context};

use super::super::session::session_id;
use super::super::{permission, question};
use super::location::with;
use crate::app::App;
use crate::call::{Caller, Repeat};
use crate::error::ApiError;
use crate::input::{Body, Fields, Query, parse_id};
use crate::place::Asked;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/api/permission/request", get(permissions))
        .route("/api/permission/saved", get(saved))
        .route("/api/permission/saved/{id}", delete(forget))
        .route("/api/question/request", get(questions))
        .route("/api/session/{session}/permission", get(session_permissions).post(ask))
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

/// The name of an approval: whoever knows what is approved where can tell it, nobody else need read it.
fn saved_id(project: &ProjectId, rule: &Rule) -> String {
    let what = [project.as_str(), &rule.permission, &rule.pattern].join("\0");
    let hash = BlobHash::of(what.as_bytes()).hex();
    format!("psv_{}", hash.get(..32).unwrap_or(&hash))
}

/// What is approved for good in every project.
fn approvals(app: &App, ctx: &Context) -> Result<Vec<(ProjectId, Rule)>, ApiError> {
    Ok(app.engine().store().read(ctx, |r| {
        let mut found = Vec::new();
        for project in r.projects()? {
            let rules = r.approvals(&project.id)?;
            found.extend(rules.into_iter().map(|rule| (project.id.clone(), rule)));
        }
        Ok(found)
    })?)
}

/// `GET /api/permission/saved`
async fn saved(
    State(app): State<App>,
    Caller(ctx): Caller,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let wanted = query.filled("projectID").map(str::to_owned);
    app.blocking(move |app| {
        let is_wanted = |id: &ProjectId| wanted.as_deref().is_none_or(|text| text == id.as_str());
        let shown = |(project, rule): (ProjectId, Rule)| {
            json!({ "id": saved_id(&project, &rule), "projectID": project.as_str(),
                "action": rule.permission, "resource": rule.pattern })
        };
        let found = approvals(app, &ctx)?.into_iter().filter(|(project, _)| is_wanted(project));
        Ok(Json(json!({ "data": found.map(shown).collect::<Vec<Value>>() })))
    })
    .await
}

/// `DELETE /api/permission/saved/{id}`
async fn forget(
    State(app): State<App>,
    // Whoever asks again asks for what is done: that nothing is left to do is no mistake then.
    Repeat(ctx, began): Repeat,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.blocking(move |app| {
        let mut found = approvals(app, &ctx)?.into_iter();
        let found = found.find(|(project, rule)| saved_id(project, rule) == id);
        let is_gone = match &found {
            Some((project, rule)) => app.engine().revoke(&ctx, project, rule)?,
            None => began.is_some(),
        };
        match is_gone {
            true => Ok(StatusCode::NO_CONTENT),
            false => Err(ApiError::NotFound(format!("Saved permission not found: {id}"))),
        }
    })
    .await
}

/// The call a request is for.
fn call(mut source: Fields) -> Result<ToolCall, ApiError> {
    let kind = source.need_text("type")?;
    if kind != "tool" {
        return Err(source.refuse("type", "\"tool\"", &Value::from(kind)));
    }
    let (message, call) = (source.need_id("messageID", "msg")?, source.need_text("callID")?);
    Ok(ToolCall { message, call, extra: Extra::new() })
}

/// `POST /api/session/{sessionID}/permission`
async fn ask(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(session): Path<String>,
    Body(mut fields): Body,
) -> Result<Json<Value>, ApiError> {
    let session = session_id(&session)?;
    let id: Option<PermissionId> = fields.id("id", "per")?;
    let agent = fields.text("agent")?;
    let tool = fields.object("source")?.map(call).transpose()?;
    let ask = PermissionAsk {
        permission: fields.need_text("action")?,
        patterns: fields.need("resources", "array")?,
        metadata: fields.read("metadata", "object")?.unwrap_or_default(),
        always: fields.read("save", "array")?.unwrap_or_default(),
        tool,
        extra: Extra::new(),
    };
    app.blocking(move |app| {
        let rules = permission::base_rules(app, &ctx, &session, agent.as_deref())?;
        let (id, asked) = app.engine().ask_beside(&ctx, &session, id, &ask, &rules)?;
        let effect = match asked {
            Verdict::Allowed => "allow",
            Verdict::Denied(_) => "deny",
            Verdict::Pending(_) => "ask",
        };
        Ok(Json(json!({ "data": { "id": id, "effect": effect } })))
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
