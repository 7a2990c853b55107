//! Turns, run from outside: begun, kept alive, taken over, ended.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value, json};
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{MessageFailure, ModelRef, TokenCounts};
use turnstone_core::turn::{TurnOutcome, TurnState};
use turnstone_core::wire::{self, ParseMode};
use turnstone_engine::{Prompt, StepUsage, Turn};
use turnstone_store::{Context, ReadTx, StoreError, TurnRow};

use super::seq_stamped::{SeqStamped, stamp_seq};
use super::step_usage::{read_usage, store_usage};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::driven_turn::{TurnUse, require_turn_row};
use crate::error::ApiError;
use crate::prompt::end_driven_turn;
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::request_input::{parse_path_id, quote_value};
use crate::route::diff::publish_diff;
use crate::route::session::session_id;
use crate::runner_registry::renew_runners_in;
use crate::session_revert::check_expected_seq;
use crate::wire_json::{MessageResponse, message_response};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn", post(begin))
        .route("/turnstone/session/{session}/resume", post(resume))
        .route("/turnstone/session/{session}/turn/{turn}/beat", post(heartbeat))
        .route("/turnstone/session/{session}/turn/{turn}/steer", post(steer))
        .route("/turnstone/session/{session}/turn/{turn}/end", post(end))
}

/// The session and the turn of a path.
pub(super) fn parse_turn_path(
    (session, turn): &(String, String),
) -> Result<(SessionId, TurnId), ApiError> {
    Ok((session_id(session)?, parse_path_id("turnID", "trn", turn)?))
}

/// What begins a turn.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BeginTurnRequest {
    /// The prompt; without one the next of the inbox is taken up.
    prompt: Option<TurnPrompt>,
}

/// What a person asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TurnPrompt {
    /// Its id; made if it is left out.
    #[serde(rename = "messageID")]
    message: Option<MessageId>,
    /// The agent that answers.
    agent: String,
    /// The model that answers: `providerID`, `modelID`, perhaps `variant`.
    model: ModelRef,
    /// What it consists of, in OpenCode's shapes; ids may be left out.
    parts: Vec<Map<String, Value>>,
}

/// A turn that runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TurnResponse {
    /// The turn; nothing if the inbox is empty, or there is nothing to resume.
    turn: Option<TurnId>,
    /// How far it is.
    state: Option<&'static str>,
    /// The right to write it, sent as `x-turnstone-lease`; nothing if it is lost by now.
    lease: Option<String>,
    /// Within so many milliseconds the server must be called again for the turn.
    patience: u64,
    /// The message that began it, with its parts.
    prompt: Option<MessageResponse>,
}

/// `POST /turnstone/session/{sessionID}/turn`
async fn begin(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(session): Path<String>,
    TypedBody(body): TypedBody<BeginTurnRequest>,
) -> Result<SeqStamped<TurnResponse>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        if let Some(began) = began {
            // The first try was cut off: what it began is known by where it began.
            let turns = app.engine().store().read(&ctx, |r| r.turns().list(&id))?;
            let row = turns.into_iter().find(|row| row.span.0 >= began);
            return turn_response(app, &ctx, &id, row.as_ref());
        }
        check_expected_seq(app, &ctx, &id)?;
        let turn = match body.prompt {
            Some(new) => {
                let prompt = build_prompt(app, &ctx, &id, new)?;
                Some(app.engine().turns().begin(&ctx, prompt)?)
            }
            None => app.engine().turns().begin_next(&ctx, &id)?,
        };
        hold_and_show_turn(app, &ctx, &id, turn)
    })
    .await
}

/// The prompt a client describes.
fn build_prompt(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    new: TurnPrompt,
) -> Result<Prompt, ApiError> {
    let id = new.message.map_or_else(|| app.engine().turns().new_message_id(ctx, session), Ok)?;
    let info = json!({"id": id, "sessionID": session, "role": "user", "agent": new.agent,
        "model": new.model, "time": {"created": ctx.now.0}});
    let message =
        wire::parse_message(info).map_err(|e| ApiError::invalid_payload(e.to_string()))?;
    let mut parts = Vec::new();
    for part in new.parts {
        parts.push(parse_part(app, ctx, session, &id, part)?);
    }
    Ok(Prompt { message, parts })
}

/// Whether a turn may be taken from its driver.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResumeTurnRequest {
    /// Take a turn that runs in this server from its driver, who gets `FencedError` from then on.
    #[serde(default)]
    takeover: bool,
}

/// `POST /turnstone/session/{sessionID}/resume`
async fn resume(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(session): Path<String>,
    TypedBody(body): TypedBody<ResumeTurnRequest>,
) -> Result<SeqStamped<TurnResponse>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        check_expected_seq(app, &ctx, &id)?;
        if body.takeover
            && let Some(turn) = app.in_flight().driven_turns.find(&id)
        {
            return hold_and_show_turn(app, &ctx, &id, Some(turn));
        }
        let resumed = app.engine().permissions().resume_turn(&ctx, &id)?;
        hold_and_show_turn(app, &ctx, &id, resumed.map(|it| it.turn))
    })
    .await
}

/// How long the server waits for the next call.
#[derive(Serialize)]
struct HeartbeatResponse {
    /// Milliseconds.
    patience: u64,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/beat`
async fn heartbeat(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<SeqStamped<HeartbeatResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        stamp_seq(
            app,
            &ctx,
            &session,
            HeartbeatResponse { patience: app.settings().limits.driver_timeout_ms },
        )
    })
    .await
}

/// The prompts that steer a turn.
#[derive(Serialize)]
struct SteerResponse {
    /// Messages with their parts, oldest first; input of the next model call.
    messages: Vec<MessageResponse>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/steer`
async fn steer(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<SeqStamped<SteerResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let taken = app.engine().turns().promote_steering_prompts(&ctx, held.turn())?;
        let read = app.engine().store().read(&ctx, |r| {
            taken.iter().map(|id| r.messages().get(&session, id)).collect::<Result<Vec<_>, _>>()
        })?;
        stamp_seq(
            app,
            &ctx,
            &session,
            SteerResponse { messages: read.iter().map(message_response).collect() },
        )
    })
    .await
}

/// How a turn ends.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EndTurnRequest {
    /// `completed`, `failed` or `aborted`.
    outcome: RequestedOutcome,
    /// Why, if it failed: `name` and `data`.
    #[serde(default, deserialize_with = "read_failure")]
    error: Option<MessageFailure>,
    /// What the model call that is still open cost.
    cost: Option<Number>,
    /// The tokens of the model call that is still open.
    tokens: Option<TokenCounts>,
}

/// A failure that clients can show: its data is an object, if there is any.
pub(super) fn read_failure<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<MessageFailure>, D::Error> {
    let read = Option::<MessageFailure>::deserialize(from)?;
    match read.as_ref().map(|failure| &failure.data) {
        None | Some(Value::Object(_) | Value::Null) => Ok(read),
        Some(data) => {
            let got = quote_value(data);
            Err(serde::de::Error::custom(format!("Expected object, got {got}\n  at [\"data\"]")))
        }
    }
}

/// The ends a driver may choose.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RequestedOutcome {
    Completed,
    Failed,
    Aborted,
}

impl From<RequestedOutcome> for TurnOutcome {
    fn from(chosen: RequestedOutcome) -> Self {
        match chosen {
            RequestedOutcome::Completed => Self::Completed,
            RequestedOutcome::Failed => Self::Failed,
            RequestedOutcome::Aborted => Self::Aborted,
        }
    }
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/end`
///
/// Ending a turn again in the same way changes nothing.
async fn end(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<EndTurnRequest>,
) -> Result<SeqStamped<TurnResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    let usage = read_usage(body.cost, body.tokens)?;
    app.run_blocking(move |app| {
        let outcome = TurnOutcome::from(body.outcome);
        let row = require_turn_row(app, &ctx, &session, &turn)?;
        if row.state != outcome.state() {
            let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
            let has_usage = usage != StepUsage::default();
            if has_usage {
                let last = |r: &ReadTx<'_>| r.prompts().last_answer(&session, &turn);
                let message = app.engine().store().read(&ctx, last)?;
                store_usage(app, &ctx, held.turn(), message.as_ref(), usage)?;
            }
            // What the caller relied on held when the usage was written (R43).
            let ctx = if has_usage { ctx.without_expected_seq() } else { ctx.clone() };
            end_driven_turn(app, &ctx, held.turn(), outcome, body.error)?;
            // After this request: no client waits for it.
            let (app, ctx, session) = (app.clone(), ctx.clone(), session.clone());
            tokio::task::spawn_blocking(move || publish_diff(&app, &ctx, &session));
        }
        let row = require_turn_row(app, &ctx, &session, &turn)?;
        if row.state != outcome.state() {
            return Err(lost_lease_error(&row));
        }
        turn_response(app, &ctx, &session, Some(&row))
    })
    .await
}

/// Answers with a turn that begins or goes on under a new lease.
fn hold_and_show_turn(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    turn: Option<Turn>,
) -> Result<SeqStamped<TurnResponse>, ApiError> {
    let row =
        turn.as_ref().map(|turn| require_turn_row(app, ctx, session, &turn.id)).transpose()?;
    if let Some(turn) = turn {
        let found = app.engine().store().read(ctx, |r| r.sessions().get(session))?;
        renew_runners_in(app, std::path::Path::new(&found.directory));
        app.watch_directory(std::path::Path::new(&found.directory));
        app.in_flight().driven_turns.register(turn, found.directory.into(), app.now())?;
    }
    turn_response(app, ctx, session, row.as_ref())
}

/// Answers with a turn as it is; its lease only if this server still holds it.
fn turn_response(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    row: Option<&TurnRow>,
) -> Result<SeqStamped<TurnResponse>, ApiError> {
    let read = |row: &TurnRow| match app
        .engine()
        .store()
        .read(ctx, |r| r.messages().get(session, &row.message))
    {
        Ok(found) => Ok(Some(message_response(&found))),
        Err(StoreError::NoMessage { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let begun = TurnResponse {
        turn: row.map(|row| row.id.clone()),
        state: row.map(|row| row.state.as_str()),
        lease: row.and_then(|row| app.in_flight().driven_turns.token(&row.id)),
        patience: app.settings().limits.driver_timeout_ms,
        prompt: row.map(read).transpose()?.flatten(),
    };
    stamp_seq(app, ctx, session, begun)
}

/// The turn a request drives: its lease must be the present one.
///
/// # Errors
///
/// `FencedError` (409) if another driver has the turn, or none has since this server was
/// restarted: a turn that waits can be resumed. `TurnEndedError` (410) if it is over.
pub(super) fn require_driven_turn(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
    headers: &HeaderMap,
) -> Result<TurnUse, ApiError> {
    let token = headers.get("x-turnstone-lease").and_then(|value| value.to_str().ok());
    let Some(token) = token else {
        return Err(ApiError::invalid_query("Missing header x-turnstone-lease"));
    };
    if let Some(using) =
        app.in_flight().driven_turns.acquire(session, turn, token, app.settings().clock)
    {
        renew_runners_in(app, using.directory());
        app.watch_directory(using.directory());
        check_expected_seq(app, ctx, session)?;
        return Ok(using);
    }
    let row = require_turn_row(app, ctx, session, turn)?;
    Err(lost_lease_error(&row))
}

/// Refuses a message that is no answer of this turn: its lease is about nothing else (R27).
pub(super) fn check_answer_of_turn(
    app: &AppState,
    ctx: &Context,
    turn: &Turn,
    message: &MessageId,
) -> Result<(), ApiError> {
    let store = app.engine().store();
    let found = store.read(ctx, |r| r.prompts().turn_of_answer(&turn.session, message))?;
    if found.as_ref() == Some(&turn.id) {
        return Ok(());
    }
    let owner = found.map_or_else(|| "no turn".to_owned(), |turn| turn.to_string());
    Err(StoreError::WrongOwner { kind: "message", id: message.to_string(), owner }.into())
}

/// A part of a message as a client describes it; ids may be left out.
pub(super) fn parse_part(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    message: &MessageId,
    mut part: Map<String, Value>,
) -> Result<turnstone_core::model::Part, ApiError> {
    part.insert("sessionID".to_owned(), Value::from(session.as_str()));
    part.insert("messageID".to_owned(), Value::from(message.as_str()));
    if !part.contains_key("id") {
        let id = app.engine().turns().new_part_id(ctx)?;
        part.insert("id".to_owned(), Value::from(id.as_str()));
    }
    let read = wire::parse_part(Value::Object(part), ParseMode::Strict);
    read.map_err(|error| ApiError::invalid_payload(error.to_string()))
}

/// Why a lease is no good.
fn lost_lease_error(row: &TurnRow) -> ApiError {
    use axum::http::StatusCode;
    let (status, tag, message) = match row.state {
        TurnState::Accepted | TurnState::Running | TurnState::Waiting => {
            (StatusCode::CONFLICT, "FencedError", "another driver has this turn by now")
        }
        TurnState::Completed | TurnState::Failed | TurnState::Aborted | TurnState::Interrupted => {
            (StatusCode::GONE, "TurnEndedError", "this turn is over")
        }
    };
    ApiError::tagged(status, tag, message)
        .with_field("turnID", row.id.as_str())
        .with_field("state", row.state.as_str())
}
