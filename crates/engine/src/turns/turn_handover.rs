//! Leases of turns whose driver is outside of this process, and the records of requests that run once.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_store::{Context, LeaseTakeover, StoreError};

use super::turn::Turn;
use crate::engine::Engine;
use crate::error::Result;

impl Engine {
    /// Takes the lease of a session to end its open turn; `None` while another living process holds it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn claim_turn(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<Turn>> {
        match self.store.acquire_lease(ctx, session, LeaseTakeover::IfDead) {
            Ok(lease) => Ok(Some(Turn { session: session.clone(), id: turn.clone(), lease })),
            Err(StoreError::Busy(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives up a turn that waits for an answer, so that another driver can resume it.
    ///
    /// # Errors
    ///
    /// Only what the database refuses; a lease that another process took over is no error.
    pub fn release_turn(&self, ctx: &Context, turn: &Turn) -> Result<()> {
        match self.store.release_lease(ctx, &turn.lease) {
            Ok(_) | Err(StoreError::Fenced(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.recover_all(ctx).map(drop)
    }

    /// Removes a copy that an interrupted fork left behind.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`]; [`StoreError::Invalid`] if the copy is complete.
    pub fn discard_partial_fork(&self, ctx: &Context, copy: &SessionId) -> Result<()> {
        let found = self.store.read(ctx, |r| r.sessions().get(copy))?;
        if found.origin.is_some() {
            return Err(StoreError::Invalid(format!("{copy} is a complete fork")).into());
        }
        self.store.delete_session(&ctx.without_preconditions(), copy)?;
        Ok(())
    }

    /// Stores the response of a request under the idempotency key of `ctx`; the first one counts (R43).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn record_response(&self, ctx: &Context, response: String) -> Result<()> {
        Ok(self.store.store_answer(ctx, response)?)
    }
}
