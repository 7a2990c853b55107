//! Compaction by a driver: what is summarised, what stays, and the summary; and outputs that are pruned.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde::{Deserialize, Serialize};
use turnstone_core::context::{CompactionSettings, ModelLimits, ModelTarget};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, MessageBody, MessageFailure, ModelRef, Part, PartBody};
use turnstone_engine::{CompactionPlan, CompactionRequest, CompactionSummary};
use turnstone_store::Context;

use super::seq_stamped::{SeqStamped, stamp_seq};
use super::turn::{check_answer_of_turn, parse_turn_path, read_failure, require_driven_turn};
use super::typed_body::TypedBody;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::request_input::parse_path_id;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}/turn/{turn}/compaction", post(request))
        .route("/turnstone/session/{session}/turn/{turn}/compaction/{message}/plan", post(plan))
        .route("/turnstone/session/{session}/turn/{turn}/compaction/{message}/end", post(end))
        .route("/turnstone/session/{session}/turn/{turn}/prune", post(prune))
}

/// A compaction that the driver of a turn wants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestCompactionRequest {
    /// The agent that goes on afterwards.
    agent: String,
    /// The model: `providerID`, `modelID`, perhaps `variant`.
    model: ModelRef,
    /// Wanted by the program, not by a person: the model goes on afterwards.
    #[serde(default)]
    auto: bool,
    /// The context has overflowed: the newest prompt is asked again afterwards.
    #[serde(default)]
    overflow: bool,
}

/// A compaction that is wanted.
#[derive(Serialize)]
struct RequestCompactionResponse {
    /// The message that asks for it.
    #[serde(rename = "messageID")]
    message: MessageId,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/compaction`
///
/// A turn whose prompt asks for a compaction (`POST /session/{sessionID}/summarize`) need not ask again.
async fn request(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<RequestCompactionRequest>,
) -> Result<SeqStamped<RequestCompactionResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let RequestCompactionRequest { agent, model, auto, overflow } = body;
        let wanted = CompactionRequest { agent, model, auto, overflow };
        let message = app.engine().turns().compaction().request(&ctx, held.turn(), &wanted)?;
        stamp_seq(app, &ctx, &session, RequestCompactionResponse { message })
    })
    .await
}

/// The model that goes on afterwards, and how much of the newest turns it may keep.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ContextBudget {
    /// The provider of the model.
    #[serde(rename = "providerID")]
    provider: String,
    /// The model.
    #[serde(rename = "modelID")]
    model: String,
    /// Tokens of input and output together.
    context: u64,
    /// Tokens of input alone, where the provider limits it.
    input: Option<u64>,
    /// Tokens of output.
    output: u64,
    /// How many turns stay as they are.
    tail_turns: Option<usize>,
    /// How many tokens those turns may take.
    preserve_recent_tokens: Option<u64>,
}

impl ContextBudget {
    fn plan(
        self,
        app: &AppState,
        ctx: &Context,
        session: &SessionId,
        request: &MessageId,
    ) -> Result<CompactionPlan, ApiError> {
        let target = ModelTarget {
            provider: self.provider,
            model: self.model,
            media_in_results: false,
            without_media: false,
            output_limit: None,
        };
        let limits = ModelLimits {
            context: self.context,
            input: self.input.unwrap_or_default(),
            output: self.output,
        };
        let settings = CompactionSettings {
            tail_turns: self.tail_turns,
            preserve_recent_tokens: self.preserve_recent_tokens,
            ..CompactionSettings::default()
        };
        let compaction = app.engine().turns().compaction();
        Ok(compaction.plan(ctx, session, request, &target, (limits, &settings))?)
    }
}

/// What a compaction is made of.
#[derive(Serialize)]
struct CompactionPlanResponse {
    /// What is summarised, as one text.
    transcript: String,
    /// The messages that are summarised.
    #[serde(rename = "messageIDs")]
    messages: Vec<MessageId>,
    /// The first message that stays as it is.
    #[serde(rename = "tailID")]
    tail: Option<MessageId>,
    /// The prompt that is asked again afterwards.
    #[serde(rename = "replayID")]
    replay: Option<MessageId>,
    /// The summary before, which the new one takes up.
    previous: Option<String>,
    /// The model goes on afterwards.
    continues: bool,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/compaction/{messageID}/plan`
///
/// Changes nothing. The summary is a step that names the request (`compacts`), then `end`.
async fn plan(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, turn, message)): Path<(String, String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<ContextBudget>,
) -> Result<SeqStamped<CompactionPlanResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&(session, turn))?;
    let request: MessageId = parse_path_id("messageID", "msg", &message)?;
    app.run_blocking(move |app| {
        require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let plan = body.plan(app, &ctx, &session, &request)?;
        let shown = CompactionPlanResponse {
            transcript: plan.transcript(),
            messages: plan.head.iter().map(|(message, _)| message.id.clone()).collect(),
            tail: plan.tail,
            replay: plan.replay,
            previous: plan.previous,
            continues: plan.continues,
        };
        stamp_seq(app, &ctx, &session, shown)
    })
    .await
}

/// A summary that was written, or why there is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndCompactionRequest {
    /// The summary: an answer to the request whose step has ended.
    #[serde(rename = "messageID")]
    message: MessageId,
    /// The same as for the plan.
    budget: ContextBudget,
    /// Whether the model goes on afterwards; by default if the program asked for the compaction.
    continues: Option<bool>,
    /// Why there is no summary: nothing is cut then.
    #[serde(default, deserialize_with = "read_failure")]
    error: Option<MessageFailure>,
}

/// A compaction that is over.
#[derive(Serialize)]
struct EndCompactionResponse {
    /// The prompt with which the model goes on, if it does.
    #[serde(rename = "nextID")]
    next: Option<MessageId>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/compaction/{messageID}/end`
async fn end(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path((session, turn, message)): Path<(String, String, String)>,
    headers: HeaderMap,
    TypedBody(body): TypedBody<EndCompactionRequest>,
) -> Result<SeqStamped<EndCompactionResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&(session, turn))?;
    let request: MessageId = parse_path_id("messageID", "msg", &message)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        check_answer_of_turn(app, &ctx, held.turn(), &body.message)?;
        let ended = app.engine().turns().compaction();
        if let Some(next) = ended.find_followup_prompt(&ctx, &session, &body.message)? {
            if body.error.is_some() {
                return Err(conflict(&format!("{} is complete already", body.message)));
            }
            // It has ended before: ending it again changes nothing.
            return stamp_seq(app, &ctx, &session, EndCompactionResponse { next: Some(next) });
        }
        let mut plan = body.budget.plan(app, &ctx, &session, &request)?;
        plan.continues = body.continues.unwrap_or(plan.continues);
        let found =
            app.engine().store().read(&ctx, |r| r.messages().get(&session, &body.message))?;
        let compaction = app.engine().turns().compaction();
        let next = match body.error {
            Some(error) => {
                compaction.fail(&ctx, held.turn(), &plan, (&found.message, error))?;
                None
            }
            None => {
                let text = join_texts(&found.parts);
                let summary = CompactionSummary { message: found.message, text };
                compaction.finish(&ctx, held.turn(), &plan, &summary)?
            }
        };
        stamp_seq(app, &ctx, &session, EndCompactionResponse { next })
    })
    .await
}

fn join_texts(parts: &[Part]) -> String {
    let text = |part: &Part| {
        if let PartBody::Text(text) = &part.body { Some(text.text.clone()) } else { None }
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// Makes an answer the summary of a compaction.
pub(super) fn mark_as_summary(answer: &mut Message, request: MessageId) {
    if let MessageBody::Assistant(said) = &mut answer.body {
        said.parent = request;
        said.summary = Some(true);
    }
}

/// Refuses a message of the session that asks for no compaction.
pub(super) fn require_compaction_request(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    request: &MessageId,
) -> Result<(), ApiError> {
    let found = app.engine().store().read(ctx, |r| r.messages().get(session, request))?;
    match found.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_))) {
        true => Ok(()),
        false => Err(ApiError::invalid_payload(format!("{request} asks for no compaction"))),
    }
}

/// Refuses a second summary of the same compaction, unless the first has failed.
pub(super) fn require_no_summary(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    request: &MessageId,
) -> Result<(), ApiError> {
    match app.engine().turns().compaction().find_summary(ctx, session, request)? {
        Some(summary) => Err(conflict(&format!("{request} has a summary already: {summary}"))),
        None => Ok(()),
    }
}

fn conflict(message: &str) -> ApiError {
    ApiError::tagged(StatusCode::CONFLICT, "ConflictError", message)
}

/// What is cleared of a model's view.
#[derive(Serialize)]
struct PruneResponse {
    /// Calls whose outputs are cleared; they stay stored.
    #[serde(rename = "partIDs")]
    parts: Vec<PartId>,
}

/// `POST /turnstone/session/{sessionID}/turn/{turnID}/prune`
async fn prune(
    State(app): State<AppState>,
    RetryAwareContext(ctx, _): RetryAwareContext,
    Path(path): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<SeqStamped<PruneResponse>, ApiError> {
    let (session, turn) = parse_turn_path(&path)?;
    app.run_blocking(move |app| {
        let held = require_driven_turn(app, &ctx, &session, &turn, &headers)?;
        let contexts = app.engine().turns().contexts();
        let parts = contexts.prune_tool_outputs(&ctx, &session, Some(held.turn()), true)?;
        stamp_seq(app, &ctx, &session, PruneResponse { parts })
    })
    .await
}
