//! Leases of turns whose driver is outside of this process.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_store::{Context, LeaseTakeoverPolicy, StoreError};

use super::Turns;
use super::turn::Turn;
use crate::error::Result;

impl Turns {
    /// Takes the lease of a session to end its open turn; `None` while another living process holds it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn take_over_to_end(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<Turn>> {
        match self.store.leases().acquire(ctx, session, LeaseTakeoverPolicy::IfDead) {
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
    pub fn release(&self, ctx: &Context, turn: &Turn) -> Result<()> {
        match self.store.leases().release(ctx, &turn.lease) {
            Ok(_) | Err(StoreError::Fenced(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
