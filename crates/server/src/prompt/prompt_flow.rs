//! A prompt's way: stored, taken up by whoever runs models, waited for, answered.

use std::path::Path;

use axum::http::StatusCode;
use serde_json::{Number, Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{
    ExtraFields, Message, MessageBody, Part, Session, SessionStatus, UserMessage, UserTime,
};
use turnstone_engine::{EngineError, Prompt, PromptOutcome, PromptRouting, PromptSubmission};
use turnstone_store::{Context, StoreError};

use super::duplicate_prompt::is_same_prompt;
use super::expand::{ExpandedPrompt, expand_parts};
use super::prompt_input::PromptInput;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RetryAwareContext;

/// A prompt that is stored.
#[derive(Clone, Debug)]
pub(super) struct StoredPrompt {
    message: MessageId,
    /// False if nobody is to answer.
    expects_answer: bool,
}

impl AppState {
    /// Stores a prompt and waits for its answer; one that asks for none is answered by itself.
    ///
    /// The wait goes on if the client goes away: a prompt is never forgotten half way.
    pub(crate) async fn prompt_and_wait(
        &self,
        repeat: &RetryAwareContext,
        session: &SessionId,
        asked: PromptInput,
    ) -> Result<Value, ApiError> {
        let sent = self.store_prompt(repeat, session, asked).await?;
        let (app, ctx, session) = (self.clone(), repeat.0.without_preconditions(), session.clone());
        let waiting = tokio::spawn(async move { app.wait_for_answer(&ctx, &session, &sent).await });
        waiting.await.map_err(|error| ApiError::unexpected(&error))?
    }

    /// Stores a prompt; whatever becomes of it is told by events.
    pub(crate) async fn prompt_in_background(
        &self,
        repeat: &RetryAwareContext,
        session: &SessionId,
        asked: PromptInput,
    ) -> Result<MessageId, ApiError> {
        let sent = self.store_prompt(repeat, session, asked).await?;
        let message = sent.message.clone();
        let (app, ctx, session) = (self.clone(), repeat.0.without_preconditions(), session.clone());
        tokio::spawn(async move {
            if app.wait_for_answer(&ctx, &session, &sent).await.is_err() {
                tracing::warn!(
                    "a prompt of {session} was stored, and its answer could not be read"
                );
            }
        });
        Ok(message)
    }

    async fn store_prompt(
        &self,
        repeat: &RetryAwareContext,
        session: &SessionId,
        asked: PromptInput,
    ) -> Result<StoredPrompt, ApiError> {
        let (repeat, session) = (repeat.clone(), session.clone());
        self.run_blocking(move |app| match app.find_earlier_prompt(&repeat, &session)? {
            Some(message) => Ok(StoredPrompt { message, expects_answer: !asked.no_reply }),
            None => app.store_new_prompt(&repeat.0, &session, &asked),
        })
        .await
    }

    /// Waits for the answer to a prompt that an earlier try of this request stored.
    pub(crate) async fn wait_for_earlier_answer(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: MessageId,
    ) -> Result<Value, ApiError> {
        self.wait_for_answer(
            &ctx.without_preconditions(),
            session,
            &StoredPrompt { message, expects_answer: true },
        )
        .await
    }

    /// The prompt that an earlier try of this request stored before it was cut off (R43).
    pub(crate) fn find_earlier_prompt(
        &self,
        RetryAwareContext(ctx, began): &RetryAwareContext,
        session: &SessionId,
    ) -> Result<Option<MessageId>, ApiError> {
        let Some(at) = *began else { return Ok(None) };
        let find = |r: &turnstone_store::ReadTx<'_>| {
            r.prompts().first_since(session, at, ctx.actor.as_str())
        };
        Ok(self.engine().store().read(ctx, find)?)
    }

    /// Waits until a prompt is dealt with, and reads the answer.
    async fn wait_for_answer(
        &self,
        ctx: &Context,
        session: &SessionId,
        sent: &StoredPrompt,
    ) -> Result<Value, ApiError> {
        if sent.expects_answer {
            let (at, id) = (ctx.clone(), session.clone());
            let take = move |app: &Self| app.drain_inbox_without_runner(&at, &id);
            self.wait_for_turn_end(ctx, session, &sent.message, take).await?;
            self.hub().flush_streams().await;
        }
        let (ctx, session, sent) = (ctx.clone(), session.clone(), sent.clone());
        self.run_blocking(move |app| match sent.expects_answer {
            true => app.prompt_answer(&ctx, &session, &sent.message),
            false => {
                let read =
                    |r: &turnstone_store::ReadTx<'_>| r.messages().get(&session, &sent.message);
                let found = app.engine().store().read(&ctx, read)?;
                Ok(crate::wire_json::message_json(&found))
            }
        })
        .await
    }

    /// Takes up what waits in an inbox that no runner looks into, and says that there is none.
    pub(crate) fn drain_inbox_without_runner(
        &self,
        ctx: &Context,
        id: &SessionId,
    ) -> Result<(), ApiError> {
        // Nobody's request: neither what a client relies on nor its key are about this.
        let ctx = &ctx.without_preconditions().at_time(self.now());
        let (session, status) = self
            .engine()
            .store()
            .read(ctx, |r| Ok((r.sessions().get(id)?, r.sessions().status(id)?)))?;
        if status != SessionStatus::Idle {
            return Ok(());
        }
        while !self.has_runner(Path::new(&session.directory)) {
            match self.engine().turns().begin_next(ctx, id) {
                Ok(Some(turn)) => self.fail_turn_without_runner(ctx, &turn)?,
                Ok(None) | Err(EngineError::Store(StoreError::Busy(_))) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn store_new_prompt(
        &self,
        ctx: &Context,
        id: &SessionId,
        asked: &PromptInput,
    ) -> Result<StoredPrompt, ApiError> {
        let session = self.engine().store().read(ctx, |r| r.sessions().get(id))?;
        if let Some(sent) = self.find_duplicate(ctx, id, asked)? {
            return Ok(sent);
        }
        self.check_can_set_rules(ctx, Some(id), &asked.tool_rules())?;
        let place = self.find_project_directory(ctx, Path::new(&session.directory))?;
        let choice = self.choose_agent(ctx, &session, place.as_ref(), &asked.requested_agent)?;
        let root = place.map_or_else(|| session.directory.clone().into(), |place| place.root);
        let ExpandedPrompt { parts, failures } = expand_parts(&root, &asked.parts);
        let message = self.build_message(ctx, id, asked, choice)?;
        let parts = self.build_parts(ctx, &message, parts)?;
        let message_id = message.id.clone();
        let new = PromptSubmission {
            prompt: Prompt { message, parts },
            rules: asked.tool_rules(),
            routing: self.prompt_destination(&session, asked),
        };
        let stored = match self.engine().turns().admit_prompt(ctx, &new) {
            // Somebody was faster with the same id: it may have been the same prompt.
            Err(EngineError::Store(
                error @ (StoreError::Conflict { .. } | StoreError::WrongOwner { .. }),
            )) => {
                let repeat = self.find_duplicate(ctx, id, asked)?;
                return repeat.ok_or_else(|| match &asked.message {
                    Some(_) => message_conflict(&message_id),
                    // The message is new: it is one of its parts that is there already.
                    None => error.into(),
                });
            }
            stored => stored?,
        };
        for why in failures {
            self.publish_failure(&session, &why);
        }
        match &stored {
            PromptOutcome::StoredOnly => {}
            PromptOutcome::TurnBegun(turn) => self.fail_turn_without_runner(ctx, turn)?,
            PromptOutcome::Admitted(_) => self.runners().notify_waiters(),
        }
        Ok(StoredPrompt { message: message_id, expects_answer: !asked.no_reply })
    }

    /// Who is to answer: a runner if there is one; else this process, which can only say so.
    fn prompt_destination(&self, session: &Session, asked: &PromptInput) -> PromptRouting {
        let directory = Path::new(&session.directory);
        match asked.no_reply {
            true => PromptRouting::StoreOnly,
            false if self.has_runner(directory) => PromptRouting::Inbox(asked.delivery),
            false => PromptRouting::RunHere(asked.delivery),
        }
    }

    /// The prompt that has this id already, if it says the same.
    fn find_duplicate(
        &self,
        ctx: &Context,
        session: &SessionId,
        asked: &PromptInput,
    ) -> Result<Option<StoredPrompt>, ApiError> {
        let Some(message) = &asked.message else { return Ok(None) };
        match self.engine().store().read(ctx, |r| r.messages().get(session, message)) {
            Ok(found) if is_same_prompt(&found, asked) => {
                Ok(Some(StoredPrompt { message: message.clone(), expects_answer: !asked.no_reply }))
            }
            Ok(_) => Err(message_conflict(message)),
            Err(StoreError::NoMessage { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn build_message(
        &self,
        ctx: &Context,
        session: &SessionId,
        asked: &PromptInput,
        choice: super::ChosenAgent,
    ) -> Result<Message, ApiError> {
        let id = match &asked.message {
            Some(id) => id.clone(),
            None => self.engine().turns().new_message_id(ctx, session)?,
        };
        let user = UserMessage {
            time: UserTime { created: Number::from(ctx.now.0), extra: ExtraFields::new() },
            format: asked.format.clone(),
            summary: None,
            agent: choice.agent,
            model: choice.model,
            system: asked.system.clone(),
            tools: asked.tools.clone(),
            extra: ExtraFields::new(),
        };
        Ok(Message { id, session: session.clone(), body: MessageBody::User(user) })
    }

    fn build_parts(
        &self,
        ctx: &Context,
        message: &Message,
        bodies: Vec<(Option<turnstone_core::id::PartId>, turnstone_core::model::PartBody)>,
    ) -> Result<Vec<Part>, ApiError> {
        let one = |(id, body)| {
            let id = match id {
                Some(id) => id,
                None => self.engine().turns().new_part_id(ctx)?,
            };
            let (session, message) = (message.session.clone(), message.id.clone());
            Ok(Part { id, session, message, body })
        };
        bodies.into_iter().map(one).collect()
    }

    /// Tells the clients of a session what could not be done; nothing of it is stored.
    pub(crate) fn publish_failure(&self, session: &Session, message: &str) {
        let error = json!({ "name": "UnknownError", "data": { "message": message } });
        let said = json!({ "sessionID": session.id.as_str(), "error": error });
        self.hub().publish(&session.directory, "session.error", said);
    }
}

/// The id was used for something else.
fn message_conflict(message: &MessageId) -> ApiError {
    let words = format!("message {message} is there already and says something else");
    ApiError::tagged(StatusCode::CONFLICT, "ConflictError", &words)
        .with_field("messageID", message.as_str())
}
