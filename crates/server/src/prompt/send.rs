//! A prompt's way: stored, taken up by whoever runs models, waited for, answered.

use std::path::Path;

use axum::http::StatusCode;
use serde_json::{Number, Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Extra, Message, MessageBody, Part, Session, Status, User, UserTime};
use turnstone_engine::{EngineError, NewPrompt, Prompt, Stored, Wish};
use turnstone_store::{Context, StoreError};

use super::expand::{Expanded, expand};
use super::input::PromptInput;
use super::repeat::is_repeat;
use crate::app::App;
use crate::call::Repeat;
use crate::error::ApiError;

/// A prompt that is stored.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    message: MessageId,
    /// False if nobody is to answer.
    answered: bool,
}

impl App {
    /// Stores a prompt and waits for its answer; one that asks for none is answered by itself.
    ///
    /// The wait goes on if the client goes away: a prompt is never forgotten half way.
    pub(crate) async fn prompt(
        &self,
        repeat: &Repeat,
        session: &SessionId,
        asked: PromptInput,
    ) -> Result<Value, ApiError> {
        let sent = self.send(repeat, session, asked).await?;
        let (app, ctx, session) = (self.clone(), repeat.0.aside(), session.clone());
        let waiting = tokio::spawn(async move { app.settle(&ctx, &session, &sent).await });
        waiting.await.map_err(|error| ApiError::unexpected(&error))?
    }

    /// Stores a prompt; whatever becomes of it is told by events.
    pub(crate) async fn prompt_and_go(
        &self,
        repeat: &Repeat,
        session: &SessionId,
        asked: PromptInput,
    ) -> Result<MessageId, ApiError> {
        let sent = self.send(repeat, session, asked).await?;
        let message = sent.message.clone();
        let (app, ctx, session) = (self.clone(), repeat.0.aside(), session.clone());
        tokio::spawn(async move {
            if app.settle(&ctx, &session, &sent).await.is_err() {
                tracing::warn!(
                    "a prompt of {session} was stored, and its answer could not be read"
                );
            }
        });
        Ok(message)
    }

    async fn send(
        &self,
        repeat: &Repeat,
        session: &SessionId,
        asked: PromptInput,
    ) -> Result<Sent, ApiError> {
        let (repeat, session) = (repeat.clone(), session.clone());
        self.blocking(move |app| match app.find_earlier(&repeat, &session)? {
            Some(message) => Ok(Sent { message, answered: !asked.no_reply }),
            None => app.take_prompt(&repeat.0, &session, &asked),
        })
        .await
    }

    /// Waits for the answer to a prompt that an earlier try of this request stored.
    pub(crate) async fn answer_again(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: MessageId,
    ) -> Result<Value, ApiError> {
        self.settle(&ctx.aside(), session, &Sent { message, answered: true }).await
    }

    /// The prompt that an earlier try of this request stored before it was cut off (R43).
    pub(crate) fn find_earlier(
        &self,
        Repeat(ctx, began): &Repeat,
        session: &SessionId,
    ) -> Result<Option<MessageId>, ApiError> {
        let Some(at) = *began else { return Ok(None) };
        let find =
            |r: &turnstone_store::Reader<'_>| r.first_prompt_since(session, at, ctx.actor.as_str());
        Ok(self.engine().store().read(ctx, find)?)
    }

    /// Waits until a prompt is dealt with, and reads the answer.
    async fn settle(
        &self,
        ctx: &Context,
        session: &SessionId,
        sent: &Sent,
    ) -> Result<Value, ApiError> {
        if sent.answered {
            let (at, id) = (ctx.clone(), session.clone());
            let take = move |app: &Self| app.take_up_alone(&at, &id);
            self.wait_for_turn_end(ctx, session, &sent.message, take).await?;
            self.hub().hand_on().await;
        }
        let (ctx, session, sent) = (ctx.clone(), session.clone(), sent.clone());
        self.blocking(move |app| match sent.answered {
            true => app.answer(&ctx, &session, &sent.message),
            false => {
                let read = |r: &turnstone_store::Reader<'_>| r.get_message(&session, &sent.message);
                let found = app.engine().store().read(&ctx, read)?;
                Ok(crate::show::with_parts(&found))
            }
        })
        .await
    }

    /// Takes up what waits in an inbox that no runner looks into, and says that there is none.
    pub(crate) fn take_up_alone(&self, ctx: &Context, id: &SessionId) -> Result<(), ApiError> {
        // Nobody's request: neither what a client relies on nor its key are about this.
        let ctx = &ctx.aside().at(self.now());
        let (session, status) =
            self.engine().store().read(ctx, |r| Ok((r.get_session(id)?, r.status(id)?)))?;
        if status != Status::Idle {
            return Ok(());
        }
        while !self.has_runner(Path::new(&session.directory)) {
            match self.engine().next_turn(ctx, id) {
                Ok(Some(turn)) => self.refuse(ctx, &turn)?,
                Ok(None) | Err(EngineError::Store(StoreError::Busy(_))) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn take_prompt(
        &self,
        ctx: &Context,
        id: &SessionId,
        asked: &PromptInput,
    ) -> Result<Sent, ApiError> {
        let session = self.engine().store().read(ctx, |r| r.get_session(id))?;
        if let Some(sent) = self.find_repeat(ctx, id, asked)? {
            return Ok(sent);
        }
        self.check_rule_setter(ctx, Some(id), &asked.rules())?;
        let place = self.find_place(ctx, Path::new(&session.directory))?;
        let choice = self.choose(ctx, &session, place.as_ref(), &asked.wanted)?;
        let root = place.map_or_else(|| session.directory.clone().into(), |place| place.root);
        let Expanded { parts, failures } = expand(&root, &asked.parts);
        let message = self.message(ctx, id, asked, choice)?;
        let parts = self.parts(ctx, &message, parts)?;
        let message_id = message.id.clone();
        let new = NewPrompt {
            prompt: Prompt { message, parts },
            rules: asked.rules(),
            wish: self.wish(&session, asked),
        };
        let stored = match self.engine().take_in(ctx, &new) {
            // Somebody was faster with the same id: it may have been the same prompt.
            Err(EngineError::Store(
                error @ (StoreError::Conflict { .. } | StoreError::WrongOwner { .. }),
            )) => {
                let repeat = self.find_repeat(ctx, id, asked)?;
                return repeat.ok_or_else(|| match &asked.message {
                    Some(_) => taken(&message_id),
                    // The message is new: it is one of its parts that is there already.
                    None => error.into(),
                });
            }
            stored => stored?,
        };
        for why in failures {
            self.tell_failure(&session, &why);
        }
        match &stored {
            Stored::Kept => {}
            Stored::Begun(turn) => self.refuse(ctx, turn)?,
            Stored::Admitted(_) => self.runners().stir(),
        }
        Ok(Sent { message: message_id, answered: !asked.no_reply })
    }

    /// Who is to answer: a runner if there is one; else this process, which can only say so.
    fn wish(&self, session: &Session, asked: &PromptInput) -> Wish {
        let directory = Path::new(&session.directory);
        match asked.no_reply {
            true => Wish::Nothing,
            false if self.has_runner(directory) => Wish::Inbox(asked.delivery),
            false => Wish::Here(asked.delivery),
        }
    }

    /// The prompt that has this id already, if it says the same.
    fn find_repeat(
        &self,
        ctx: &Context,
        session: &SessionId,
        asked: &PromptInput,
    ) -> Result<Option<Sent>, ApiError> {
        let Some(message) = &asked.message else { return Ok(None) };
        match self.engine().store().read(ctx, |r| r.get_message(session, message)) {
            Ok(found) if is_repeat(&found, asked) => {
                Ok(Some(Sent { message: message.clone(), answered: !asked.no_reply }))
            }
            Ok(_) => Err(taken(message)),
            Err(StoreError::NoMessage { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn message(
        &self,
        ctx: &Context,
        session: &SessionId,
        asked: &PromptInput,
        choice: super::Choice,
    ) -> Result<Message, ApiError> {
        let id = match &asked.message {
            Some(id) => id.clone(),
            None => self.engine().new_message_id(ctx, session)?,
        };
        let user = User {
            time: UserTime { created: Number::from(ctx.now.0), extra: Extra::new() },
            format: asked.format.clone(),
            summary: None,
            agent: choice.agent,
            model: choice.model,
            system: asked.system.clone(),
            tools: asked.tools.clone(),
            extra: Extra::new(),
        };
        Ok(Message { id, session: session.clone(), body: MessageBody::User(user) })
    }

    fn parts(
        &self,
        ctx: &Context,
        message: &Message,
        bodies: Vec<(Option<turnstone_core::id::PartId>, turnstone_core::model::PartBody)>,
    ) -> Result<Vec<Part>, ApiError> {
        let one = |(id, body)| {
            let id = match id {
                Some(id) => id,
                None => self.engine().new_part_id(ctx)?,
            };
            let (session, message) = (message.session.clone(), message.id.clone());
            Ok(Part { id, session, message, body })
        };
        bodies.into_iter().map(one).collect()
    }

    /// Tells the clients of a session what could not be done; nothing of it is stored.
    pub(crate) fn tell_failure(&self, session: &Session, message: &str) {
        let error = json!({ "name": "UnknownError", "data": { "message": message } });
        let said = json!({ "sessionID": session.id.as_str(), "error": error });
        self.hub().publish(&session.directory, "session.error", said);
    }
}

/// The id was used for something else.
fn taken(message: &MessageId) -> ApiError {
    let words = format!("message {message} is there already and says something else");
    ApiError::tagged(StatusCode::CONFLICT, "ConflictError", &words)
        .with("messageID", message.as_str())
}
