//! The answer to a prompt, and the one that says that nobody can give any.

use axum::http::StatusCode;
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{Failure, FailureKind, Message, MessageBody, PartBody, Session, User};
use turnstone_core::turn::{Outcome, TurnState};
use turnstone_engine::{EngineError, Turn};
use turnstone_store::{Context, Fate, StoreError, WithParts};

use crate::app::App;
use crate::error::ApiError;
use crate::show::with_parts;

/// Messages looked at at a time.
const PAGE: usize = 20;

/// What a client is told when nobody runs a model.
const NOBODY: &str = "No model runner is attached to this server, so nobody answered; your prompt is \
stored. Attach a runner over the native routes (POST /turnstone/runner, see docs/http.md), then send \
the prompt again.";

/// Why a model stopped that wants to go on.
const TOOL_CALLS: &str = "tool-calls";

/// What a client is told when somebody stopped a turn.
const ABORTED: &str = "Aborted";

impl App {
    /// The answer to a prompt with its parts: the last one of the turn that took it up. Of a prompt no
    /// turn knows of, the newest answer; without any, the prompt itself.
    pub(super) fn answer(
        &self,
        ctx: &Context,
        session: &SessionId,
        prompt: &MessageId,
    ) -> Result<Value, ApiError> {
        let store = self.engine().store();
        if let Some(Fate::Taken(turn, state)) = store.read(ctx, |r| r.fate(session, prompt))? {
            let last = store.read(ctx, |r| r.last_answer(session, &turn))?;
            if last.is_none() && !state.is_open() && state != TurnState::Completed {
                return Err(unanswered(prompt, state));
            }
            let shown = last.as_ref().unwrap_or(prompt);
            return Ok(with_parts(&store.read(ctx, |r| r.get_message(session, shown))?));
        }
        let found = store.read(ctx, |r| {
            let (mut newest, mut before): (Option<WithParts>, Option<String>) = (None, None);
            loop {
                let page = r.list_messages(session, before.as_deref(), PAGE)?;
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
                None => r.get_message(session, prompt),
            }
        })?;
        Ok(with_parts(&found))
    }

    /// Ends a turn for which there is no runner: with an answer that says so, and nothing busy.
    pub(super) fn refuse(&self, ctx: &Context, turn: &Turn) -> Result<(), ApiError> {
        // What the client relied on held when its prompt was stored (R43).
        let ctx = &ctx.settled().at(self.now());
        let answer = self.next_answer(ctx, &turn.session, &turn.id, None)?;
        let why = Failure::new(FailureKind::UnknownError, NOBODY);
        self.engine().refuse_turn(ctx, turn, answer, (Outcome::Failed, Some(why)))?;
        self.runners().stir();
        Ok(())
    }

    /// Ends a turn that was driven from outside; false if it had ended, or somebody else has it.
    ///
    /// Whoever asked is told how it ended: a turn without an open answer to say that gets one.
    pub(crate) fn end_driven(
        &self,
        ctx: &Context,
        turn: &Turn,
        outcome: Outcome,
        error: Option<Failure>,
    ) -> Result<bool, ApiError> {
        let engine = self.engine();
        // Clients are told of an abort as OpenCode's tell them: by an error of that name.
        let aborted = || Failure::new(FailureKind::MessageAbortedError, ABORTED);
        let error = error.or_else(|| (outcome == Outcome::Aborted).then(aborted));
        let answer = match self.is_told(ctx, turn, outcome)? {
            true => None,
            false => match self.next_answer(ctx, &turn.session, &turn.id, None) {
                // Its prompt was taken away: nothing is left to be answered.
                Err(ApiError::NotFound(_)) => None,
                answer => Some(answer?),
            },
        };
        let ended = match answer {
            Some(answer) => engine.refuse_turn(ctx, turn, answer, (outcome, error)),
            None => engine.end_turn(ctx, turn, outcome, error).map(drop),
        };
        let is_ours = match ended {
            Ok(()) => true,
            Err(EngineError::Store(StoreError::Fenced(_) | StoreError::Transition(_))) => false,
            Err(error) => return Err(error.into()),
        };
        self.work().turns.let_go(&turn.id);
        // What its open calls changed is found out now, not when somebody asks.
        engine.recover(ctx)?;
        self.runners().stir();
        Ok(is_ours)
    }

    /// True if the answers of an open turn can tell how it ends.
    fn is_told(&self, ctx: &Context, turn: &Turn, outcome: Outcome) -> Result<bool, ApiError> {
        if outcome == Outcome::Completed {
            return Ok(true);
        }
        let last = self.engine().store().read(ctx, |r| {
            let last = r.last_answer(&turn.session, &turn.id)?;
            last.map(|id| r.get_message(&turn.session, &id)).transpose()
        })?;
        let Some(WithParts { message, .. }) = last else { return Ok(false) };
        let MessageBody::Assistant(said) = message.body else { return Ok(false) };
        // After calls another answer was to come, and none that is whole can tell of a failure.
        let was_over = said.finish.as_deref() != Some(TOOL_CALLS) && outcome != Outcome::Failed;
        Ok(said.time.completed.is_none() || was_over)
    }

    /// The next answer of an open turn, with nothing in it yet. It answers the newest prompt the turn
    /// has taken up, as OpenCode's do.
    pub(crate) fn next_answer(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
        id: Option<MessageId>,
    ) -> Result<Message, ApiError> {
        let began = self.turn_row(ctx, session, turn)?.message;
        let (session, asked) = self.engine().store().read(ctx, |r| {
            let asked = r.newest_steer(session, turn)?.unwrap_or(began);
            Ok((r.get_session(session)?, r.get_message(session, &asked)?))
        })?;
        let id = id.map_or_else(|| self.engine().new_message_id(ctx, &session.id), Ok)?;
        let place = self.find_place(ctx, std::path::Path::new(&session.directory))?;
        let root = place.map(|place| place.root.to_string_lossy().into_owned());
        let root = root.unwrap_or_else(|| session.directory.clone());
        empty_answer(id, &session, &root, &asked, ctx.now.0)
    }
}

/// The turn of a prompt died with its server, before anything of an answer was there.
fn unanswered(prompt: &MessageId, state: TurnState) -> ApiError {
    let state = state.as_str();
    let message = format!("the turn of this prompt is {state} and has no answer; say it anew");
    ApiError::tagged(StatusCode::CONFLICT, "UnansweredError", &message)
        .with("messageID", prompt.as_str())
        .with("state", state)
}

/// An answer with nothing in it yet.
fn empty_answer(
    id: MessageId,
    session: &Session,
    root: &str,
    asked: &WithParts,
    now: i64,
) -> Result<Message, ApiError> {
    let MessageBody::User(User { agent, model, .. }) = &asked.message.body else {
        return Err(ApiError::payload("a turn begins with a user message"));
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
