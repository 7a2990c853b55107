//! Prompts on their way in: stored with what they say of their session, in one transaction.

use serde_json::Number;
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{MessageBody, ModelRef, Session, SessionModel, UserMessage};
use turnstone_core::permission::PermissionRule;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{Context, EndTurn, NewTurn, PromptDelivery, PromptReceipt, StoreError, Tx};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::turns::turn::{Prompt, Turn};

/// What the word is for a model without a variant, in a session.
const DEFAULT_VARIANT: &str = "default";

/// Who is to answer a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptRouting {
    /// Nobody: it is something to know.
    StoreOnly,
    /// This process, at once; while a turn runs it waits in the inbox.
    RunHere(PromptDelivery),
    /// Whoever takes it from the inbox.
    Inbox(PromptDelivery),
}

/// A prompt, and what it says of its session.
#[derive(Clone, Debug)]
pub struct PromptSubmission {
    /// The message and its parts.
    pub prompt: Prompt,
    /// Rules that are added to the session's own (R38).
    pub rules: Vec<PermissionRule>,
    /// Who is to answer.
    pub routing: PromptRouting,
}

/// What became of it.
#[derive(Clone, Debug)]
pub enum PromptOutcome {
    /// It is there, and nobody answers.
    StoredOnly,
    /// It began a turn, which this process runs.
    TurnBegun(Turn),
    /// It is in the inbox.
    Admitted(PromptReceipt),
}

impl Engine {
    /// A new id for a message of a session: it sorts after those that are there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn new_message_id(&self, ctx: &Context, session: &SessionId) -> Result<MessageId> {
        let newest = self.store.read(ctx, |r| r.messages().greatest_recent_id(session))?;
        self.id_generator.new_message_id_after(newest.as_ref(), ctx.now)
    }

    /// A new id for a part; those made later sort behind it.
    ///
    /// # Errors
    ///
    /// The system has no randomness.
    pub fn new_part_id(&self, ctx: &Context) -> Result<PartId> {
        self.id_generator.new_part_id(ctx.now)
    }

    /// Takes a prompt in: agent and model of the session, the message and its parts, and the rules
    /// it adds are written together. What is behind the head is hidden first (R19).
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] or [`StoreError::WrongOwner`] if its id is taken.
    pub fn admit_prompt(&self, ctx: &Context, new: &PromptSubmission) -> Result<PromptOutcome> {
        let session = &new.prompt.message.session;
        self.recover_session(ctx, session)?;
        let ctx = &self.branch_at_head(ctx, session)?;
        match new.routing {
            PromptRouting::StoreOnly => {
                self.store_prompt(ctx, new).map(|()| PromptOutcome::StoredOnly)
            }
            PromptRouting::Inbox(delivery) => self.enqueue_submission(ctx, new, delivery),
            PromptRouting::RunHere(delivery) => match self.begin_submitted_turn(ctx, new) {
                Err(EngineError::Store(StoreError::Busy(_))) => {
                    self.enqueue_submission(ctx, new, delivery)
                }
                begun => begun.map(PromptOutcome::TurnBegun),
            },
        }
    }

    fn store_prompt(&self, ctx: &Context, new: &PromptSubmission) -> Result<()> {
        let new = new.clone();
        let write = move |tx: &Tx<'_>| {
            new.write_with_session(tx, |tx| {
                tx.prompts().add_note(&new.prompt.message, &new.prompt.parts).map(drop)
            })
        };
        Ok(self.store.write(ctx, write).wait()?)
    }

    fn enqueue_submission(
        &self,
        ctx: &Context,
        new: &PromptSubmission,
        delivery: PromptDelivery,
    ) -> Result<PromptOutcome> {
        let new = new.clone();
        let write = move |tx: &Tx<'_>| {
            new.write_with_session(tx, |tx| {
                tx.prompts().admit(&new.prompt.message, &new.prompt.parts, delivery)
            })
        };
        Ok(PromptOutcome::Admitted(self.store.write(ctx, write).wait()?))
    }

    fn begin_submitted_turn(&self, ctx: &Context, new: &PromptSubmission) -> Result<Turn> {
        let session = new.prompt.message.session.clone();
        let id = self.id_generator.new_turn_id(ctx.now)?;
        let (new, name) = (new.clone(), id.clone());
        let write = move |tx: &Tx<'_>| {
            new.write_with_session(tx, |tx| write_turn_start(tx, &new.prompt, &name))
        };
        self.lease_turn(ctx, &session, &id, write)
    }

    /// Ends a turn that nobody answered: an answer that says why, and the end, at once.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took the session over.
    pub fn end_unanswered_turn(
        &self,
        ctx: &Context,
        turn: &Turn,
        answer: turnstone_core::model::Message,
        (outcome, error): (TurnOutcome, Option<turnstone_core::model::MessageFailure>),
    ) -> Result<()> {
        let end = EndTurn { session: turn.session.clone(), turn: turn.id.clone(), outcome, error };
        let write = move |tx: &Tx<'_>| {
            tx.messages().put(&answer)?;
            tx.turns().end(&end)
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        self.store.release_lease(ctx, &turn.lease)?;
        Ok(())
    }
}

fn write_turn_start(tx: &Tx<'_>, prompt: &Prompt, id: &TurnId) -> turnstone_store::Result<()> {
    let Prompt { message, parts } = prompt.clone();
    let session = message.session.clone();
    tx.turns().begin(&NewTurn { id: id.clone(), message, parts })?;
    tx.turns().transition(&session, id, &TurnEvent::Started)?;
    Ok(())
}

impl PromptSubmission {
    /// Writes what the prompt says of its session before and after the prompt itself.
    fn write_with_session<T>(
        &self,
        tx: &Tx<'_>,
        put: impl FnOnce(&Tx<'_>) -> turnstone_store::Result<T>,
    ) -> turnstone_store::Result<T> {
        let Prompt { message, .. } = &self.prompt;
        let session = &message.session;
        // A prompt is never written over what somebody said before.
        if tx.messages().contains(&message.id)? {
            return Err(StoreError::Conflict { kind: "message", id: message.id.to_string() });
        }
        let MessageBody::User(user) = &self.prompt.message.body else {
            return Err(StoreError::Invalid("a prompt is a user message".to_owned()));
        };
        tx.sessions().update(session, |session| {
            set_session_agent(session, user);
            Ok(())
        })?;
        let done = put(tx)?;
        let now = Number::from(tx.now().0);
        tx.sessions().update(session, |session| {
            session.time.updated = now;
            let mut rules = session.permission.clone().unwrap_or_default();
            for rule in &self.rules {
                let last = rules.iter().rfind(|known| known.permission == rule.permission);
                if last != Some(rule) {
                    rules.push(rule.clone());
                }
            }
            if !self.rules.is_empty() {
                session.permission = Some(rules);
            }
            Ok(())
        })?;
        Ok(done)
    }
}

/// Notes in the session who answers its newest prompt, if that is somebody else than before.
fn set_session_agent(session: &mut Session, user: &UserMessage) {
    let ModelRef { provider, model, variant, .. } = &user.model;
    let variant = variant.as_deref().unwrap_or(DEFAULT_VARIANT);
    let is_same = session.agent.as_ref() == Some(&user.agent)
        && session.model.as_ref().is_some_and(|known| {
            let known_variant = known.variant.as_deref().unwrap_or(DEFAULT_VARIANT);
            known.id == *model && known.provider == *provider && known_variant == variant
        });
    if is_same {
        return;
    }
    session.agent = Some(user.agent.clone());
    session.model = Some(SessionModel {
        id: model.clone(),
        provider: provider.clone(),
        variant: Some(variant.to_owned()),
        extra: turnstone_core::model::ExtraFields::new(),
    });
}
