//! The inbox: prompts that come while a turn runs are kept, and each is taken up once (R29).

use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::turn::TurnEvent;
use turnstone_store::{Context, NewTurn, PromptDelivery, StoreError, Tx};

use crate::error::Result;
use crate::turns::prompt_submission::Turns;
use crate::turns::turn::Turn;

impl Turns {
    /// Takes up the prompts that steer the running turn, oldest first: input of its next model call.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if the turn is not this process's any more: nothing is taken up.
    pub fn promote_steering_prompts(&self, ctx: &Context, turn: &Turn) -> Result<Vec<MessageId>> {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        let take = move |tx: &Tx<'_>| {
            // Only the process that runs the turn may promote its steering prompts.
            tx.turns().transition(&session, &id, &TurnEvent::Started)?;
            let mut taken = Vec::new();
            while let Some(message) = tx.prompts().promote(&session, PromptDelivery::Steer, None)? {
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
    pub fn begin_next(&self, ctx: &Context, session: &SessionId) -> Result<Option<Turn>> {
        self.recovery.recover(ctx, session)?;
        if self.store.read(ctx, |r| r.prompts().waiting(session))?.is_empty() {
            return Ok(None);
        }
        let ctx = &self.branches.branch_at_head(ctx, session)?;
        loop {
            let waiting = self.store.read(ctx, |r| r.prompts().waiting(session))?;
            let steer = waiting.iter().find(|one| one.delivery == PromptDelivery::Steer);
            let Some(next) = steer.or(waiting.first()).cloned() else {
                return Ok(None);
            };
            let found = self.store.read(ctx, |r| r.messages().get(session, &next.message));
            let found = match found {
                Ok(found) => Some(found),
                // It was hidden with the messages behind the head; the log has it.
                Err(StoreError::NoMessage { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            let begun = found.is_some();
            let id = self.id_generator.new_turn_id(ctx.now)?;
            let (name, turn) = (session.clone(), id.clone());
            let begin = move |tx: &Tx<'_>| {
                let taken = tx.prompts().promote(&name, next.delivery, None)?;
                if taken.as_ref() != Some(&next.message) {
                    return Err(StoreError::Busy(name.clone()));
                }
                if let Some(found) = &found {
                    let (message, parts) = (found.message.clone(), found.parts.clone());
                    tx.turns().begin(&NewTurn { id: turn.clone(), message, parts })?;
                    tx.turns().transition(&name, &turn, &TurnEvent::Started)?;
                }
                Ok(())
            };
            let turn = self.lifecycle.begin_leased(ctx, session, &id, begin)?;
            if begun {
                return Ok(Some(turn));
            }
            self.store.leases().release(ctx, &turn.lease)?;
        }
    }
}
