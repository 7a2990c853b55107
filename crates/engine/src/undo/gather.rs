//! Gathering: which turns, which change sets, who else claims their paths. Everything is read
//! before anything is decided.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::{Claim, Root, find_contended};
use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_core::operation::{Extent, Head, HeadMove, OperationKind};
use turnstone_core::path::RelPath;
use turnstone_core::time::Cursor;
use turnstone_store::{ChangeRow, Context, OperationRow, Reader, StoreError, TurnRow};

use super::words::{Claimant, Contended, Scope, Which};
use crate::engine::Engine;
use crate::error::{EngineError, Result};

/// A change set and how much of it is taken back.
pub(super) struct Held {
    pub(super) row: ChangeRow,
    pub(super) taken: Extent,
}

/// What an undo or a redo is about.
pub(super) struct Gathered {
    pub(super) turns: Vec<TurnId>,
    /// Closed change sets of the turns and of the sessions they began, oldest first.
    pub(super) changes: Vec<Held>,
    pub(super) head: HeadMove,
}

impl Engine {
    /// Reads what the turns to be taken back did.
    pub(super) fn gather_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        scope: Scope,
    ) -> Result<Gathered> {
        let (turns, head) = self.store.read(ctx, |r| Ok((r.turns(session)?, r.head(session)?)))?;
        let visible = visible(&turns, head.as_ref());
        let chosen: Vec<&TurnRow> = match which {
            Which::Last => visible.last().copied().into_iter().collect(),
            Which::Turn(id) => vec![find(&turns, session, id)?],
            Which::From(id) => {
                let from = find(&turns, session, id)?.span.0;
                turns.iter().filter(|turn| turn.span.0 >= from).collect()
            }
        };
        if chosen.is_empty() {
            return Err(EngineError::NothingToUndo(session.clone()));
        }
        // The conversation has one head: it moves back only if nothing visible stays behind it.
        let first = chosen[0];
        let behind = visible.iter().filter(|turn| turn.span.0 > first.span.0);
        let is_tail = behind.clone().all(|turn| chosen.iter().any(|one| one.id == turn.id));
        let is_visible = visible.iter().any(|turn| turn.id == first.id);
        let head = match scope {
            Scope::Both | Scope::Conversation if is_tail && is_visible => {
                HeadMove::To(Head { message: first.message.clone(), part: None })
            }
            Scope::Both | Scope::Conversation | Scope::Files => HeadMove::Stay,
        };
        let changes = match scope {
            Scope::Conversation => Vec::new(),
            Scope::Both | Scope::Files => self.changes_of(ctx, session, &chosen)?,
        };
        Ok(Gathered { turns: chosen.iter().map(|turn| turn.id.clone()).collect(), changes, head })
    }

    /// Reads what the newest undo that still holds took back.
    pub(super) fn gather_redo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        scope: Scope,
    ) -> Result<Gathered> {
        let (turns, operations, head) = self
            .store
            .read(ctx, |r| Ok((r.turns(session)?, r.operations(session)?, r.head(session)?)))?;
        let chosen: Vec<&TurnRow> = match which {
            Which::Last => match last_undone(&turns, &operations, head.as_ref()) {
                found if found.is_empty() => {
                    return Err(EngineError::NothingToRedo(session.clone()));
                }
                found => found,
            },
            Which::Turn(id) => vec![find(&turns, session, id)?],
            Which::From(id) => {
                let from = find(&turns, session, id)?.span.0;
                turns.iter().filter(|turn| turn.span.0 >= from).collect()
            }
        };
        let changes = match scope {
            Scope::Conversation => Vec::new(),
            Scope::Both | Scope::Files => self.changes_of(ctx, session, &chosen)?,
        };
        // The first turn behind the head that is not brought back stays taken back.
        let hidden = hidden(&turns, head.as_ref());
        let next = hidden.iter().find(|turn| !chosen.iter().any(|one| one.id == turn.id));
        let brought = hidden.iter().any(|turn| chosen.iter().any(|one| one.id == turn.id));
        let head = match (scope, brought, next) {
            (Scope::Files, ..) | (_, false, _) => HeadMove::Stay,
            (_, true, None) => HeadMove::Tip,
            (_, true, Some(next)) => {
                HeadMove::To(Head { message: next.message.clone(), part: None })
            }
        };
        Ok(Gathered { turns: chosen.iter().map(|turn| turn.id.clone()).collect(), changes, head })
    }

    /// The change sets of turns, and of the sessions that were begun while they ran.
    pub(super) fn changes_of(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
    ) -> Result<Vec<Held>> {
        let held = self.store.read(ctx, |r| {
            let mut rows = Vec::new();
            for turn in turns {
                rows.extend(r.turn_changes(session, &turn.id)?);
            }
            for child in descendants(r, session)? {
                let inside = |row: &ChangeRow| turns.iter().any(|turn| contains(turn, row));
                rows.extend(r.changes(&child)?.into_iter().filter(inside));
            }
            rows.retain(|row| row.closed.is_some());
            rows.sort_by_key(|row| row.closed);
            let held = |row: ChangeRow| Ok(Held { taken: r.taken(&row.set.id)?, row });
            rows.into_iter().map(held).collect::<turnstone_store::Result<Vec<_>>>()
        })?;
        Ok(held)
    }

    /// Finds the paths that change sets outside of `changes` claim as well (R3).
    pub(super) fn contended(&self, ctx: &Context, changes: &[Held]) -> Result<Vec<Contended>> {
        let mut by_root: BTreeMap<&Root, Vec<&ChangeRow>> = BTreeMap::new();
        for held in changes {
            by_root.entry(&held.row.set.root).or_default().push(&held.row);
        }
        let mut found = Vec::new();
        for (root, rows) in by_root {
            let from = rows.iter().map(|row| row.opened).min().unwrap_or(Cursor(0));
            let to = rows.iter().filter_map(|row| row.closed).max().unwrap_or(from);
            let all = self.store.read(ctx, |r| r.changes_between(&root.store, from, to))?;
            let undone: BTreeSet<ChangeId> = rows.iter().map(|row| row.set.id.clone()).collect();
            let claims: Vec<Claim> = all.iter().filter_map(claim).collect();
            let mut shared = find_contended(&undone, &claims);
            let mut meanwhile = self.written_meanwhile(ctx, root, &rows)?;
            for path in meanwhile.keys() {
                shared.entry(path.clone()).or_default();
            }
            for (path, claimants) in shared {
                found.push(Contended {
                    root: root.clone(),
                    operations: meanwhile.remove(&path).unwrap_or_default(),
                    path,
                    claimants: named(&all, &claimants),
                });
            }
        }
        Ok(found)
    }
}

/// A turn by its id.
fn find<'t>(turns: &'t [TurnRow], session: &SessionId, id: &TurnId) -> Result<&'t TurnRow> {
    let missing = || EngineError::NoTurn { session: session.clone(), turn: id.clone() };
    turns.iter().find(|turn| turn.id == *id).ok_or_else(missing)
}

/// The turns before the head; those a branch has hidden are nowhere.
fn visible<'t>(turns: &'t [TurnRow], head: Option<&Head>) -> Vec<&'t TurnRow> {
    let before = |turn: &&TurnRow| head.is_none_or(|head| head.message != turn.message);
    turns.iter().filter(|turn| !turn.hidden).take_while(before).collect()
}

/// The turns from the head on.
fn hidden<'t>(turns: &'t [TurnRow], head: Option<&Head>) -> Vec<&'t TurnRow> {
    let shown = visible(turns, head).len();
    turns.iter().filter(|turn| !turn.hidden).skip(shown).collect()
}

/// The turns of the newest undo that no redo has brought back.
fn last_undone<'t>(
    turns: &'t [TurnRow],
    operations: &[OperationRow],
    head: Option<&Head>,
) -> Vec<&'t TurnRow> {
    let ids = |operation: &OperationRow| -> Vec<TurnId> {
        let turns = operation.plan.get("turns").cloned().unwrap_or_default();
        serde_json::from_value(turns).unwrap_or_default()
    };
    let mut standing: Vec<Vec<TurnId>> = Vec::new();
    for operation in operations.iter().filter(|operation| operation.done.is_some()) {
        match operation.kind {
            OperationKind::Undo => standing.push(ids(operation)),
            OperationKind::Redo => {
                let back = ids(operation);
                for undone in &mut standing {
                    undone.retain(|turn| !back.contains(turn));
                }
            }
            // What was behind the head is hidden for good: a jump reaches it, a redo does not.
            OperationKind::Branch => standing.clear(),
            OperationKind::Jump
            | OperationKind::Checkpoint
            | OperationKind::Expire
            | OperationKind::Forget => {}
        }
    }
    let last = standing.into_iter().rev().find(|undone| !undone.is_empty()).unwrap_or_default();
    let found: Vec<&TurnRow> = turns.iter().filter(|turn| last.contains(&turn.id)).collect();
    // A head that was set without an undo: the first turn behind it.
    match found.is_empty() {
        true => hidden(turns, head).into_iter().take(1).collect(),
        false => found,
    }
}

/// Every session that was begun by this one, or by one of those.
fn descendants(
    reader: &Reader<'_>,
    session: &SessionId,
) -> turnstone_store::Result<Vec<SessionId>, StoreError> {
    let mut found = Vec::new();
    let mut ask = vec![session.clone()];
    while let Some(parent) = ask.pop() {
        for child in reader.children(&parent)? {
            if child.id != *session && !found.contains(&child.id) {
                found.push(child.id.clone());
                ask.push(child.id);
            }
        }
    }
    Ok(found)
}

fn contains(turn: &TurnRow, row: &ChangeRow) -> bool {
    let ended = turn.span.1;
    row.opened > turn.span.0 && (turn.state.is_open() || row.opened < ended)
}

fn claim(row: &ChangeRow) -> Option<Claim> {
    let paths: BTreeSet<RelPath> = row.set.changes.iter().map(|it| it.path.clone()).collect();
    Some(Claim {
        change: row.set.id.clone(),
        outer: row.set.outer.clone(),
        evidence: row.set.evidence,
        span: (row.opened.0, row.closed?.0),
        paths,
    })
}

fn named(rows: &[ChangeRow], claimants: &BTreeSet<ChangeId>) -> Vec<Claimant> {
    let claimant = |row: &ChangeRow| Claimant {
        change: row.set.id.clone(),
        session: row.set.session.clone(),
        turn: row.set.turn.clone(),
    };
    rows.iter().filter(|row| claimants.contains(&row.set.id)).map(claimant).collect()
}
