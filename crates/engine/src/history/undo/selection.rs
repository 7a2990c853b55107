//! Gathering: which turns, which change sets, who else claims their paths. Everything is read
//! before anything is decided.

use std::collections::BTreeSet;
use std::sync::Arc;

use turnstone_core::change::{ChangeRoot, StepDirection};
use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_core::model::Todo;
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead, UndoExtent};
use turnstone_core::permission::PermissionRule;
use turnstone_core::rel_path::RelPath;
use turnstone_core::revert::merge_todos;
use turnstone_core::time::LogCursor;
use turnstone_store::{ChangeSetRow, Context, ReadTx, Store, StoreError, TurnRow};

use super::other_conversations::{ConversationFinder, OtherConversations};
use super::types::{TimelineSwitch, UndoAspect, UndoOptions, UndoTarget};
use crate::error::{EngineError, Result};
use crate::history::session_changes::SessionChanges;
use crate::history::timeline::Timeline;

/// A change set with how much of it is undone now, and how much should be.
pub(crate) struct ChangeSetUndoState {
    pub(crate) row: ChangeSetRow,
    /// The turn of the session it belongs to: its own, or the one that began its session.
    pub(crate) turn: TurnId,
    pub(crate) undone: UndoExtent,
    pub(crate) wanted: UndoExtent,
}

/// What an operation is about.
pub(crate) struct OperationSelection {
    pub(crate) kind: OperationKind,
    pub(crate) turns: Vec<TurnId>,
    /// Turns of other sessions.
    pub(crate) other_turns: Vec<(SessionId, TurnId)>,
    /// Closed change sets of the turns and of the sessions they began, oldest first.
    pub(crate) changes: Vec<ChangeSetUndoState>,
    pub(crate) head: HeadTarget,
    pub(crate) side_effects: SideEffects,
    pub(crate) conversations: OtherConversations,
}

/// What else follows the session.
#[derive(Default)]
pub(crate) struct SideEffects {
    pub(crate) todos: Option<Vec<Todo>>,
    pub(crate) withdrawn: Vec<PermissionRule>,
    pub(crate) switch: Option<TimelineSwitch>,
    pub(crate) not_covered: Vec<(ChangeRoot, RelPath, String)>,
    /// Files of imported turns outside of the directory of their session.
    pub(crate) outside: Vec<String>,
}

/// Selects the turns and change sets an operation is about.
#[derive(Clone)]
pub(crate) struct UndoSelection {
    pub(crate) store: Arc<Store>,
    pub(crate) changes: SessionChanges,
}

impl UndoSelection {
    /// Selects what an undo is about.
    pub(crate) fn select_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &UndoTarget,
        options: &UndoOptions,
    ) -> Result<OperationSelection> {
        let scope = options.scope;
        let line = self.store.read(ctx, |r| Timeline::read(r, session))?;
        let visible = line.before_head();
        let mut chosen = select_turns(&line, session, which, || {
            Ok(visible.last().copied().into_iter().collect::<Vec<_>>())
        })?;
        if chosen.is_empty() {
            return Err(EngineError::NothingToUndo(session.clone()));
        }
        let also = add_turns(session, &line.turns, &mut chosen, &options.other_turns)?;
        let is_whole = !matches!(which, UndoTarget::Message(_) | UndoTarget::Part(_));
        let finder = ConversationFinder { selection: self, ctx };
        let mut conversations = finder.find(StepDirection::Undo, &also, scope)?;
        let head = match scope {
            UndoAspect::Both | UndoAspect::Conversation if is_whole => {
                conversations.find_own_undo_head(&line, (session, &chosen), !also.is_empty())
            }
            UndoAspect::Both | UndoAspect::Conversation | UndoAspect::Files => HeadTarget::Stay,
        };
        let mut changes = self.select_change_sets(ctx, session, &chosen, &also, scope)?;
        changes.retain(|selected| is_selected(&line, which, &selected.row));
        for selected in &mut changes {
            selected.wanted = UndoExtent::All;
        }
        let mut side_effects = match scope {
            UndoAspect::Both | UndoAspect::Conversation if is_whole => {
                self.find_side_effects(ctx, session, &chosen, StepDirection::Undo)?
            }
            UndoAspect::Both | UndoAspect::Conversation | UndoAspect::Files => {
                SideEffects::default()
            }
        };
        if scope != UndoAspect::Conversation {
            let files = self.list_files_of_imported(ctx, session, &line, &chosen)?;
            side_effects.not_covered.extend(files.inside);
            side_effects.outside.extend(files.outside);
        }
        let turns = chosen.iter().map(|turn| turn.id.clone()).collect();
        Ok(OperationSelection {
            kind: OperationKind::Undo,
            turns,
            other_turns: also,
            changes,
            head,
            side_effects,
            conversations,
        })
    }

    /// To-dos of turns that are redone (R20).
    pub(super) fn redo_side_effects(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
    ) -> Result<SideEffects> {
        self.find_side_effects(ctx, session, turns, StepDirection::Redo)
    }

    /// To-dos and grants of turns that are undone or redone (R20).
    pub(super) fn find_side_effects(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
        direction: StepDirection,
    ) -> Result<SideEffects> {
        let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
            return Ok(SideEffects::default());
        };
        let (from, to) = (first.span.0, last.span.1);
        match direction {
            StepDirection::Undo => {
                let mut side_effects = self.side_effects_between(ctx, session, from, to)?;
                side_effects.withdrawn = self.grants_during(ctx, session, turns)?;
                Ok(side_effects)
            }
            StepDirection::Redo => self.side_effects_between(ctx, session, to, from),
        }
    }

    /// The to-dos, for a session that goes from one place in the log to another.
    pub(crate) fn side_effects_between(
        &self,
        ctx: &Context,
        session: &SessionId,
        there: LogCursor,
        here: LogCursor,
    ) -> Result<SideEffects> {
        let (there, here, now) = self.store.read(ctx, |r| {
            Ok((
                r.history().todos_at(session, there)?,
                r.history().todos_at(session, here)?,
                r.sessions().todos(session)?,
            ))
        })?;
        let todos = merge_todos(&there, &here, &now).map(<[Todo]>::to_vec);
        Ok(SideEffects { todos, ..SideEffects::default() })
    }

    /// The grants that were given while turns ran, by them or by sessions they began, and still
    /// hold; grants of other sessions stay (R20).
    pub(crate) fn grants_during(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
    ) -> Result<Vec<PermissionRule>> {
        Ok(self.store.read(ctx, |r| {
            let project = r.sessions().get(session)?.project;
            let mut sessions = list_descendants(r, session)?;
            sessions.push(session.clone());
            let mut found = Vec::new();
            for turn in turns {
                found.extend(r.history().rules_granted_between(&project, &sessions, turn.span)?);
            }
            Ok(found)
        })?)
    }

    /// The change sets of turns and of those of other sessions that go with them.
    pub(super) fn select_change_sets(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[&TurnRow],
        also: &[(SessionId, TurnId)],
        scope: UndoAspect,
    ) -> Result<Vec<ChangeSetUndoState>> {
        if scope == UndoAspect::Conversation {
            return Ok(Vec::new());
        }
        let mut all = self.changes.of_turns(ctx, session, turns)?;
        for (other, turn) in also {
            let theirs = self.store.read(ctx, |r| r.turns().list(other))?;
            let turn = find_turn(&theirs, other, turn)?;
            if turn.state.is_open() {
                return Err(StoreError::Busy(other.clone()).into());
            }
            let more = self.changes.of_turns(ctx, other, &[turn])?;
            let known: BTreeSet<ChangeId> =
                all.iter().map(|selected| selected.row.set.id.clone()).collect();
            all.extend(more.into_iter().filter(|selected| !known.contains(&selected.row.set.id)));
        }
        all.sort_by_key(|selected| selected.row.closed);
        Ok(all)
    }
}

/// The turns that are meant, oldest first.
pub(super) fn select_turns<'l>(
    line: &'l Timeline,
    session: &SessionId,
    which: &UndoTarget,
    last: impl FnOnce() -> Result<Vec<&'l TurnRow>>,
) -> Result<Vec<&'l TurnRow>> {
    Ok(match which {
        UndoTarget::Last => last()?,
        UndoTarget::Turn(id) => vec![find_turn(&line.turns, session, id)?],
        UndoTarget::From(id) => {
            let from = find_turn(&line.turns, session, id)?.span.0;
            line.turns.iter().filter(|turn| turn.span.0 >= from).collect()
        }
        UndoTarget::Message(message) => {
            let at = line.position_of(Some(&SessionHead { message: message.clone(), part: None }));
            line.turn_at(at).into_iter().collect()
        }
        UndoTarget::Part(part) => {
            line.part_position(part).and_then(|at| line.turn_at(at)).into_iter().collect()
        }
    })
}

/// Tells whether a change set is among what is meant, given that its turn is.
pub(super) fn is_selected(line: &Timeline, which: &UndoTarget, row: &ChangeSetRow) -> bool {
    let part = row.set.part.as_ref();
    match which {
        UndoTarget::Last | UndoTarget::Turn(_) | UndoTarget::From(_) => true,
        UndoTarget::Part(wanted) => part == Some(wanted),
        UndoTarget::Message(message) => {
            let begins_turn = line.turns.iter().any(|turn| turn.message == *message);
            begins_turn || part.is_some_and(|part| line.message_of(part) == Some(message))
        }
    }
}

/// A turn by its id.
pub(super) fn find_turn<'t>(
    turns: &'t [TurnRow],
    session: &SessionId,
    id: &TurnId,
) -> Result<&'t TurnRow> {
    let missing = || EngineError::NoTurn { session: session.clone(), turn: id.clone() };
    turns.iter().find(|turn| turn.id == *id).ok_or_else(missing)
}

/// Adds further turns to the chosen ones; returns those of other sessions.
pub(super) fn add_turns<'t>(
    session: &SessionId,
    turns: &'t [TurnRow],
    chosen: &mut Vec<&'t TurnRow>,
    also: &[(SessionId, TurnId)],
) -> Result<Vec<(SessionId, TurnId)>> {
    let (own, others): (Vec<_>, Vec<_>) =
        also.iter().cloned().partition(|(other, _)| other == session);
    for (_, id) in own {
        if !chosen.iter().any(|turn| turn.id == id) {
            chosen.push(find_turn(turns, session, &id)?);
        }
    }
    chosen.sort_by_key(|turn| turn.span.0);
    Ok(others)
}

/// Every session that was begun by this one, or by one of those.
pub(crate) fn list_descendants(
    reader: &ReadTx<'_>,
    session: &SessionId,
) -> turnstone_store::Result<Vec<SessionId>, StoreError> {
    let mut found = Vec::new();
    let mut ask = vec![session.clone()];
    while let Some(parent) = ask.pop() {
        for child in reader.sessions().children(&parent)? {
            if child.id != *session && !found.contains(&child.id) {
                found.push(child.id.clone());
                ask.push(child.id);
            }
        }
    }
    Ok(found)
}

pub(crate) fn is_within_turn(turn: &TurnRow, row: &ChangeSetRow) -> bool {
    let ended = turn.span.1;
    row.opened > turn.span.0 && (turn.state.is_open() || row.opened < ended)
}
