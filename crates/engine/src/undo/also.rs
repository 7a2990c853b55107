//! Turns that go with others: whoever claims the same paths is taken back in the same step (R3).

use std::collections::BTreeSet;

use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_store::{Context, OperationRow, StoreError};

use super::gather::Gathered;
use super::words::{Scope, UndoOptions};
use crate::engine::Engine;
use crate::error::{EngineError, Result};

/// A turn and its session.
type Named = (SessionId, TurnId);

impl Engine {
    /// Adds the turns of the options to an undo; returns those of other sessions.
    pub(super) fn take_along(
        &self,
        ctx: &Context,
        session: &SessionId,
        gathered: &mut Gathered,
        options: &UndoOptions,
    ) -> Result<Vec<Named>> {
        self.add_turns(ctx, session, gathered, files(options, &options.also))
    }

    /// Adds to a redo the turns that are named, or else those that were taken along.
    pub(super) fn bring_along(
        &self,
        ctx: &Context,
        session: &SessionId,
        gathered: &mut Gathered,
        options: &UndoOptions,
    ) -> Result<Vec<Named>> {
        if !options.also.is_empty() {
            return self.add_turns(ctx, session, gathered, files(options, &options.also));
        }
        let operations = self.store.read(ctx, |r| r.operations(session))?;
        let also = taken_along(&operations, &gathered.turns)?;
        self.add_turns(ctx, session, gathered, files(options, &also))
    }

    /// Files only: the conversations of those turns stay where they are.
    fn add_turns(
        &self,
        ctx: &Context,
        session: &SessionId,
        gathered: &mut Gathered,
        also: &[Named],
    ) -> Result<Vec<Named>> {
        let mut others = Vec::new();
        for (owner, id) in also {
            if owner == session && gathered.turns.contains(id) {
                continue;
            }
            let turns = self.store.read(ctx, |r| r.turns(owner))?;
            let missing = || EngineError::NoTurn { session: owner.clone(), turn: id.clone() };
            let turn = turns.iter().find(|turn| turn.id == *id).ok_or_else(missing)?;
            if turn.state.is_open() {
                return Err(StoreError::Busy(owner.clone()).into());
            }
            let known: BTreeSet<ChangeId> =
                gathered.changes.iter().map(|held| held.row.set.id.clone()).collect();
            let more = self.changes_of(ctx, owner, &[turn])?.into_iter();
            gathered.changes.extend(more.filter(|held| !known.contains(&held.row.set.id)));
            match owner == session {
                true => gathered.turns.push(id.clone()),
                false => others.push((owner.clone(), id.clone())),
            }
        }
        gathered.changes.sort_by_key(|held| held.row.closed);
        Ok(others)
    }
}

/// Nobody goes along if files stay as they are.
const fn files<'a>(options: &UndoOptions, also: &'a [Named]) -> &'a [Named] {
    match options.scope {
        Scope::Both | Scope::Files => also,
        Scope::Conversation => &[],
    }
}

/// The turns of other sessions that the newest undo of these turns took along.
fn taken_along(operations: &[OperationRow], turns: &[TurnId]) -> Result<Vec<Named>> {
    for operation in operations.iter().rev().filter(|it| it.kind == OperationKind::Undo) {
        let read = |name: &str| operation.plan.get(name).cloned().unwrap_or_default();
        let of: Option<Vec<TurnId>> =
            serde_json::from_value(read("turns")).map_err(std::io::Error::from)?;
        if of.unwrap_or_default().iter().any(|turn| turns.contains(turn)) {
            let also: Option<Vec<Named>> =
                serde_json::from_value(read("also")).map_err(std::io::Error::from)?;
            return Ok(also.unwrap_or_default());
        }
    }
    Ok(Vec::new())
}
