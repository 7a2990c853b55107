//! Recovery: finishes what a process that died left open. Safe to run by several at once (R45).

use turnstone_core::id::{ChangeId, OperationId, SessionId, TurnId};
use turnstone_store::Context;

use crate::error::{EngineError, Result};
use crate::maintenance::scheduled_maintenance::Maintenance;

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Turns whose process died.
    pub interrupted: Vec<TurnId>,
    /// Calls that were never closed; their changes are recorded now.
    pub closed: Vec<ChangeId>,
    /// Change sets of processes that had outlived their commands and have ended; their changes are recorded now.
    pub continued: Vec<ChangeId>,
    /// Operations that were cut off and are finished.
    pub finished: Vec<OperationId>,
    /// Calls whose changes cannot be recorded until there is space on the disk.
    pub pending: Vec<ChangeId>,
    /// Copies of sessions that were cut off and are gone.
    pub removed: Vec<SessionId>,
}

impl Maintenance {
    /// Finishes what dead processes left, in every session: the one recovery there is (R45). Run by
    /// several at once, or again, it does everything once.
    ///
    /// # Errors
    ///
    /// The database or a snapshot store refused; run it again.
    pub fn recover_all(&self, ctx: &Context) -> Result<RecoveryReport> {
        let ctx = &ctx.without_preconditions();
        // Turns of this process that are over; the disk was full when they ended.
        self.recovery.turn_ends.store_all_ends();
        let mut done = RecoveryReport {
            interrupted: self.store.recover_turns(ctx)?.interrupted,
            ..RecoveryReport::default()
        };
        for row in self.store.read(ctx, |r| r.change_sets().list_open(None))? {
            match self.recovery.close_orphaned_change(ctx, &row) {
                // What still runs cannot be compared; the next user of that session gets the error.
                Err(EngineError::ProcessGroup(_)) => {}
                // The next recovery tries again.
                Err(error) if error.is_full() => done.pending.push(row.set.id.clone()),
                closed if row.continues.is_some() => done.continued.extend(closed?),
                closed => done.closed.extend(closed?),
            }
        }
        for session in self.store.read(ctx, |r| r.operations().sessions_in_operation())? {
            done.finished.extend(self.operations.finish_interrupted(ctx, &session)?);
        }
        done.finished.extend(self.eviction.finish_interrupted(ctx)?);
        self.path_eraser.finish_interrupted(ctx)?;
        done.removed = self.copies.remove_abandoned(ctx)?;
        Ok(done)
    }

    /// Stores the ends of turns of this process that could not be stored, because the disk was full; costs
    /// nothing if there are none. What still does not fit is tried again by the next call.
    pub fn store_pending_turn_ends(&self) {
        self.recovery.turn_ends.store_all_ends();
    }

    /// Finishes what dead processes left in one session, before it is read; costs one look if there
    /// is nothing to do (R45).
    ///
    /// # Errors
    ///
    /// As [`Self::recover_all`].
    pub fn ensure_recovered(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        self.recovery.ensure_recovered(ctx, session)
    }
}
