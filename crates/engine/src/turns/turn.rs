//! Turns: begun with their prompt, run under a lease, ended once.

use std::sync::Arc;

use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{Message, MessageFailure, Part, Session};
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    CloseChangeSet, Context, EndTurn, Lease, LeaseTakeoverPolicy, NewTurn, Store, StoreError,
    TurnEndOutcome, Tx,
};

use crate::error::Result;
use crate::history::pending_turn_ends::is_temporary;
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::history::timeline_branch::TimelineBranches;
use crate::id_generator::IdGenerator;

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
    pub(crate) branches: TimelineBranches,
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
        let ctx = &self.prepare(ctx, &session)?;
        self.begin_prepared(ctx, None, prompt, |_| Ok(()))
    }

    /// Makes a session ready for a turn: recovered, and with its head at the end. Returns the context of
    /// the writes that follow.
    pub(crate) fn prepare(&self, ctx: &Context, session: &SessionId) -> Result<Context> {
        self.recovery.recover(ctx, session)?;
        self.branches.branch_at_head(ctx, session)
    }

    /// Begins a turn in a session that is ready for it, or in a new one, which is created with it;
    /// `more` is written with the turn. One commit.
    pub(crate) fn begin_prepared(
        &self,
        ctx: &Context,
        created: Option<Session>,
        prompt: Prompt,
        more: impl Fn(&Tx<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Turn> {
        let session = prompt.message.session.clone();
        let id = self.id_generator.new_turn_id(ctx.now)?;
        let new = NewTurn { id: id.clone(), message: prompt.message, parts: prompt.parts };
        let (name, turn) = (session.clone(), id.clone());
        let request = self.store.leases().request(&session, LeaseTakeoverPolicy::IfDead)?;
        let write = move |tx: &Tx<'_>| {
            if let Some(session) = &created {
                tx.sessions().create(session)?;
            }
            tx.leases().run_leased(&request, |tx| {
                tx.turns().begin(&new)?;
                tx.turns().transition(&name, &turn, &TurnEvent::Started)?;
                more(tx)
            })
        };
        let (lease, ()) = self.store.write(ctx, write).wait()?;
        Ok(Turn { session, id, lease })
    }

    /// Takes the lease of a session and begins a turn under it, in one commit.
    pub(crate) fn begin_leased(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &TurnId,
        begin: impl Fn(&Tx<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Turn> {
        let request = self.store.leases().request(session, LeaseTakeoverPolicy::IfDead)?;
        let write = move |tx: &Tx<'_>| tx.leases().run_leased(&request, &begin);
        let (lease, ()) = self.store.write(ctx, write).wait()?;
        Ok(Turn { session: session.clone(), id: id.clone(), lease })
    }

    /// Ends a turn, once: open tools and messages are closed with it, and the summary of what the
    /// session changed is stored.
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
        self.end_with(ctx, turn, (outcome, error), Vec::new(), |_| Ok(()))
    }

    /// Ends a turn and closes change sets of it, in one commit; `more` is written before the end.
    ///
    /// If the disk is full or fails, this process keeps the end and stores it later (R45).
    pub(crate) fn end_with(
        &self,
        ctx: &Context,
        turn: &Turn,
        (outcome, error): (TurnOutcome, Option<MessageFailure>),
        closed: Vec<CloseChangeSet>,
        more: impl Fn(&Tx<'_>) -> Result<(), StoreError> + Clone + Send + 'static,
    ) -> Result<TurnEndOutcome> {
        let end = EndTurn { session: turn.session.clone(), turn: turn.id.clone(), outcome, error };
        let summary = self.changes.summarize_at_turn_end(ctx, &turn.session, &turn.id, &closed)?;
        let lease = turn.lease.clone();
        let write = move |tx: &Tx<'_>, closed: &[CloseChangeSet]| {
            closed
                .iter()
                .try_for_each(|set| tx.change_sets().close(&end.session, set).map(drop))?;
            more(tx)?;
            // Before the end: after its turn has ended, nothing is written to a session.
            summary.write(tx, &end.session)?;
            let ended = tx.turns().end(&end)?;
            tx.leases().release(&lease)?;
            Ok(ended)
        };
        let session = turn.session.clone();
        let ended = store_turn_end(&self.store, &turn.context(ctx), &session, &closed, &write);
        if let Err(error) = &ended
            && is_temporary(error)
        {
            // This process lives, so no other may end the turn: it tries again itself.
            let (store, context) = (self.store.clone(), turn.context(&ctx.without_expected_seq()));
            self.recovery.turn_ends.push(&turn.session, &turn.id, move || {
                store_turn_end(&store, &context, &session, &closed, &write).map(drop)
            });
        }
        ended
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

/// Stores the end of a turn and closes its change sets, in one commit if they fit.
fn store_turn_end(
    store: &Store,
    context: &Context,
    session: &SessionId,
    closed: &[CloseChangeSet],
    write: &(
         impl Fn(&Tx<'_>, &[CloseChangeSet]) -> Result<TurnEndOutcome, StoreError>
         + Clone
         + Send
         + 'static
     ),
) -> Result<TurnEndOutcome> {
    let (all, write_all, write_end) = (closed.to_vec(), write.clone(), write.clone());
    match store.write(context, move |tx| write_all(tx, &all)).wait() {
        // Too much for one transaction: the change sets get one each.
        Err(StoreError::TooLarge { .. }) if !closed.is_empty() => {
            for set in closed {
                let (name, set) = (session.clone(), set.clone());
                let close = move |tx: &Tx<'_>| tx.change_sets().close(&name, &set);
                store.write(context, close).wait()?;
            }
            Ok(store.write(context, move |tx| write_end(tx, &[])).wait()?)
        }
        ended => Ok(ended?),
    }
}
