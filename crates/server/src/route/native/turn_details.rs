//! What a turn says next to its answers: to-dos, titles, summaries, and attempts that failed.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{post, put};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{SessionStatus, Todo};
use turnstone_store::{Context, PromptStatus, StoreError};

use super::seq_stamped::{SeqStamped, stamp_seq};
use super::turn::{parse_turn_path, require_driven_turn};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::driven_turn::TurnUse;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;

/// The longest title, in characters, and the most entries of a to-do list.
const MAX_TITLE_CHARS: usize = 1_000;
const MAX_TODOS: usize = 1_000;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/todo", put(set_todos))
        .route("/turnstone/session/{session}/turn/{turn}/title", put(set_title))
        .route("/turnstone/session/{session}/turn/{turn}/summary", put(set_summary))
        .route(
            "/turnstone/session/{session}/turn/{turn}/retry",
            post(show_retry).delete(clear_retry),
        )
}

/// Nothing to say.
#[derive(Serialize)]
struct TurnDetailResponse {}

/// A call of a driver: what it names, and the right to it.
struct DriverCall {
    app: AppState,
    ctx: Context,
    session: SessionId,
    turn: TurnId,
    headers: HeaderMap,
}

impl DriverCall {
    fn new(
        app: AppState,
        ctx: Context,
        path: &(String, String),
        headers: HeaderMap,
    ) -> Result<Self, ApiError> {
        let (session, turn) = parse_turn_path(path)?;
        Ok(Self { app, ctx, session, turn, headers })
    }

    /// Does what is wanted under the lease of the turn.
    async fn run(
        self,
        act: impl FnOnce(&AppState, &Context, &TurnUse) -> Result<(), ApiError> + Send + 'static,
    ) -> Result<SeqStamped<TurnDetailResponse>, ApiError> {
        let Self { app, ctx, session, turn, headers } = self;
        app.run_blocking(move |app| {
            let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
            act(app, &ctx, &held)?;
            stamp_seq(app, &ctx, &session, TurnDetailResponse {})
        })
        .await
    }
}

/// A to-do list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetTodosRequest {
    /// All entries, in order.
    todos: Vec<Todo>,
}

/// `PUT /turnstone/session/{sessionID}/turn/{turnID}/todo`
async fn set_todos(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<SetTodosRequest>,
) -> Result<SeqStamped<TurnDetailResponse>, ApiError> {
    if body.todos.len() > MAX_TODOS {
        return Err(ApiError::invalid_payload(format!("Expected at most {MAX_TODOS} to-dos")));
    }
    let call = DriverCall::new(app, ctx, &path, headers)?;
    call.run(|app, ctx, held| {
        Ok(app.engine().turns().steps().set_todos(ctx, held.turn(), body.todos)?)
    })
    .await
}

/// A title.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetTitleRequest {
    /// The title of the session.
    title: String,
}

/// `PUT /turnstone/session/{sessionID}/turn/{turnID}/title`
async fn set_title(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<SetTitleRequest>,
) -> Result<SeqStamped<TurnDetailResponse>, ApiError> {
    if body.title.chars().count() > MAX_TITLE_CHARS {
        return Err(ApiError::invalid_payload("Expected a shorter title\n  at [\"title\"]"));
    }
    let call = DriverCall::new(app, ctx, &path, headers)?;
    call.run(|app, ctx, held| {
        Ok(app.engine().turns().steps().set_session_title(ctx, held.turn(), body.title)?)
    })
    .await
}

/// What a turn was about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetSummaryRequest {
    /// A prompt that the turn has taken up.
    #[serde(rename = "messageID")]
    message: MessageId,
    /// A title for it.
    title: Option<String>,
    /// A summary of it.
    body: Option<String>,
}

/// `PUT /turnstone/session/{sessionID}/turn/{turnID}/summary`
async fn set_summary(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<SetSummaryRequest>,
) -> Result<SeqStamped<TurnDetailResponse>, ApiError> {
    let call = DriverCall::new(app, ctx, &path, headers)?;
    call.run(move |app, ctx, held| {
        let turn = held.turn();
        let store = app.engine().store();
        let taken = store.read(ctx, |r| r.prompts().status(&turn.session, &body.message))?;
        if !matches!(&taken, Some(PromptStatus::InTurn(by, _)) if *by == turn.id) {
            let (id, owner) = (body.message.to_string(), "another turn, or none".to_owned());
            return Err(StoreError::WrongOwner { kind: "message", id, owner }.into());
        }
        let words = (body.title, body.body);
        Ok(app.engine().turns().steps().set_prompt_summary(ctx, turn, &body.message, words)?)
    })
    .await
}

/// An attempt that failed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowRetryRequest {
    /// How many attempts failed.
    attempt: u32,
    /// What went wrong.
    message: String,
    /// When the next attempt begins, in milliseconds since 1970.
    next: Number,
    /// What a person could do about it: `title`, `message`, `label`, perhaps `link`.
    action: Option<Map<String, Value>>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/retry`
async fn show_retry(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<ShowRetryRequest>,
) -> Result<SeqStamped<TurnDetailResponse>, ApiError> {
    let ShowRetryRequest { attempt, message, next, action } = body;
    let (attempt, action) = (attempt.into(), action.map(Value::Object));
    let status = SessionStatus::Retry { attempt, message, next, action };
    let call = DriverCall::new(app, ctx, &path, headers)?;
    call.run(|app, ctx, held| {
        Ok(app.engine().turns().steps().show_status(ctx, held.turn(), status)?)
    })
    .await
}

/// `DELETE /turnstone/session/{sessionID}/turn/{turnID}/retry`
///
/// The next attempt runs.
async fn clear_retry(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<SeqStamped<TurnDetailResponse>, ApiError> {
    let call = DriverCall::new(app, ctx, &path, headers)?;
    call.run(|app, ctx, held| {
        let busy = SessionStatus::Busy;
        Ok(app.engine().turns().steps().show_status(ctx, held.turn(), busy)?)
    })
    .await
}
