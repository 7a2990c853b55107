//! Recovery: ends what dead processes left running. One function, safe to run by several at once.

use turnstone_core::id::TurnId;
use turnstone_core::turn::{Outcome, Recovery, TurnState};

use crate::context::{Context, Lease};
use crate::error::Result;
use crate::mutate::{EndTurn, Hand};
use crate::owner::is_alive;
use crate::read::parse_stored;
use crate::store::Store;

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Turns that were running when their owner died; now interrupted.
    pub interrupted: Vec<TurnId>,
}

/// Ends the running turns of dead owners (R28, R45).
pub(crate) fn recover(store: &Store, ctx: &Context) -> Result<Recovered> {
    let open = store.read(ctx, |r| r.running_turns())?;
    let mut done = Recovered::default();
    for (session, turn, owner) in open {
        let alive = match &owner {
            Some(owner) => is_alive(store.layout(), owner, ctx.now)?,
            None => false,
        };
        if TurnState::Running.recovery(alive) == Recovery::Leave {
            continue;
        }
        let turn: TurnId = parse_stored(turn)?;
        if interrupt(store, ctx, session, &turn, owner)? {
            done.interrupted.push(turn);
        }
    }
    Ok(done)
}

/// Ends one turn, unless somebody took the session over since we looked.
fn interrupt(
    store: &Store,
    ctx: &Context,
    session: i64,
    turn: &TurnId,
    owner: Option<crate::context::OwnerId>,
) -> Result<bool> {
    let turn = turn.clone();
    store
        .write(ctx, move |tx| {
            let (holder, _) = tx.holder(session)?;
            let state = tx.turn_state_of(&turn)?;
            if holder != owner || state != Some(TurnState::Running) {
                return Ok(false);
            }
            tx.set_holder(session, None)?;
            let session = tx.session_id(session)?;
            let end =
                EndTurn { session, turn: turn.clone(), outcome: Outcome::Interrupted, error: None };
            tx.end_turn_by(&end, Hand::Recovery)?;
            Ok(true)
        })
        .wait()
}

impl Store {
    /// Gives a lease back after a turn.
    ///
    /// # Errors
    ///
    /// Only what the database refuses; false if the lease was lost before or a turn needs it.
    pub fn release(&self, ctx: &Context, lease: &Lease) -> Result<bool> {
        let lease = lease.clone();
        self.write(ctx, move |tx| tx.give_back(&lease)).wait()
    }
}
