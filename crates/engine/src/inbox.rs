//! The inbox: prompts that come while a turn runs are kept, and each is taken up once (R29).

use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::turn::TurnEvent;
use turnstone_store::{Admitted, Context, Delivery, NewTurn, StoreError, Tx};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::turn::{Prompt, Turn};

/// What became of a prompt.
#[derive(Clone, Debug)]
pub enum Submitted {
    /// It began a turn, which this process runs.
    Begun(Turn),
    /// A turn runs: it is in the inbox.
    Admitted(Admitted),
}

impl Engine {
    /// Begins a turn with a prompt, or keeps it in the inbox while another turn runs.
    ///
    /// Either way it is durable when this returns. If the other turn ends at this very moment, the
    /// prompt is in the inbox and [`Engine::next_turn`] finds it.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn submit(&self, ctx: &Context, prompt: Prompt, delivery: Delivery) -> Result<Submitted> {
        match self.begin_turn(ctx, prompt.clone()) {
            Ok(turn) => Ok(Submitted::Begun(turn)),
            Err(EngineError::Store(StoreError::Busy(_))) => {
                self.admit(ctx, prompt, delivery).map(Submitted::Admitted)
            }
            Err(error) => Err(error),
        }
    }

    /// Puts a prompt into the inbox, whoever runs the session. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if its id was used for another prompt.
    pub fn admit(&self, ctx: &Context, prompt: Prompt, delivery: Delivery) -> Result<Admitted> {
        let Prompt { message, parts } = prompt;
        Ok(self.store.write(ctx, move |tx| tx.admit(&message, &parts, delivery)).wait()?)
    }

    /// Takes up the prompts that steer the running turn, oldest first: input of its next model call.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if the turn is not this process's any more: nothing is taken up.
    pub fn take_steers(&self, ctx: &Context, turn: &Turn) -> Result<Vec<MessageId>> {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        let take = move |tx: &Tx<'_>| {
            // Only whoever runs the turn may take up what steers it.
            tx.move_turn(&session, &id, &TurnEvent::Started)?;
            let mut taken = Vec::new();
            while let Some(message) = tx.promote(&session, Delivery::Steer, None)? {
                taken.push(message);
            }
            Ok(taken)
        };
        Ok(self.store.write(&turn.context(ctx), take).wait()?)
    }

    /// Begins a turn with the next prompt of the inbox, if there is one.
    ///
    /// What steered a turn that ended before it was read comes first, then the queue, oldest first.
    /// Taking it up and beginning its turn is one transaction.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn runs.
    pub fn next_turn(&self, ctx: &Context, session: &SessionId) -> Result<Option<Turn>> {
        self.recover_session(ctx, session)?;
        if self.store.read(ctx, |r| r.inbox(session))?.is_empty() {
            return Ok(None);
        }
        let ctx = &self.branch(ctx, session)?;
        loop {
            let waiting = self.store.read(ctx, |r| r.inbox(session))?;
            let steer = waiting.iter().find(|one| one.delivery == Delivery::Steer);
            let Some(next) = steer.or(waiting.first()).cloned() else {
                return Ok(None);
            };
            let found = self.store.read(ctx, |r| r.get_message(session, &next.message));
            let found = match found {
                Ok(found) => Some(found),
                // It was taken back with what was behind the head; the log has it.
                Err(StoreError::NoMessage { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            let begun = found.is_some();
            let id = self.mint.turn(ctx.now)?;
            let (name, turn) = (session.clone(), id.clone());
            let begin = move |tx: &Tx<'_>| {
                let taken = tx.promote(&name, next.delivery, None)?;
                if taken.as_ref() != Some(&next.message) {
                    return Err(StoreError::Busy(name.clone()));
                }
                if let Some(found) = &found {
                    let (message, parts) = (found.message.clone(), found.parts.clone());
                    tx.begin_turn(&NewTurn { id: turn.clone(), message, parts })?;
                    tx.move_turn(&name, &turn, &TurnEvent::Started)?;
                }
                Ok(())
            };
            let turn = self.lease_turn(ctx, session, &id, begin)?;
            if begun {
                return Ok(Some(turn));
            }
            self.store.release(ctx, &turn.lease)?;
        }
    }
}
