//! Recovery: ends what dead processes left running. One function, safe to run by several at once.

use turnstone_core::call_context::{Context, OwnerId};
use turnstone_core::id::TurnId;
use turnstone_core::turn::{RecoveryAction, TurnOutcome, TurnState};

use crate::error::Result;
use crate::lease_owner::is_alive;
use crate::mutation::{EndTurn, TurnEnder};
use crate::read::{ReadTx, parse_stored};
use crate::store::Store;
use crate::table_row_ids::SessionNum;

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnRecoveryReport {
    /// Turns that were running when their owner died; now interrupted.
    pub interrupted: Vec<TurnId>,
}

/// Ends the running turns of dead owners (R28, R45).
pub(crate) fn recover_turns(store: &Store, ctx: &Context) -> Result<TurnRecoveryReport> {
    fail::fail_point!("store::recover_turns");
    let open = store.read_without_recovery(ctx, |r| r.turns().running())?;
    let mut done = TurnRecoveryReport::default();
    for (session, turn, owner) in open {
        let alive = match &owner {
            Some(owner) => is_alive(store.layout(), owner, ctx.now)?,
            None => false,
        };
        if TurnState::Running.recovery_action(alive) == RecoveryAction::Keep {
            continue;
        }
        let turn: TurnId = parse_stored(turn)?;
        if interrupt_turn(store, ctx, session, &turn, owner)? {
            done.interrupted.push(turn);
        }
    }
    Ok(done)
}

/// Tells whether a reader would meet a running turn whose owner is dead (R45).
///
/// Costs one look at an index while nothing runs, and a look at a lock for each other process that
/// runs a turn. What cannot be found out is left to recovery, which says why.
pub(crate) fn has_dead_turns(store: &Store, ctx: &Context, reader: &ReadTx<'_>) -> bool {
    // Who may not write cannot end a turn either.
    let Some(own) = store.current_owner().map(|owner| &owner.id) else { return false };
    let Ok(running) = reader.turns().running() else { return false };
    let mut owners: Vec<_> = running.into_iter().map(|(_, _, owner)| owner).collect();
    owners.dedup();
    let is_dead = |owner: &Option<OwnerId>| match owner {
        Some(owner) if owner == own => false,
        Some(owner) => matches!(is_alive(store.layout(), owner, ctx.now), Ok(false)),
        None => true,
    };
    owners.iter().any(is_dead)
}

/// Ends the running turns of dead owners for somebody who came to read, and can do so in any case.
pub(crate) fn end_dead_turns(store: &Store, ctx: &Context) {
    if let Err(error) = recover_turns(store, &Context::system(ctx.now)) {
        tracing::warn!("a turn of a dead process could not be ended: {error}");
    }
}

/// Ends one turn, unless somebody took the session over since we looked.
fn interrupt_turn(
    store: &Store,
    ctx: &Context,
    session: SessionNum,
    turn: &TurnId,
    owner: Option<OwnerId>,
) -> Result<bool> {
    let turn = turn.clone();
    store
        .write(ctx, move |tx| {
            let (holder, _) = tx.leases().holder(session)?;
            let state = tx.turns().find_state(&turn)?;
            if holder != owner || state != Some(TurnState::Running) {
                return Ok(false);
            }
            tx.leases().set_holder(session, None)?;
            let session = tx.session_id(session)?;
            let end = EndTurn {
                session,
                turn: turn.clone(),
                outcome: TurnOutcome::Interrupted,
                error: None,
            };
            tx.turns().end_by(&end, TurnEnder::Recovery)?;
            Ok(true)
        })
        .wait()
}
