//! The answer to a prompt, and the one for a server without a runner.

use axum::http::StatusCode;
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{
    Message, MessageBody, MessageFailure, MessageFailureKind, PartBody, Session, UserMessage,
};
use turnstone_core::turn::{TurnOutcome, TurnState};
use turnstone_engine::{EngineError, Turn};
use turnstone_store::{Context, MessageWithParts, PromptStatus, StoreError};

use crate::app::AppState;
use crate::driven_turn::require_turn_row;
use crate::error::ApiError;
use crate::project_directory::find_project_directory;
use crate::wire_json::{MessageResponse, message_response};

/// Messages looked at at a time.
const PAGE: usize = 20;

/// The error of a prompt if the server was started without an agent and no runner is attached.
const NO_RUNNER_MESSAGE: &str = "This server runs without an agent (--no-agent), and no external runner is attached, \
so no model was asked; your prompt is stored. Restart the server with its agent, or attach a runner over the native \
routes (POST /turnstone/runner, see docs/http.md), then send the prompt again.";

/// Why a model stopped that wants to go on.
const TOOL_CALLS: &str = "tool-calls";

/// The error of a turn that was aborted.
const ABORTED: &str = "Aborted";

/// The answer to a prompt with its parts: the last one of the turn that took it up. Of a prompt no
/// turn knows of, the newest answer; without any, the prompt itself.
pub(super) fn prompt_answer(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    prompt: &MessageId,
) -> Result<MessageResponse, ApiError> {
    let store = app.engine().store();
    if let Some(PromptStatus::InTurn(turn, state)) =
        store.read(ctx, |r| r.prompts().status(session, prompt))?
    {
        let last = store.read(ctx, |r| r.prompts().last_answer(session, &turn))?;
        if last.is_none() && !state.is_open() && state != TurnState::Completed {
            return Err(unanswered_error(prompt, state));
        }
        let shown = last.as_ref().unwrap_or(prompt);
        return Ok(message_response(&store.read(ctx, |r| r.messages().get(session, shown))?));
    }
    let found = store.read(ctx, |r| {
        let (mut newest, mut before): (Option<MessageWithParts>, Option<String>) = (None, None);
        loop {
            let page = r.messages().list(session, before.as_deref(), PAGE)?;
            for entry in page.items.into_iter().rev() {
                match &entry.message.body {
                    MessageBody::Assistant(said) if said.parent == *prompt => return Ok(entry),
                    MessageBody::Assistant(_) if newest.is_none() => newest = Some(entry),
                    // Everything before the prompt answers something else.
                    MessageBody::User(_) if entry.message.id == *prompt => {
                        return Ok(newest.unwrap_or(entry));
                    }
                    MessageBody::User(_) | MessageBody::Assistant(_) => {}
                }
            }
            match page.before {
                Some(next) => before = Some(next),
                None => break,
            }
        }
        match newest {
            Some(newest) => Ok(newest),
            None => r.messages().get(session, prompt),
        }
    })?;
    Ok(message_response(&found))
}

/// Ends a turn for which there is no runner: with an answer that says so, and nothing busy.
pub(super) fn fail_turn_without_runner(
    app: &AppState,
    ctx: &Context,
    turn: &Turn,
) -> Result<(), ApiError> {
    // What the client relied on held when its prompt was stored (R43).
    let ctx = &ctx.without_expected_seq().at_time(app.now());
    let answer = new_answer(app, ctx, &turn.session, &turn.id, None)?;
    let why = MessageFailure::new(MessageFailureKind::UnknownError, NO_RUNNER_MESSAGE);
    app.engine().turns().end_unanswered(ctx, turn, answer, (TurnOutcome::Failed, Some(why)))?;
    app.runners().notify_waiters();
    Ok(())
}

/// Ends a turn that was driven from outside; false if it had ended, or another process has it.
///
/// The caller sees how it ended: a turn without an open answer gets one for that.
pub(crate) fn end_driven_turn(
    app: &AppState,
    ctx: &Context,
    turn: &Turn,
    outcome: TurnOutcome,
    error: Option<MessageFailure>,
) -> Result<bool, ApiError> {
    let engine = app.engine();
    // Clients see an abort as OpenCode's do: by an error of that name.
    let aborted = || MessageFailure::new(MessageFailureKind::MessageAbortedError, ABORTED);
    let error = error.or_else(|| (outcome == TurnOutcome::Aborted).then(aborted));
    let answer = match can_answer_show_outcome(app, ctx, turn, outcome)? {
        true => None,
        false => match new_answer(app, ctx, &turn.session, &turn.id, None) {
            // Its prompt was taken away: nothing is left to be answered.
            Err(ApiError::NotFound(_)) => None,
            answer => Some(answer?),
        },
    };
    let ended = match answer {
        Some(answer) => engine.turns().end_unanswered(ctx, turn, answer, (outcome, error)),
        None => engine.turns().end(ctx, turn, outcome, error).map(drop),
    };
    let is_ours = match ended {
        Ok(()) => true,
        Err(EngineError::Store(StoreError::Fenced(_) | StoreError::Transition(_))) => false,
        Err(error) => return Err(error.into()),
    };
    app.in_flight().driven_turns.remove(&turn.id);
    // What its open calls changed is determined now, not at the next request.
    engine.maintenance().recover_all(ctx)?;
    app.runners().notify_waiters();
    Ok(is_ours)
}

/// True if the answers of an open turn can tell how it ends.
fn can_answer_show_outcome(
    app: &AppState,
    ctx: &Context,
    turn: &Turn,
    outcome: TurnOutcome,
) -> Result<bool, ApiError> {
    if outcome == TurnOutcome::Completed {
        return Ok(true);
    }
    let last = app.engine().store().read(ctx, |r| {
        let last = r.prompts().last_answer(&turn.session, &turn.id)?;
        last.map(|id| r.messages().get(&turn.session, &id)).transpose()
    })?;
    let Some(MessageWithParts { message, .. }) = last else { return Ok(false) };
    let MessageBody::Assistant(said) = message.body else { return Ok(false) };
    // After calls another answer was to come, and a complete one cannot report a failure.
    let was_over = said.finish.as_deref() != Some(TOOL_CALLS) && outcome != TurnOutcome::Failed;
    Ok(said.time.completed.is_none() || was_over)
}

/// The next answer of an open turn, with nothing in it yet. It answers the newest prompt the turn
/// has taken up, as OpenCode's do.
pub(crate) fn new_answer(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
    id: Option<MessageId>,
) -> Result<Message, ApiError> {
    let began = require_turn_row(app, ctx, session, turn)?.message;
    let (session, asked) = app.engine().store().read(ctx, |r| {
        let asked = r.prompts().newest_steering(session, turn)?.unwrap_or(began);
        Ok((r.sessions().get(session)?, r.messages().get(session, &asked)?))
    })?;
    let id = id.map_or_else(|| app.engine().turns().new_message_id(ctx, &session.id), Ok)?;
    let place = find_project_directory(app, ctx, std::path::Path::new(&session.directory))?;
    let root = place.map(|place| place.root.to_string_lossy().into_owned());
    let root = root.unwrap_or_else(|| session.directory.clone());
    empty_answer(id, &session, &root, &asked, ctx.now.0)
}

/// The turn of a prompt died with its server, before anything of an answer was there.
fn unanswered_error(prompt: &MessageId, state: TurnState) -> ApiError {
    let state = state.as_str();
    let message = format!("the turn of this prompt is {state} and has no answer; send it again");
    ApiError::tagged(StatusCode::CONFLICT, "UnansweredError", &message)
        .with_field("messageID", prompt.as_str())
        .with_field("state", state)
}

/// An answer with nothing in it yet.
fn empty_answer(
    id: MessageId,
    session: &Session,
    root: &str,
    asked: &MessageWithParts,
    now: i64,
) -> Result<Message, ApiError> {
    let MessageBody::User(UserMessage { agent, model, .. }) = &asked.message.body else {
        return Err(ApiError::invalid_payload("a turn begins with a user message"));
    };
    let compacts = asked.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_)));
    let agent = if compacts { "compaction" } else { agent.as_str() };
    let none =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let mut body = json!({
        "role": "assistant", "parentID": asked.message.id, "mode": agent, "agent": agent,
        "path": { "cwd": session.directory, "root": root },
        "cost": 0, "tokens": none, "modelID": model.model, "providerID": model.provider,
        "time": { "created": now },
    });
    if compacts {
        body["summary"] = Value::Bool(true);
    }
    if let Some(variant) = &model.variant {
        body["variant"] = Value::from(variant.as_str());
    }
    let body = serde_json::from_value(body).map_err(|error| ApiError::unexpected(&error))?;
    Ok(Message { id, session: session.id.clone(), body })
}
