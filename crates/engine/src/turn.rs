//! Turns: begun with their prompt, run under a lease, ended once.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::{Failure, Message, Part};
use turnstone_core::turn::{Outcome, TurnEvent};
use turnstone_store::{Context, EndTurn, Ended, Lease, NewTurn, Takeover};

use crate::engine::Engine;
use crate::error::Result;

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
        ctx.clone().leased(&self.lease)
    }
}

impl Engine {
    /// Begins a turn: its prompt is durable when this returns; nothing is captured yet (R6).
    ///
    /// If the head is before the end, what is behind it is hidden first (R19).
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn or an operation of the session is open.
    pub fn begin_turn(&self, ctx: &Context, prompt: Prompt) -> Result<Turn> {
        let session = prompt.message.session.clone();
        self.recover_session(ctx, &session)?;
        let ctx = &self.branch(ctx, &session)?;
        let id = self.mint.turn(ctx.now)?;
        let lease = self.store.lease(ctx, &session, Takeover::IfDead)?;
        let turn = Turn { session: session.clone(), id: id.clone(), lease };
        let new = NewTurn { id: id.clone(), message: prompt.message, parts: prompt.parts };
        let begin = move |tx: &turnstone_store::Tx<'_>| {
            tx.begin_turn(&new)?;
            tx.move_turn(&session, &id, &TurnEvent::Started)
        };
        self.store.write(&turn.context(ctx), begin).wait()?;
        Ok(turn)
    }

    /// Ends a turn, once: open tools and messages are closed with it.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Fenced`] if another process took the session over.
    pub fn end_turn(
        &self,
        ctx: &Context,
        turn: &Turn,
        outcome: Outcome,
        error: Option<Failure>,
    ) -> Result<Ended> {
        let end = EndTurn { session: turn.session.clone(), turn: turn.id.clone(), outcome, error };
        let ended = self.store.write(&turn.context(ctx), move |tx| tx.end_turn(&end)).wait()?;
        self.store.release(ctx, &turn.lease)?;
        Ok(ended)
    }
}
