//! Permission requests and questions in the newer shape.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::Value;
use turnstone_core::id::{PermissionId, ProjectId, QuestionId, SessionId};
use turnstone_core::model::{ExtraFields, PermissionAsk, RequestBody, ToolCallRef, UserRequest};
use turnstone_core::permission::PermissionRule;
use turnstone_core::wire;
use turnstone_engine::PermissionOutcome as Verdict;
use turnstone_store::{BlobHash, Context};

use super::super::{permission, question};
use super::location::{DataResponse, LocatedData};
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::request_input::{JsonBody, JsonFields, QueryParams, parse_path_id};
use crate::request_scope::{DirectoryRequest, SessionRequest};
use crate::wire_json::StoredJson;

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

/// A pending request in the newer shape.
#[derive(Serialize)]
#[serde(untagged)]
enum RequestV2 {
    Permission(Box<PermissionRequestV2>),
    /// A question has the older shape.
    Question(StoredJson),
}

/// A pending permission request.
#[derive(Serialize)]
struct PermissionRequestV2 {
    id: StoredJson,
    #[serde(rename = "sessionID")]
    session: StoredJson,
    action: String,
    resources: Vec<String>,
    save: Vec<String>,
    metadata: StoredJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<RequestSource>,
}

/// The tool call a permission is for.
#[derive(Serialize)]
struct RequestSource {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "messageID")]
    message: StoredJson,
    #[serde(rename = "callID")]
    call: StoredJson,
}

/// Which kind of request a route is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Permission,
    Question,
}

impl RequestKind {
    const fn not_found_tag(self) -> &'static str {
        match self {
            Self::Permission => "PermissionNotFoundError",
            Self::Question => "QuestionNotFoundError",
        }
    }

    /// A request in the newer shape; `None` if it is of the other kind.
    fn render(self, request: &UserRequest) -> Option<RequestV2> {
        let older = StoredJson(wire::request_info(request));
        match (&request.body, self) {
            (RequestBody::Permission(ask), Self::Permission) => {
                let source = older.find("tool").map(|tool| RequestSource {
                    kind: "tool",
                    message: tool.field("messageID"),
                    call: tool.field("callID"),
                });
                Some(RequestV2::Permission(Box::new(PermissionRequestV2 {
                    id: older.field("id"),
                    session: older.field("sessionID"),
                    action: ask.permission.clone(),
                    resources: ask.patterns.clone(),
                    save: ask.always.clone(),
                    metadata: older.field("metadata"),
                    source,
                })))
            }
            (RequestBody::Question(_), Self::Question) => Some(RequestV2::Question(older)),
            (RequestBody::Permission(_) | RequestBody::Question(_), _) => None,
        }
    }
}

/// Pending requests with the location they are from.
type LocatedRequests = Result<Json<LocatedData<Vec<RequestV2>>>, ApiError>;

/// Pending requests of a session.
type SessionRequests = Result<Json<DataResponse<Vec<RequestV2>>>, ApiError>;

async fn requests_in_directory(request: DirectoryRequest, kind: RequestKind) -> LocatedRequests {
    request
        .in_project(move |app, ctx, place| {
            let pending = permission::pending_in_directory(app, ctx, &place)?;
            let data = pending.iter().filter_map(|request| kind.render(request)).collect();
            Ok(Json(LocatedData::new(&place, data)))
        })
        .await
}

/// The pending requests of a session that exists.
fn pending_in_session(
    app: &AppState,
    ctx: &Context,
    id: &SessionId,
) -> Result<Vec<UserRequest>, ApiError> {
    Ok(app.engine().store().read(ctx, |r| {
        r.sessions().get(id)?;
        r.requests().pending(Some(id))
    })?)
}

async fn requests_in_session(request: SessionRequest, kind: RequestKind) -> SessionRequests {
    request
        .run(move |app, ctx, id| {
            let pending = pending_in_session(app, ctx, id)?;
            let data = pending.iter().filter_map(|request| kind.render(request)).collect();
            Ok(Json(DataResponse { data }))
        })
        .await
}

/// `GET /api/permission/request`
async fn permissions(request: DirectoryRequest) -> LocatedRequests {
    requests_in_directory(request, RequestKind::Permission).await
}

/// `GET /api/question/request`
async fn questions(request: DirectoryRequest) -> LocatedRequests {
    requests_in_directory(request, RequestKind::Question).await
}

/// The id of an approval: a hash of what is approved in which project, so that it reveals neither.
fn approval_id(project: &ProjectId, rule: &PermissionRule) -> String {
    let what = [project.as_str(), &rule.permission, &rule.pattern].join("\0");
    let hash = BlobHash::of(what.as_bytes()).hex();
    format!("psv_{}", hash.get(..32).unwrap_or(&hash))
}

/// The saved approvals of all projects.
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

/// A saved approval.
#[derive(Serialize)]
struct SavedApproval {
    id: String,
    #[serde(rename = "projectID")]
    project: ProjectId,
    action: String,
    resource: String,
}

/// `GET /api/permission/saved`
async fn list_approvals(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    query: QueryParams,
) -> Result<Json<DataResponse<Vec<SavedApproval>>>, ApiError> {
    let wanted = query.non_empty("projectID").map(str::to_owned);
    app.run_blocking(move |app| {
        let is_wanted = |id: &ProjectId| wanted.as_deref().is_none_or(|text| text == id.as_str());
        let approval = |(project, rule): (ProjectId, PermissionRule)| SavedApproval {
            id: approval_id(&project, &rule),
            project,
            action: rule.permission,
            resource: rule.pattern,
        };
        let found = all_approvals(app, &ctx)?.into_iter().filter(|(project, _)| is_wanted(project));
        Ok(Json(DataResponse { data: found.map(approval).collect() }))
    })
    .await
}

/// `DELETE /api/permission/saved/{id}`
async fn remove_approval(
    State(app): State<AppState>,
    // A repeat of a removal that was done is no error.
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

/// What the rules say about a request.
#[derive(Serialize)]
struct AskVerdict {
    id: PermissionId,
    effect: &'static str,
}

/// `POST /api/session/{sessionID}/permission`
async fn ask(
    request: SessionRequest,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<DataResponse<AskVerdict>>, ApiError> {
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
    request
        .run(move |app, ctx, session| {
            let agent = agent.as_deref();
            let (id, asked) =
                app.engine().permissions().ask_without_turn(ctx, session, id, &ask, agent)?;
            let effect = match asked {
                Verdict::Allowed => "allow",
                Verdict::Denied(_) => "deny",
                Verdict::Pending(_) => "ask",
            };
            Ok(Json(DataResponse { data: AskVerdict { id, effect } }))
        })
        .await
}

/// `GET /api/session/{sessionID}/permission`
async fn session_permissions(request: SessionRequest) -> SessionRequests {
    requests_in_session(request, RequestKind::Permission).await
}

/// `GET /api/session/{sessionID}/question`
async fn session_questions(request: SessionRequest) -> SessionRequests {
    requests_in_session(request, RequestKind::Question).await
}

/// A request to a pending permission or question of a session.
struct PendingRequest {
    app: AppState,
    caller: RequestContext,
    /// The id of the pending request.
    request: String,
    found: RequestV2,
}

/// Finds the pending request that a path names.
async fn require_pending<I: TryFrom<String>>(
    SessionRequest { app, caller, id }: SessionRequest,
    request: String,
    (kind, prefix): (RequestKind, &str),
) -> Result<PendingRequest, ApiError> {
    parse_path_id::<I>("requestID", prefix, &request)?;
    let (RequestContext(ctx), name) = (caller.clone(), request.clone());
    let found = app.run_blocking(move |app| {
        let pending = pending_in_session(app, &ctx, &id)?;
        let found = pending.iter().filter(|one| one.id.as_str() == name);
        found.filter_map(|one| kind.render(one)).next().ok_or_else(|| {
            let message = format!("Request not found: {name}");
            ApiError::tagged(StatusCode::NOT_FOUND, kind.not_found_tag(), &message)
                .with_field("requestID", name.as_str())
        })
    });
    let found = found.await?;
    Ok(PendingRequest { app, caller, request, found })
}

const PERMISSION: (RequestKind, &str) = (RequestKind::Permission, "per");
const QUESTION: (RequestKind, &str) = (RequestKind::Question, "que");

/// `GET /api/session/{sessionID}/permission/{requestID}`
async fn session_permission(
    request: SessionRequest,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<DataResponse<RequestV2>>, ApiError> {
    let pending = require_pending::<PermissionId>(request, id, PERMISSION).await?;
    Ok(Json(DataResponse { data: pending.found }))
}

/// `POST /api/session/{sessionID}/permission/{requestID}/reply`
async fn reply_permission(
    request: SessionRequest,
    Path((_, id)): Path<(String, String)>,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    let pending = require_pending::<PermissionId>(request, id, PERMISSION).await?;
    let PendingRequest { app, caller, request, .. } = pending;
    let Json(_) = permission::reply(State(app), caller, Path(request), body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/question/{requestID}/reply`
async fn reply_question(
    request: SessionRequest,
    Path((_, id)): Path<(String, String)>,
    body: JsonBody,
) -> Result<StatusCode, ApiError> {
    let pending = require_pending::<QuestionId>(request, id, QUESTION).await?;
    let PendingRequest { app, caller, request, .. } = pending;
    let Json(_) = question::reply(State(app), caller, Path(request), body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /api/session/{sessionID}/question/{requestID}/reject`
async fn reject_question(
    request: SessionRequest,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let pending = require_pending::<QuestionId>(request, id, QUESTION).await?;
    let PendingRequest { app, caller, request, .. } = pending;
    let Json(_) = question::reject(State(app), caller, Path(request)).await?;
    Ok(StatusCode::NO_CONTENT)
}
