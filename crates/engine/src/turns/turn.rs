//! Turns: begun with their prompt, run under a lease, ended once.

use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{Message, MessageFailure, Part, PartBody, SessionStatus};
use turnstone_core::tool_state::ToolPhase;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    Context, EndTurn, Lease, LeaseTakeover, NewTurn, StoreError, TurnEndOutcome, Tx,
};

use crate::engine::Engine;
use crate::error::Result;

/// So often a turn is begun again if its lease slipped away.
const MAX_LEASE_ATTEMPTS: usize = 100;

/// What begins a turn: the message of a person, its agent and model in it.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The message.
    pub message: Message,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A turn that this process runs.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub id: TurnId,
    /// The right to write it.
    pub lease: Lease,
}

impl Turn {
    /// The context of a write of this turn.
    #[must_use]
    pub fn context(&self, ctx: &Context) -> Context {
        ctx.clone().with_lease(&self.lease)
    }
}

impl Engine {
    /// Begins a turn: its prompt is durable when this returns; nothing is captured yet (R6).
    ///
    /// If the head is before the end, what is behind it is hidden first (R19).
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn or an operation of the session is open.
    pub fn begin_turn(&self, ctx: &Context, prompt: Prompt) -> Result<Turn> {
        let session = prompt.message.session.clone();
        self.recover_session(ctx, &session)?;
        let ctx = &self.branch_at_head(ctx, &session)?;
        let id = self.id_generator.new_turn_id(ctx.now)?;
        let new = NewTurn { id: id.clone(), message: prompt.message, parts: prompt.parts };
        let (name, turn) = (session.clone(), id.clone());
        let begin = move |tx: &Tx<'_>| {
            tx.turns().begin(&new)?;
            tx.turns().transition(&name, &turn, &TurnEvent::Started).map(drop)
        };
        self.lease_turn(ctx, &session, &id, begin)
    }

    /// Takes the lease of a session and begins a turn under it, or gives it back.
    pub(crate) fn lease_turn(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &TurnId,
        begin: impl Fn(&Tx<'_>) -> Result<(), StoreError> + Clone + Send + 'static,
    ) -> Result<Turn> {
        for _ in 0..MAX_LEASE_ATTEMPTS {
            let lease = self.store.acquire_lease(ctx, session, LeaseTakeover::IfDead)?;
            let turn = Turn { session: session.clone(), id: id.clone(), lease };
            match self.store.write(&turn.context(ctx), begin.clone()).wait() {
                Ok(()) => return Ok(turn),
                // Another thread of this process ended a turn and gave back the lease both had.
                Err(StoreError::Fenced(_)) => {}
                Err(error) => {
                    self.store.release_lease(ctx, &turn.lease)?;
                    return Err(error.into());
                }
            }
        }
        Err(StoreError::Busy(session.clone()).into())
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

    /// Ends a turn, once: open tools and messages are closed with it, and the figures of what the
    /// session changed are written down.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took the session over.
    pub fn end_turn(
        &self,
        ctx: &Context,
        turn: &Turn,
        outcome: TurnOutcome,
        error: Option<MessageFailure>,
    ) -> Result<TurnEndOutcome> {
        let end = EndTurn { session: turn.session.clone(), turn: turn.id.clone(), outcome, error };
        let stated = self.summarize_at_turn_end(ctx, &turn.session, &turn.id)?;
        let end_it = move |tx: &turnstone_store::Tx<'_>| {
            // First: nothing is said of a session after its turn has ended.
            stated.write(tx, &end.session)?;
            tx.turns().end(&end)
        };
        let ended = self.store.write(&turn.context(ctx), end_it).wait()?;
        self.store.release_lease(ctx, &turn.lease)?;
        Ok(ended)
    }
}
