//! Permission requests and questions in the newer shape.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use turnstone_core::id::{PermissionId, ProjectId, SessionId};
use turnstone_core::model::{ExtraFields, PermissionAsk, RequestBody, ToolCallRef, UserRequest};
use turnstone_core::permission::PermissionRule;
use turnstone_core::wire;
use turnstone_engine::PermissionOutcome as Verdict;
use turnstone_store::{BlobHash, Context};

use super::super::session::session_id;
use super::super::{permission, question};
use super::location::with_location;
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::RequestedDirectory;
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::request_input::{JsonBody, JsonFields, QueryParams, parse_path_id};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/permission/request", get(permissions))
        .route("/api/permission/saved", get(list_approvals))
        .route("/api/permission/saved/{id}", delete(remove_approval))
        .route("/api/question/request", get(questions))
        .route("/api/session/{session}/permission", get(session_permissions).post(ask))
        .route("/api/session/{session}/permission/{request}", get(session_permission))
        .route("/api/session/{session}/permission/{request}/reply", post(reply_permission))
        .route("/api/session/{session}/question", get(session_questions))
        .route("/api/session/{session}/question/{request}/reply", post(reply_question))
        .route("/api/session/{session}/question/{request}/reject", post(reject_question))
}

/// A request in the newer shape; nothing if it is of the other kind.
fn request_v2_json(request: &UserRequest, wants_permission: bool) -> Option<Value> {
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

async fn requests_in_directory(
    app: AppState,
    ctx: Context,
    asked: RequestedDirectory,
    wants_permission: bool,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let place = app.require_project_directory(&ctx, &asked.directory)?;
        let directory = place.directory.to_string_lossy();
        let data = app.engine().store().read(&ctx, |r| {
            let mut data = Vec::new();
            for request in r.requests().pending(None)? {
                let session = r.sessions().find(&request.session)?;
                if session.is_some_and(|session| session.directory == directory) {
                    data.extend(request_v2_json(&request, wants_permission));
                }
            }
            Ok(data)
        })?;
        Ok(with_location(&place, data))
    })
    .await
}

async fn requests_in_session(
    app: AppState,
    ctx: Context,
    id: SessionId,
    wants_permission: bool,
) -> Result<Json<Value>, ApiError> {
    app.run_blocking(move |app| {
        let requests = app.engine().store().read(&ctx, |r| {
            r.sessions().get(&id)?;
            r.requests().pending(Some(&id))
        })?;
        let data: Vec<Value> = requests
            .iter()
            .filter_map(|request| request_v2_json(request, wants_permission))
            .collect();
        Ok(Json(json!({ "data": data })))
    })
    .await
}

/// `GET /api/permission/request`
async fn permissions(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    requests_in_directory(app, ctx, asked, true).await
}

/// `GET /api/question/request`
async fn questions(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    asked: RequestedDirectory,
) -> Result<Json<Value>, ApiError> {
    requests_in_directory(app, ctx, asked, false).await
}

/// The name of an approval: whoever knows what is approved where can tell it, nobody else need read it.
fn approval_id(project: &ProjectId, rule: &PermissionRule) -> String {
    let what = [project.as_str(), &rule.permission, &rule.pattern].join("\0");
    let hash = BlobHash::of(what.as_bytes()).hex();
    format!("psv_{}", hash.get(..32).unwrap_or(&hash))
}

/// What is approved for good in every project.
fn all_approvals(
    app: &AppState,
    ctx: &Context,
) -> Result<Vec<(ProjectId, PermissionRule)>, ApiError> {
    Ok(app.engine().store().read(ctx, |r| {
        let mut found = Vec::new();
        for project in r.projects().list()? {
            let rules = r.projects().approved_rules(&project.id)?;
            found.extend(rules.into_iter().map(|rule| (project.id.clone(), rule)));
        }
        Ok(found)
    })?)
}

/// `GET /api/permission/saved`
async fn list_approvals(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let wanted = query.non_empty("projectID").map(str::to_owned);
    app.run_blocking(move |app| {
        let is_wanted = |id: &ProjectId| wanted.as_deref().is_none_or(|text| text == id.as_str());
        let shown = |(project, rule): (ProjectId, PermissionRule)| {
            json!({ "id": approval_id(&project, &rule), "projectID": project.as_str(),
                "action": rule.permission, "resource": rule.pattern })
        };
        let found = all_approvals(app, &ctx)?.into_iter().filter(|(project, _)| is_wanted(project));
        Ok(Json(json!({ "data": found.map(shown).collect::<Vec<Value>>() })))
    })
    .await
}

/// `DELETE /api/permission/saved/{id}`
async fn remove_approval(
    State(app): State<AppState>,
    // Whoever asks again asks for what is done: that nothing is left to do is no mistake then.
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.run_blocking(move |app| {
        let mut found = all_approvals(app, &ctx)?.into_iter();
        let found = found.find(|(project, rule)| approval_id(project, rule) == id);
        let is_gone = match &found {
            Some((project, rule)) => {
                app.engine().permissions().rules().revoke_approval(&ctx, project, rule)?
            }
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
fn parse_tool_call(mut source: JsonFields) -> Result<ToolCallRef, ApiError> {
    let kind = source.require_text("type")?;
    if kind != "tool" {
        return Err(source.invalid_field("type", "\"tool\"", &Value::from(kind)));
    }
    let (message, call) = (source.require_id("messageID", "msg")?, source.require_text("callID")?);
    Ok(ToolCallRef { message, call, extra: ExtraFields::new() })
}

/// `POST /api/session/{sessionID}/permission`
async fn ask(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let session = session_id(&session)?;
    let id: Option<PermissionId> = fields.id("id", "per")?;
    let agent = fields.text("agent")?;
    let tool = fields.object("source")?.map(parse_tool_call).transpose()?;
    let ask = PermissionAsk {
        permission: fields.require_text("action")?,
        patterns: fields.require("resources", "array")?,
        metadata: fields.read("metadata", "object")?.unwrap_or_default(),
        always: fields.read("save", "array")?.unwrap_or_default(),
        tool,
        extra: ExtraFields::new(),
    };
    app.run_blocking(move |app| {
        let rules = permission::base_rules(app, &ctx, &session, agent.as_deref())?;
        let (id, asked) =
            app.engine().permissions().ask_without_turn(&ctx, &session, id, &ask, &rules)?;
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
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    requests_in_session(app, ctx, session_id(&session)?, true).await
}

/// `GET /api/session/{sessionID}/question`
async fn session_questions(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    requests_in_session(app, ctx, session_id(&session)?, false).await
}

/// Makes sure that the session has such an open request.
async fn require_pending_request(
    app: &AppState,
    ctx: &Context,
    session: &str,
    request: &str,
    tag: &'static str,
) -> Result<Value, ApiError> {
    let id = session_id(session)?;
    let (ctx, request) = (ctx.clone(), request.to_owned());
    app.run_blocking(move |app| {
        let pending = app.engine().store().read(&ctx, |r| {
            r.sessions().get(&id)?;
            r.requests().pending(Some(&id))
        })?;
        let found = pending.iter().filter(|one| one.id.as_str() == request);
        let shown =
            found.filter_map(|one| request_v2_json(one, tag == "PermissionNotFoundError")).next();
        shown.ok_or_else(|| {
            let message = format!("Request not found: {request}");
            ApiError::tagged(StatusCode::NOT_FOUND, tag, &message)
                .with_field("requestID", request.as_str())
        })
    })
    .await
}

/// `GET /api/session/{sessionID}/permission/{requestID}`
async fn session_permission(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, request)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    parse_path_id::<turnstone_core::id::PermissionId>("requestID", "per", &request)?;
    let shown =
        require_pending_request(&app, &ctx, &session, &request, "PermissionNotFoundError").await?;
    Ok(Json(json!({ "data": shown })))
}

/// `POST /api/session/{sessionID}/permission/{requestID}/reply`
async fn reply_permission(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, request)): Path<(String, String)>,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    parse_path_id::<turnstone_core::id::PermissionId>("requestID", "per", &request)?;
    require_pending_request(&app, &ctx, &session, &request, "PermissionNotFoundError").await?;
    let Json(_) = permission::reply(State(app), RequestContext(ctx), Path(request), body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/question/{requestID}/reply`
async fn reply_question(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, request)): Path<(String, String)>,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    parse_path_id::<turnstone_core::id::QuestionId>("requestID", "que", &request)?;
    require_pending_request(&app, &ctx, &session, &request, "QuestionNotFoundError").await?;
    let Json(_) = question::reply(State(app), RequestContext(ctx), Path(request), body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/question/{requestID}/reject`
async fn reject_question(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, request)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    parse_path_id::<turnstone_core::id::QuestionId>("requestID", "que", &request)?;
    require_pending_request(&app, &ctx, &session, &request, "QuestionNotFoundError").await?;
    let Json(_) = question::reject(State(app), RequestContext(ctx), Path(request)).await?;
    Ok(StatusCode::NO_CONTENT)
}
