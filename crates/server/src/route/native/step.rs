//! Steps: one model call of a turn, its texts and what it cost.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{MessageBody, TokenCounts};
use turnstone_engine::{StepEnd, StepUsage};
use turnstone_store::ReadTx;

use super::compaction::{mark_as_summary, require_compaction_request, require_no_summary};
use super::seq_stamped::{SeqStamped, stamp_seq};
use super::step_usage::read_usage;
use super::turn::{check_answer_of_turn, parse_part, parse_turn_path, require_driven_turn};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::new_answer;
use crate::request_context::RetryAwareContext;
use crate::request_input::parse_path_id;
use crate::route::session::session_id;
use crate::wire_json::{StoredJson, part_json};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/step", post(begin))
        .route("/turnstone/session/{session}/turn/{turn}/step/{message}/end", post(end))
        .route("/turnstone/session/{session}/turn/{turn}/step/{message}/part", post(part))
        .route("/turnstone/session/{session}/turn/{turn}/delta", post(delta))
}

/// A model call that begins.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BeginStepRequest {
    /// The id of the answer; made if it is left out.
    #[serde(rename = "messageID")]
    message: Option<MessageId>,
    /// The provider that answers.
    #[serde(rename = "providerID")]
    provider: String,
    /// The model that answers.
    #[serde(rename = "modelID")]
    model: String,
    /// The agent that answers.
    agent: String,
    /// The request of a compaction: the answer is its summary.
    compacts: Option<MessageId>,
}

/// A model call that runs.
#[derive(Serialize)]
struct BeginStepResponse {
    /// The answer it writes.
    #[serde(rename = "messageID")]
    message: MessageId,
    /// The tree of the worktree; nothing before there is a baseline.
    snapshot: Option<String>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/step`
async fn begin(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<BeginStepRequest>,
) -> Result<SeqStamped<BeginStepResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let mut answer = new_answer(app, &ctx, &session, &turn, body.message)?;
        if let Some(request) = body.compacts {
            require_compaction_request(app, &ctx, &session, &request)?;
            // A first try that was cut off may have begun it.
            if began.is_none() {
                require_no_summary(app, &ctx, &session, &request)?;
            }
            mark_as_summary(&mut answer, request);
        }
        let id = answer.id.clone();
        if let MessageBody::Assistant(said) = &mut answer.body {
            // A variant is one of the model that was asked.
            if said.provider != body.provider || said.model != body.model {
                said.variant = None;
            }
            (said.provider, said.model) = (body.provider, body.model);
            (said.mode, said.agent) = (body.agent.clone(), Some(body.agent));
        }
        let step = app.engine().turns().steps().begin(&ctx, held.turn(), answer)?;
        stamp_seq(app, &ctx, &session, BeginStepResponse { message: id, snapshot: step.snapshot })
    })
    .await
}

/// The session, the turn and the answer of a path.
pub(super) type StepPathIds = (SessionId, TurnId, MessageId);

pub(super) fn parse_step_path(
    (session, turn, message): &(String, String, String),
) -> Result<StepPathIds, ApiError> {
    let turn = parse_path_id("turnID", "trn", turn)?;
    Ok((session_id(session)?, turn, parse_path_id("messageID", "msg", message)?))
}

/// How a model call ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EndStepRequest {
    /// Why the model stopped: `stop`, `tool-calls`, …
    reason: String,
    /// What it cost; if left out, what was reported last.
    cost: Option<Number>,
    /// Its tokens; if left out, what was reported last.
    tokens: Option<TokenCounts>,
    /// The answer in the form that its prompt asked for (`format`).
    structured: Option<Value>,
}

/// A model call that is over.
#[derive(Serialize)]
struct EndStepResponse {
    /// The tree of the worktree; nothing before there is a baseline.
    snapshot: Option<String>,
    /// The files the turn itself changed in this step, whole paths.
    files: Vec<String>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/end`
async fn end(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<EndStepRequest>,
) -> Result<SeqStamped<EndStepResponse>, ApiError> {
    let (session, turn, message) = parse_step_path(&path)?;
    let usage = read_usage(body.cost, body.tokens)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let step = app.engine().turns().steps().find(&ctx, held.turn(), &message)?;
        let (cost, tokens) = match usage {
            StepUsage { cost: Some(cost), tokens: Some(tokens) } => (cost, tokens),
            StepUsage { cost, tokens } => {
                let steps = app.engine().turns().steps();
                let known = steps.reported_usage(&ctx, held.turn(), &message)?;
                (cost.unwrap_or(known.0), tokens.unwrap_or(known.1))
            }
        };
        let end = StepEnd { reason: body.reason, cost, tokens, structured: body.structured };
        let done = app.engine().turns().steps().end(&ctx, held.turn(), &step, &end)?;
        let files = done.files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        stamp_seq(app, &ctx, &session, EndStepResponse { snapshot: done.snapshot, files })
    })
    .await
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/part`
///
/// Stores a part of the answer: all of it, as it is. A text that will be streamed begins empty.
async fn part(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<Map<String, Value>>,
) -> Result<SeqStamped<StoredJson>, ApiError> {
    let (session, turn, message) = parse_step_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        check_answer_of_turn(app, &ctx, held.turn(), &message)?;
        let part = parse_part(app, &ctx, &session, &message, body)?;
        let shown = StoredJson(part_json(&part));
        app.engine().turns().steps().put_part(&ctx, held.turn(), part)?;
        stamp_seq(app, &ctx, &session, shown)
    })
    .await
}

/// Text that is streamed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TextDeltaRequest {
    /// The part it belongs to: a text or a reasoning.
    #[serde(rename = "partID")]
    part: PartId,
    /// The text.
    text: String,
}

/// Text that is durable.
#[derive(Serialize)]
struct TextDeltaResponse {
    /// Its place in the log; nothing for an empty text.
    cursor: Option<i64>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/delta`
async fn delta(
    State(app): State<AppState>,
    RetryAwareContext(ctx, began): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<TextDeltaRequest>,
) -> Result<SeqStamped<TextDeltaResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let cursor = match began {
            // The text was written with the mark that is known of it.
            Some(at) => Some(at.0),
            None => {
                let read = |r: &ReadTx<'_>| r.messages().of_part(&session, &body.part);
                let message = app.engine().store().read(&ctx, read)?;
                check_answer_of_turn(app, &ctx, held.turn(), &message)?;
                let done = app.engine().turns().steps().append_text(
                    &ctx,
                    held.turn(),
                    &body.part,
                    &body.text,
                )?;
                done.map(|done| done.cursor.0)
            }
        };
        stamp_seq(app, &ctx, &session, TextDeltaResponse { cursor })
    })
    .await
}
