//! The answer to a prompt, and the one that says that nobody can give any.

use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Failure, FailureKind, Message, MessageBody, PartBody, Session, User};
use turnstone_engine::Turn;
use turnstone_store::{Context, WithParts};

use crate::app::App;
use crate::error::ApiError;
use crate::show::with_parts;

/// Messages looked at at a time.
const PAGE: usize = 20;

/// What a client is told when nobody runs a model.
const NOBODY: &str = "No model runner is attached to this server, so nobody answered; your prompt is \
stored. Attach a runner over the native routes (POST /turnstone/runner, see docs/http.md), then send \
the prompt again.";

impl App {
    /// The newest answer to a prompt with its parts; without one, the newest answer at all, or the
    /// prompt itself.
    pub(super) fn answer(
        &self,
        ctx: &Context,
        session: &SessionId,
        prompt: &MessageId,
    ) -> Result<Value, ApiError> {
        let found = self.engine().store().read(ctx, |r| {
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
        let ctx = &ctx.clone().at(self.now());
        let read = self.engine().store().read(ctx, |r| {
            let turns = r.turns(&turn.session)?;
            let asked = turns.into_iter().rfind(|row| row.id == turn.id).map(|row| row.message);
            let asked = asked.map(|id| r.get_message(&turn.session, &id)).transpose()?;
            Ok((r.get_session(&turn.session)?, asked))
        })?;
        let (session, Some(asked)) = read else {
            return Err(ApiError::NotFound(format!("Turn not found: {}", turn.id)));
        };
        let id = self.engine().new_message_id(ctx, &session.id)?;
        let place = self.find_place(ctx, std::path::Path::new(&session.directory))?;
        let root = place.map(|place| place.root.to_string_lossy().into_owned());
        let root = root.unwrap_or_else(|| session.directory.clone());
        let answer = empty_answer(id, &session, &root, &asked, ctx.now.0)?;
        let failure = Failure::new(FailureKind::UnknownError, NOBODY);
        self.engine().refuse_turn(ctx, turn, answer, failure)?;
        self.runners().stir();
        Ok(())
    }
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
