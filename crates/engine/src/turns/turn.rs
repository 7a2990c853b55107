//! Turns: begun with their prompt, run under a lease, ended once.

use std::sync::Arc;

use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{Message, MessageFailure, Part};
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    Context, EndTurn, Lease, LeaseTakeover, NewTurn, Store, StoreError, TurnEndOutcome, Tx,
};

use crate::error::Result;
use crate::history::session_branch::SessionBranches;
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::id_generator::IdGenerator;

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

/// Begins turns under a lease and ends them once.
#[derive(Clone)]
pub(crate) struct TurnLifecycle {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) branches: SessionBranches,
    pub(crate) changes: SessionChanges,
}

impl TurnLifecycle {
    /// Begins a turn: its prompt is durable when this returns; nothing is captured yet (R6).
    ///
    /// If the head is before the end, what is behind it is hidden first (R19).
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn or an operation of the session is open.
    pub(crate) fn begin(&self, ctx: &Context, prompt: Prompt) -> Result<Turn> {
        let session = prompt.message.session.clone();
        self.recovery.recover(ctx, &session)?;
        let ctx = &self.branches.branch_at_head(ctx, &session)?;
        let id = self.id_generator.new_turn_id(ctx.now)?;
        let new = NewTurn { id: id.clone(), message: prompt.message, parts: prompt.parts };
        let (name, turn) = (session.clone(), id.clone());
        let begin = move |tx: &Tx<'_>| {
            tx.turns().begin(&new)?;
            tx.turns().transition(&name, &turn, &TurnEvent::Started).map(drop)
        };
        self.begin_leased(ctx, &session, &id, begin)
    }

    /// Takes the lease of a session and begins a turn under it, or gives it back.
    pub(crate) fn begin_leased(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &TurnId,
        begin: impl Fn(&Tx<'_>) -> Result<(), StoreError> + Clone + Send + 'static,
    ) -> Result<Turn> {
        for _ in 0..MAX_LEASE_ATTEMPTS {
            let lease = self.store.leases().acquire(ctx, session, LeaseTakeover::IfDead)?;
            let turn = Turn { session: session.clone(), id: id.clone(), lease };
            match self.store.write(&turn.context(ctx), begin.clone()).wait() {
                Ok(()) => return Ok(turn),
                // Another thread of this process ended a turn and gave back the lease both had.
                Err(StoreError::Fenced(_)) => {}
                Err(error) => {
                    self.store.leases().release(ctx, &turn.lease)?;
                    return Err(error.into());
                }
            }
        }
        Err(StoreError::Busy(session.clone()).into())
    }

    /// Ends a turn, once: open tools and messages are closed with it, and the figures of what the
    /// session changed are written down.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process took the session over.
    pub(crate) fn end(
        &self,
        ctx: &Context,
        turn: &Turn,
        outcome: TurnOutcome,
        error: Option<MessageFailure>,
    ) -> Result<TurnEndOutcome> {
        let end = EndTurn { session: turn.session.clone(), turn: turn.id.clone(), outcome, error };
        let stated = self.changes.summarize_at_turn_end(ctx, &turn.session, &turn.id)?;
        let end_it = move |tx: &turnstone_store::Tx<'_>| {
            // First: nothing is said of a session after its turn has ended.
            stated.write(tx, &end.session)?;
            tx.turns().end(&end)
        };
        let ended = self.store.write(&turn.context(ctx), end_it).wait()?;
        self.store.leases().release(ctx, &turn.lease)?;
        Ok(ended)
    }

    /// A new id for a message of a session: it sorts after those that are there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub(crate) fn new_message_id(&self, ctx: &Context, session: &SessionId) -> Result<MessageId> {
        let newest = self.store.read(ctx, |r| r.messages().greatest_recent_id(session))?;
        self.id_generator.new_message_id_after(newest.as_ref(), ctx.now)
    }

    /// Ends a turn that did not end well, once; what its open calls changed is found out.
    ///
    /// # Errors
    ///
    /// As [`Self::end`].
    pub(crate) fn fail(
        &self,
        ctx: &Context,
        turn: &Turn,
        error: MessageFailure,
    ) -> Result<TurnEndOutcome> {
        let ended = self.end(ctx, turn, TurnOutcome::Failed, Some(error))?;
        self.recovery.recover(ctx, &turn.session)?;
        Ok(ended)
    }

    /// Stops a turn, once; the prompts that wait in the inbox stay (R29).
    ///
    /// # Errors
    ///
    /// As [`Self::end`].
    pub(crate) fn abort(&self, ctx: &Context, turn: &Turn) -> Result<TurnEndOutcome> {
        let ended = self.end(ctx, turn, TurnOutcome::Aborted, None)?;
        self.recovery.recover(ctx, &turn.session)?;
        Ok(ended)
    }
}
