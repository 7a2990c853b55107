//! Permissions and questions of a turn: asked durably, answered by a person, read back.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use turnstone_core::id::{PermissionId, QuestionId};
use turnstone_core::model::{PermissionAsk, QuestionAsk, RequestState};
use turnstone_core::permission::Rule;
use turnstone_engine::{Asked, NewAsk};

use super::answer::Stamped;
use super::input::Typed;
use super::turn::names;
use crate::app::App;
use crate::call::{Caller, Repeat};
use crate::error::ApiError;
use crate::route::permission::base_rules;
use crate::route::session::session_id;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/permission", post(permission))
        .route("/turnstone/session/{session}/turn/{turn}/question", post(question))
        .route("/turnstone/session/{session}/turn/{turn}/continue", post(go_on))
        .route("/turnstone/session/{session}/request/{request}", get(state))
}

/// What a tool wants to do.
#[derive(Deserialize)]
struct Permission {
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
enum Verdict {
    /// The rules allow it.
    Allowed,
    /// The rules deny it.
    Denied {
        /// Those that are about it.
        rules: Vec<Rule>,
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
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<Permission>,
) -> Result<Stamped<Verdict>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let new = NewAsk { ask: body.ask, waits: body.waits };
        let rules = base_rules(app, &ctx, &session, None)?;
        let asked = app.engine().ask_permission(&ctx, held.turn(), &new, &rules)?;
        let verdict = match asked {
            Asked::Allowed => Verdict::Allowed,
            Asked::Denied(rules) => Verdict::Denied { rules },
            Asked::Pending(request) => Verdict::Pending { request },
        };
        app.stamped(&ctx, &session, verdict)
    })
    .await
}

/// What a person is to choose.
#[derive(Deserialize)]
struct Question {
    /// Nothing else of the turn can go on before the answer: the turn waits.
    #[serde(default)]
    waits: bool,
    /// What is asked: `questions`, `tool`.
    #[serde(flatten)]
    ask: QuestionAsk,
}

/// A question that was asked.
#[derive(Serialize)]
struct Questioned {
    /// The request.
    #[serde(rename = "requestID")]
    request: QuestionId,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/question`
async fn question(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    Typed(body): Typed<Question>,
) -> Result<Stamped<Questioned>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        let request = app.engine().ask_question(&ctx, held.turn(), body.ask, body.waits)?;
        app.stamped(&ctx, &session, Questioned { request })
    })
    .await
}

/// Nothing to say.
#[derive(Serialize)]
struct Nothing {}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/continue`
///
/// After the answer: the turn runs again.
async fn go_on(
    State(app): State<App>,
    Repeat(ctx, _): Repeat,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Stamped<Nothing>, ApiError> {
    let (session, turn) = names(&path)?;
    app.blocking(move |app| {
        let held = app.driven(&ctx, &session, &turn, &headers)?;
        app.engine().go_on(&ctx, held.turn())?;
        app.stamped(&ctx, &session, Nothing {})
    })
    .await
}

/// `GET /turnstone/session/{sessionID}/request/{requestID}`
async fn state(
    State(app): State<App>,
    Caller(ctx): Caller,
    Path((session, request)): Path<(String, String)>,
) -> Result<Stamped<RequestState>, ApiError> {
    let session = session_id(&session)?;
    app.blocking(move |app| {
        let state = app.engine().store().read(&ctx, |r| r.request_state(&request))?;
        app.stamped(&ctx, &session, state)
    })
    .await
}
