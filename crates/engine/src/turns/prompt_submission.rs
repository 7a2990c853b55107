//! Submitting prompts: stored with their changes to the session, in one transaction.

use std::sync::Arc;

use serde_json::Number;
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{
    ExtraFields, MessageBody, MessageFailure, ModelRef, Part, PartBody, Session, SessionModel,
    SessionStatus, UserMessage,
};
use turnstone_core::permission::PermissionRule;
use turnstone_core::tool_state::ToolPhase;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    Context, EndTurn, NewTurn, PromptDelivery, PromptReceipt, Store, StoreError, TurnEndOutcome, Tx,
};

use super::newest_prompt::{NextAgent, find_newest_prompt};
use crate::error::{EngineError, Result};
use crate::history::session_recovery::SessionRecovery;
use crate::history::timeline_branch::TimelineBranches;
use crate::id_generator::IdGenerator;
use crate::turns::compaction::Compaction;
use crate::turns::exec::{Aborts, Commands};
use crate::turns::model_context::ModelContexts;
use crate::turns::step::Steps;
use crate::turns::turn::{Prompt, Turn, TurnLifecycle};
use crate::turns::turn_watch::TurnWatches;

/// What the word is for a model without a variant, in a session.
const DEFAULT_VARIANT: &str = "default";

/// Which agent and model answer a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptRouting {
    /// No one: it is only stored.
    StoreOnly,
    /// This process, at once; while a turn runs it waits in the inbox.
    RunHere(PromptDelivery),
    /// The process that takes it from the inbox.
    Inbox(PromptDelivery),
}

/// A prompt, and what it changes in its session.
#[derive(Clone, Debug)]
pub struct PromptSubmission {
    /// The message and its parts.
    pub prompt: Prompt,
    /// Rules that are added to the session's own (R38).
    pub rules: Vec<PermissionRule>,
    /// Which agent and model answer.
    pub routing: PromptRouting,
}

/// What became of it.
#[derive(Clone, Debug)]
pub enum PromptOutcome {
    /// It is stored, and not answered.
    StoredOnly,
    /// It began a turn, which this process runs.
    TurnBegun(Turn),
    /// It is in the inbox.
    Admitted(PromptReceipt),
}

/// Prompts, the inbox and the turns they begin; commands, steps and compaction through its parts.
#[derive(Clone)]
pub struct Turns {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) lifecycle: TurnLifecycle,
    pub(crate) recovery: SessionRecovery,
    pub(crate) branches: TimelineBranches,
    pub(crate) commands: Commands,
    pub(crate) aborts: Aborts,
    pub(crate) steps: Steps,
    pub(crate) contexts: ModelContexts,
    pub(crate) compaction: Compaction,
}

impl Turns {
    /// Commands that run as turns.
    #[must_use]
    pub fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Requests to abort a turn, which any process may make.
    #[must_use]
    pub fn aborts(&self) -> &Aborts {
        &self.aborts
    }

    /// What happens to running turns from outside: aborts, answers, prompts.
    #[must_use]
    pub fn watches(&self) -> TurnWatches {
        TurnWatches { store: self.store.clone(), aborts: self.aborts.clone() }
    }

    /// Model calls of a turn, and the tools that run in them.
    #[must_use]
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// What a model sees of a session.
    #[must_use]
    pub fn contexts(&self) -> &ModelContexts {
        &self.contexts
    }

    /// Compactions: a summary takes the place of old messages in a model's view.
    #[must_use]
    pub fn compaction(&self) -> &Compaction {
        &self.compaction
    }
}

impl Turns {
    /// Begins a turn: its prompt is durable when this returns; nothing is captured yet (R6).
    ///
    /// If the head is before the end, the messages behind it are hidden first (R19).
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn or an operation of the session is open.
    pub fn begin(&self, ctx: &Context, prompt: Prompt) -> Result<Turn> {
        self.lifecycle.begin(ctx, prompt)
    }

    /// Ends a turn, once: open tools and messages are closed with it, and the summary of what the
    /// session changed is stored.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took the session over.
    pub fn end(
        &self,
        ctx: &Context,
        turn: &Turn,
        outcome: TurnOutcome,
        error: Option<MessageFailure>,
    ) -> Result<TurnEndOutcome> {
        self.lifecycle.end(ctx, turn, outcome, error)
    }

    /// Ends a turn as failed, once, and records what its open calls changed.
    ///
    /// # Errors
    ///
    /// As [`Self::end`].
    pub fn fail(
        &self,
        ctx: &Context,
        turn: &Turn,
        error: MessageFailure,
    ) -> Result<TurnEndOutcome> {
        self.lifecycle.fail(ctx, turn, error)
    }

    /// Ends a turn as aborted, once; the prompts that wait in the inbox stay (R29).
    ///
    /// # Errors
    ///
    /// As [`Self::end`].
    pub fn abort(&self, ctx: &Context, turn: &Turn) -> Result<TurnEndOutcome> {
        self.lifecycle.abort(ctx, turn)
    }

    /// A new id for a message of a session: it sorts after those that are there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn new_message_id(&self, ctx: &Context, session: &SessionId) -> Result<MessageId> {
        self.lifecycle.new_message_id(ctx, session)
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
        self.recovery.recover(ctx, session)?;
        let ctx = &self.branches.branch_at_head(ctx, session)?;
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
        self.lifecycle.begin_leased(ctx, &session, &id, write)
    }

    /// Ends a turn without an answer of a model: stores a message that says why, and the end, in one commit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took the session over.
    pub fn end_unanswered(
        &self,
        ctx: &Context,
        turn: &Turn,
        answer: turnstone_core::model::Message,
        (outcome, error): (TurnOutcome, Option<turnstone_core::model::MessageFailure>),
    ) -> Result<()> {
        let end = EndTurn { session: turn.session.clone(), turn: turn.id.clone(), outcome, error };
        let lease = turn.lease.clone();
        let write = move |tx: &Tx<'_>| {
            tx.messages().put(&answer)?;
            tx.turns().end(&end)?;
            tx.leases().release(&lease)
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(())
    }

    /// Clears away what a failed attempt of a model call left, and shows that another one is coming.
    ///
    /// What it said and calls that never ran leave the answer; the log has them. A call that ran
    /// stays, for what it did is real, and so does the mark where the step began (W15).
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took the session over: nothing is cleared.
    pub fn clear_failed_attempt(
        &self,
        ctx: &Context,
        turn: &Turn,
        answer: &MessageId,
        status: &SessionStatus,
    ) -> Result<Vec<PartId>> {
        let found = self.store.read(ctx, |r| r.messages().get(&turn.session, answer))?;
        let mut begun = false;
        let is_debris = |part: &&Part| match &part.body {
            PartBody::Text(_) | PartBody::Reasoning(_) => true,
            PartBody::StepStart(_) => std::mem::replace(&mut begun, true),
            PartBody::Tool(tool) => tool.state.phase() == ToolPhase::Pending,
            PartBody::File(_)
            | PartBody::Agent(_)
            | PartBody::StepFinish(_)
            | PartBody::Snapshot(_)
            | PartBody::Patch(_)
            | PartBody::Subtask(_)
            | PartBody::Retry(_)
            | PartBody::Compaction(_)
            | PartBody::Opaque(_) => false,
        };
        let gone: Vec<PartId> =
            found.parts.iter().filter(is_debris).map(|part| part.id.clone()).collect();
        let (parts, status) = (gone.clone(), status.clone());
        let (session, id) = (turn.session.clone(), turn.id.clone());
        let clear = move |tx: &Tx<'_>| {
            parts.iter().try_for_each(|part| tx.messages().remove_part(&session, part))?;
            tx.turns().set_retry(&session, &id, &status)
        };
        self.store.write(&turn.context(ctx), clear).wait()?;
        Ok(gone)
    }

    /// Who answers the next prompt: the agent and the model of the newest one, else the session's.
    ///
    /// Answers are not asked, so it does not matter whether any are left.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn find_next_agent(&self, ctx: &Context, session: &SessionId) -> Result<Option<NextAgent>> {
        let (newest, session) = self
            .store
            .read(ctx, |r| Ok((find_newest_prompt(r, session)?, r.sessions().get(session)?)))?;
        if let Some(user) = newest {
            return Ok(Some(NextAgent { agent: user.agent, model: user.model }));
        }
        let (Some(agent), Some(model)) = (session.agent, session.model) else {
            return Ok(None);
        };
        let model = ModelRef {
            provider: model.provider,
            model: model.id,
            variant: model.variant,
            extra: ExtraFields::new(),
        };
        Ok(Some(NextAgent { agent, model }))
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
    /// Writes the changes to the session before and after the prompt itself.
    fn write_with_session<T>(
        &self,
        tx: &Tx<'_>,
        put: impl FnOnce(&Tx<'_>) -> turnstone_store::Result<T>,
    ) -> turnstone_store::Result<T> {
        let Prompt { message, .. } = &self.prompt;
        let session = &message.session;
        // A prompt never overwrites an existing message.
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

/// Stores agent and model of the newest prompt in the session, if they changed.
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
