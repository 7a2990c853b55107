//! Permissions and questions of a turn: asked durably, answered by a person, read back.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use turnstone_core::id::{PermissionId, QuestionId};
use turnstone_core::model::{PermissionAsk, QuestionAsk, RequestState};
use turnstone_core::permission::PermissionRule;
use turnstone_engine::{PermissionOutcome, PermissionQuery};

use super::seq_stamped::{SeqStamped, stamp_seq};
use super::turn::{parse_turn_path, require_driven_turn};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::route::session::session_id;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/permission", post(permission))
        .route("/turnstone/session/{session}/turn/{turn}/question", post(question))
        .route("/turnstone/session/{session}/turn/{turn}/continue", post(continue_turn))
        .route("/turnstone/session/{session}/request/{request}", get(state))
}

/// What a tool wants to do.
#[derive(Deserialize)]
struct PermissionAskRequest {
    /// Nothing else of the turn can go on before the answer: the turn waits.
    #[serde(default)]
    waits: bool,
    /// What is asked: `permission`, `patterns`, `always`, `metadata`, `tool`.
    #[serde(flatten)]
    ask: PermissionAsk,
}

/// What became of it.
#[derive(Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
enum PermissionAskResponse {
    /// The rules allow it.
    Allowed,
    /// The rules deny it.
    Denied {
        /// Those that are about it.
        rules: Vec<PermissionRule>,
    },
    /// A person is asked.
    Pending {
        /// The request.
        #[serde(rename = "requestID")]
        request: PermissionId,
    },
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/permission`
async fn permission(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<PermissionAskRequest>,
) -> Result<SeqStamped<PermissionAskResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let new = PermissionQuery { ask: body.ask, blocks_turn: body.waits };
        let asked = app.engine().permissions().ask(&ctx, held.turn(), &new)?;
        let verdict = match asked {
            PermissionOutcome::Allowed => PermissionAskResponse::Allowed,
            PermissionOutcome::Denied(rules) => PermissionAskResponse::Denied { rules },
            PermissionOutcome::Pending(request) => PermissionAskResponse::Pending { request },
        };
        stamp_seq(app, &ctx, &session, verdict)
    })
    .await
}

/// What a person is to choose.
#[derive(Deserialize)]
struct QuestionAskRequest {
    /// Nothing else of the turn can go on before the answer: the turn waits.
    #[serde(default)]
    waits: bool,
    /// What is asked: `questions`, `tool`.
    #[serde(flatten)]
    ask: QuestionAsk,
}

/// A question that was asked.
#[derive(Serialize)]
struct QuestionAskResponse {
    /// The request.
    #[serde(rename = "requestID")]
    request: QuestionId,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/question`
async fn question(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<QuestionAskRequest>,
) -> Result<SeqStamped<QuestionAskResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let request =
            app.engine().permissions().ask_question(&ctx, held.turn(), body.ask, body.waits)?;
        stamp_seq(app, &ctx, &session, QuestionAskResponse { request })
    })
    .await
}

/// Nothing to say.
#[derive(Serialize)]
struct EmptyResponse {}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/continue`
///
/// After the answer: the turn runs again.
async fn continue_turn(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<SeqStamped<EmptyResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        app.engine().permissions().continue_turn(&ctx, held.turn())?;
        stamp_seq(app, &ctx, &session, EmptyResponse {})
    })
    .await
}

/// `GET /turnstone/session/{sessionID}/request/{requestID}`
async fn state(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, request)): Path<(String, String)>,
) -> Result<SeqStamped<RequestState>, ApiError> {
    let session = session_id(&session)?;
    app.run_blocking(move |app| {
        let state = app.engine().store().read(&ctx, |r| r.requests().state(&request))?;
        stamp_seq(app, &ctx, &session, state)
    })
    .await
}
