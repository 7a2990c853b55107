//! Ends of turns that could not be stored, because the disk was full or failed. The turn is over, and
//! its process lives, so no other process may end it: the process tries again (R45).

use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::id::{SessionId, TurnId};
use turnstone_store::StoreError;

use crate::error::{EngineError, Result};

/// Stores the end of a turn; called until it succeeds, or can never succeed.
type TurnEndWrite = Box<dyn FnMut() -> Result<()> + Send>;

struct PendingTurnEnd {
    session: SessionId,
    turn: TurnId,
    store_end: TurnEndWrite,
}

/// The ends of turns of this process that are still to be stored.
#[derive(Clone, Default)]
pub(crate) struct PendingTurnEnds {
    waiting: Arc<Mutex<Vec<PendingTurnEnd>>>,
}

impl PendingTurnEnds {
    /// Keeps an end that could not be stored; a later one of the same turn replaces it.
    pub(crate) fn push(
        &self,
        session: &SessionId,
        turn: &TurnId,
        store_end: impl FnMut() -> Result<()> + Send + 'static,
    ) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|end| end.turn != *turn);
        let (session, turn) = (session.clone(), turn.clone());
        waiting.push(PendingTurnEnd { session, turn, store_end: Box::new(store_end) });
    }

    /// Stores the ends that wait; returns the turns that are over now.
    pub(crate) fn store_all_ends(&self) -> Vec<TurnId> {
        self.store_matching(|_| true)
    }

    /// The same for one session.
    pub(crate) fn store_ends_of(&self, session: &SessionId) -> Vec<TurnId> {
        self.store_matching(|end| end.session == *session)
    }

    fn store_matching(&self, wanted: impl Fn(&PendingTurnEnd) -> bool) -> Vec<TurnId> {
        // Nothing is locked while the database works: a second thread finds the rest.
        let taken: Vec<PendingTurnEnd> = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let (taken, left) = waiting.drain(..).partition(|end| wanted(end));
            *waiting = left;
            taken
        };
        let mut stored = Vec::new();
        for mut end in taken {
            match (end.store_end)() {
                Ok(()) => stored.push(end.turn),
                Err(error) if is_temporary(&error) => {
                    self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(end);
                }
                // Another process has the session, or it was deleted: the turn has ended there.
                Err(error) => tracing::info!("turn {} needs no end: {error}", end.turn),
            }
        }
        stored
    }
}

/// True if a write may succeed later without being changed.
pub(crate) fn is_temporary(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Store(
            StoreError::Full { .. } | StoreError::Poisoned { .. } | StoreError::Locked { .. }
        )
    )
}
