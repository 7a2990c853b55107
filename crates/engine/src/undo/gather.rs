//! Gathering: which turns, which change sets, who else claims their paths. Everything is read
//! before anything is decided.

use std::collections::BTreeSet;

use turnstone_core::change::{Direction, Root};
use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_core::model::Todo;
use turnstone_core::operation::{Extent, Head, HeadMove, OperationKind};
use turnstone_core::path::RelPath;
use turnstone_core::permission::Rule;
use turnstone_core::revert::todos_after;
use turnstone_core::time::Cursor;
use turnstone_store::{ChangeRow, Context, OperationRow, Reader, StoreError, TurnRow};

use super::words::{Scope, Switch, UndoOptions, Which};
use super::written::{also_of, is_idle, turns_of};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::line::Line;

/// A change set, how much of it is taken back, and how much is to be.
pub(crate) struct Held {
    pub(crate) row: ChangeRow,
    /// The turn of the session it belongs to: its own, or the one that began its session.
    pub(crate) turn: TurnId,
    pub(crate) taken: Extent,
    pub(crate) wanted: Extent,
}

/// What an operation is about.
pub(crate) struct Gathered {
    pub(crate) kind: OperationKind,
    pub(crate) turns: Vec<TurnId>,
    /// Turns of other sessions.
    pub(crate) also: Vec<(SessionId, TurnId)>,
    /// Closed change sets of the turns and of the sessions they began, oldest first.
    pub(crate) changes: Vec<Held>,
    pub(crate) head: HeadMove,
    pub(crate) aside: Aside,
}

/// What else follows the session.
#[derive(Default)]
pub(crate) struct Aside {
    pub(crate) todos: Option<Vec<Todo>>,
    pub(crate) withdrawn: Vec<Rule>,
    pub(crate) switch: Option<Switch>,
    pub(crate) not_covered: Vec<(Root, RelPath, String)>,
}

impl Engine {
    /// Reads what the turns to be taken back did.
    pub(super) fn gather_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        options: &UndoOptions,
    ) -> Result<Gathered> {
        let scope = options.scope;
        let line = self.store.read(ctx, |r| Line::read(r, session))?;
        let visible = line.before_head();
        let mut chosen = choose(&line, session, which, || {
            Ok(visible.last().copied().into_iter().collect::<Vec<_>>())
        })?;
        if chosen.is_empty() {
            return Err(EngineError::NothingToUndo(session.clone()));
        }
        let also = join(session, &line.turns, &mut chosen, &options.also)?;
        let first = chosen[0];
        // The conversation has one head: it moves back only if nothing visible stays behind it.
        let behind = visible.iter().filter(|turn| turn.span.0 > first.span.0);
        let is_tail = behind.clone().all(|turn| chosen.iter().any(|one| one.id == turn.id));
        let is_visible = visible.iter().any(|turn| turn.id == first.id);
        let is_whole = !matches!(which, Which::Message(_) | Which::Part(_));
        let head = match scope {
            Scope::Both | Scope::Conversation if is_tail && is_visible && is_whole => {
                HeadMove::To(Head { message: first.message.clone(), part: None })
            }
            Scope::Both | Scope::Conversation | Scope::Files => HeadMove::Stay,
        };
        let mut changes = self.changes_in(ctx, session, &chosen, &also, scope)?;
        changes.retain(|held| is_of(&line, which, &held.row));
        for held in &mut changes {
            held.wanted = Extent::All;
        }
        let aside = match scope {
            Scope::Both | Scope::Conversation if is_whole => {
                self.aside(ctx, session, &chosen, Direction::Back)?
            }
            Scope::Both | Scope::Conversation | Scope::Files => Aside::default(),
        };
        let turns = chosen.iter().map(|turn| turn.id.clone()).collect();
        Ok(Gathered { kind: OperationKind::Undo, turns, also, changes, head, aside })
    }

    /// Reads what the newest undo that still holds took back.
    pub(super) fn gather_redo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &Which,
        options: &UndoOptions,
    ) -> Result<Gathered> {
        let scope = options.scope;
        let (line, operations) =
            self.store.read(ctx, |r| Ok((Line::read(r, session)?, r.operations(session)?)))?;
        let mut chosen = choose(&line, session, which, || last_undone(&line, &operations))?;
        if chosen.is_empty() {
            return Err(EngineError::NothingToRedo(session.clone()));
        }
        let wanted = match options.also.as_slice() {
            [] => taken_along(&operations, &chosen)?,
            also => also.to_vec(),
        };
        let also = join(session, &line.turns, &mut chosen, &wanted)?;
        let mut changes = self.changes_in(ctx, session, &chosen, &also, scope)?;
        // What a branch has hidden is reached by a jump, not by a redo.
        changes.retain(|held| is_of(&line, which, &held.row) && line.shows(session, &held.row));
        for held in &mut changes {
            held.wanted = Extent::Nothing;
        }
        // The first turn behind the head that is not brought back stays taken back.
        let hidden = line.behind_head();
        let is_chosen = |turn: &&&TurnRow| chosen.iter().any(|one| one.id == turn.id);
        let next = hidden.iter().find(|turn| !is_chosen(turn));
        let is_whole = !matches!(which, Which::Message(_) | Which::Part(_));
        let brought = is_whole && hidden.iter().any(|turn| is_chosen(&turn));
        let head = match (scope, brought, next) {
            (Scope::Files, ..) | (_, false, _) => HeadMove::Stay,
            (_, true, None) => HeadMove::Tip,
            (_, true, Some(next)) => {
                HeadMove::To(Head { message: next.message.clone(), part: None })
            }
        };
        let aside = match head {
            HeadMove::Stay => Aside::default(),
            HeadMove::Tip | HeadMove::To(_) => {
                self.aside(ctx, session, &chosen, Direction::Forth)?
            }
        };
        let turns = chosen.iter().map(|turn| turn.id.clone()).collect();
        Ok(Gathered { kind: OperationKind::Redo, turns, also, changes, head, aside })
    }

    /// To-dos and grants of turns that are taken back or brought back (R20).
    fn aside(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
        direction: Direction,
    ) -> Result<Aside> {
        let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
            return Ok(Aside::default());
        };
        let (from, to) = (first.span.0, last.span.1);
        match direction {
            Direction::Back => {
                let mut aside = self.aside_to(ctx, session, from, to)?;
                aside.withdrawn = self.granted_in(ctx, session, turns)?;
                Ok(aside)
            }
            Direction::Forth => self.aside_to(ctx, session, to, from),
        }
    }

    /// The to-dos, for a session that goes from one place in the log to another.
    pub(crate) fn aside_to(
        &self,
        ctx: &Context,
        session: &SessionId,
        there: Cursor,
        here: Cursor,
    ) -> Result<Aside> {
        let (there, here, now) = self.store.read(ctx, |r| {
            Ok((r.todos_at(session, there)?, r.todos_at(session, here)?, r.todos(session)?))
        })?;
        let todos = todos_after(&there, &here, &now).map(<[Todo]>::to_vec);
        Ok(Aside { todos, ..Aside::default() })
    }

    /// The grants that were given while turns ran, by them or by sessions they began, and still
    /// stand; what other sessions were granted meanwhile is theirs (R20).
    pub(crate) fn granted_in(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
    ) -> Result<Vec<Rule>> {
        Ok(self.store.read(ctx, |r| {
            let project = r.get_session(session)?.project;
            let mut sessions = descendants(r, session)?;
            sessions.push(session.clone());
            let mut found = Vec::new();
            for turn in turns {
                found.extend(r.granted_between(&project, &sessions, turn.span)?);
            }
            Ok(found)
        })?)
    }

    /// The change sets of turns and of those of other sessions that go with them.
    fn changes_in(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
        also: &[(SessionId, TurnId)],
        scope: Scope,
    ) -> Result<Vec<Held>> {
        if scope == Scope::Conversation {
            return Ok(Vec::new());
        }
        let mut all = self.changes_of(ctx, session, turns)?;
        for (other, turn) in also {
            let theirs = self.store.read(ctx, |r| r.turns(other))?;
            let turn = find(&theirs, other, turn)?;
            if turn.state.is_open() {
                return Err(StoreError::Busy(other.clone()).into());
            }
            let more = self.changes_of(ctx, other, &[turn])?;
            let known: BTreeSet<ChangeId> =
                all.iter().map(|held| held.row.set.id.clone()).collect();
            all.extend(more.into_iter().filter(|held| !known.contains(&held.row.set.id)));
        }
        all.sort_by_key(|held| held.row.closed);
        Ok(all)
    }

    /// The change sets of turns, and of the sessions that were begun while they ran; each is
    /// wanted as it is.
    pub(crate) fn changes_of(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
    ) -> Result<Vec<Held>> {
        let held = self.store.read(ctx, |r| {
            let mut rows = Vec::new();
            for turn in turns {
                let own = r.turn_changes(session, &turn.id)?;
                rows.extend(own.into_iter().map(|row| (turn.id.clone(), row)));
            }
            for child in descendants(r, session)? {
                for row in r.changes(&child)? {
                    let around = turns.iter().find(|turn| contains(turn, &row));
                    rows.extend(around.map(|turn| (turn.id.clone(), row)));
                }
            }
            rows.retain(|(_, row)| row.closed.is_some());
            rows.sort_by_key(|(_, row)| row.closed);
            let held = |(turn, row): (TurnId, ChangeRow)| {
                let taken = r.taken(&row.set.id)?;
                Ok(Held { wanted: taken.clone(), taken, turn, row })
            };
            rows.into_iter().map(held).collect::<turnstone_store::Result<Vec<_>>>()
        })?;
        Ok(held)
    }
}

/// The turns that are meant, oldest first.
fn choose<'l>(
    line: &'l Line,
    session: &SessionId,
    which: &Which,
    last: impl FnOnce() -> Result<Vec<&'l TurnRow>>,
) -> Result<Vec<&'l TurnRow>> {
    Ok(match which {
        Which::Last => last()?,
        Which::Turn(id) => vec![find(&line.turns, session, id)?],
        Which::From(id) => {
            let from = find(&line.turns, session, id)?.span.0;
            line.turns.iter().filter(|turn| turn.span.0 >= from).collect()
        }
        Which::Message(message) => {
            let at = line.spot(Some(&Head { message: message.clone(), part: None }));
            line.turn_at(at).into_iter().collect()
        }
        Which::Part(part) => line.part(part).and_then(|at| line.turn_at(at)).into_iter().collect(),
    })
}

/// Tells whether a change set is among what is meant, given that its turn is.
fn is_of(line: &Line, which: &Which, row: &ChangeRow) -> bool {
    let part = row.set.part.as_ref();
    match which {
        Which::Last | Which::Turn(_) | Which::From(_) => true,
        Which::Part(wanted) => part == Some(wanted),
        Which::Message(message) => {
            let begins_turn = line.turns.iter().any(|turn| turn.message == *message);
            begins_turn || part.is_some_and(|part| line.message_of(part) == Some(message))
        }
    }
}

/// A turn by its id.
fn find<'t>(turns: &'t [TurnRow], session: &SessionId, id: &TurnId) -> Result<&'t TurnRow> {
    let missing = || EngineError::NoTurn { session: session.clone(), turn: id.clone() };
    turns.iter().find(|turn| turn.id == *id).ok_or_else(missing)
}

/// Adds further turns to the chosen ones; returns those of other sessions.
fn join<'t>(
    session: &SessionId,
    turns: &'t [TurnRow],
    chosen: &mut Vec<&'t TurnRow>,
    also: &[(SessionId, TurnId)],
) -> Result<Vec<(SessionId, TurnId)>> {
    let (own, others): (Vec<_>, Vec<_>) =
        also.iter().cloned().partition(|(other, _)| other == session);
    for (_, id) in own {
        if !chosen.iter().any(|turn| turn.id == id) {
            chosen.push(find(turns, session, &id)?);
        }
    }
    chosen.sort_by_key(|turn| turn.span.0);
    Ok(others)
}

/// The turns of other sessions that the newest undo of these turns took along.
fn taken_along(
    operations: &[OperationRow],
    chosen: &[&TurnRow],
) -> Result<Vec<(SessionId, TurnId)>> {
    for operation in operations.iter().rev().filter(|it| it.kind == OperationKind::Undo) {
        let turns = turns_of(operation)?;
        if chosen.iter().any(|one| turns.contains(&one.id)) {
            return also_of(operation);
        }
    }
    Ok(Vec::new())
}

/// The turns of the newest undo that no redo has brought back.
fn last_undone<'t>(line: &'t Line, operations: &[OperationRow]) -> Result<Vec<&'t TurnRow>> {
    let mut standing: Vec<Vec<TurnId>> = Vec::new();
    for operation in operations.iter().filter(|operation| operation.done.is_some()) {
        if is_idle(operation)? {
            continue;
        }
        match operation.kind {
            OperationKind::Undo => standing.push(turns_of(operation)?),
            OperationKind::Redo => {
                let back = turns_of(operation)?;
                for undone in &mut standing {
                    undone.retain(|turn| !back.contains(turn));
                }
            }
            // What was behind the head is hidden, or the session stands elsewhere: what was taken
            // back before is no longer what comes next.
            OperationKind::Branch | OperationKind::Jump => standing.clear(),
            OperationKind::Checkpoint | OperationKind::Expire | OperationKind::Forget => {}
        }
    }
    let last = standing.into_iter().rev().find(|undone| !undone.is_empty()).unwrap_or_default();
    let found: Vec<&TurnRow> = line.turns.iter().filter(|turn| last.contains(&turn.id)).collect();
    // A head that was set without an undo: the first turn behind it.
    Ok(match found.is_empty() {
        true => line.behind_head().into_iter().take(1).collect(),
        false => found,
    })
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
