//! Selecting a redo: which undo it reverses, and how much of that undo still has an effect.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead, UndoExtent};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_store::{Context, OperationRow, TurnRow};

use super::operation_json::{decode_other_turns, decode_turns, is_without_effect};
use super::redo_steps::find_undoing_operation;
use super::selection::{
    ChangeSetUndoState, OperationSelection, SideEffects, UndoSelection, add_turns, is_selected,
    select_turns,
};
use super::types::{UndoAspect, UndoOptions, UndoTarget};
use crate::error::{EngineError, Result};
use crate::history::timeline::Timeline;

/// What a redo reverses.
#[derive(Default)]
struct RedoTarget<'t> {
    turns: Vec<&'t TurnRow>,
    other_turns: Vec<(SessionId, TurnId)>,
    /// The paths to redo, by change set; `None`: everything of the turns that is undone.
    paths: Option<BTreeMap<ChangeId, BTreeSet<RelPath>>>,
    /// Where in the log the undo was planned.
    planned: LogCursor,
    /// True if a later turn replaced what the undo had hidden: then the turns have to be named.
    is_superseded: bool,
}

impl UndoSelection {
    /// Selects what a redo is about: the named turns, or the newest undo that still has an effect.
    pub(crate) fn select_redo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &UndoTarget,
        options: &UndoOptions,
    ) -> Result<OperationSelection> {
        let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
        let target = match which {
            UndoTarget::Last => self.find_last_undo(ctx, session, &line, &operations)?,
            UndoTarget::Turn(_)
            | UndoTarget::From(_)
            | UndoTarget::Message(_)
            | UndoTarget::Part(_) => {
                let turns = select_turns(&line, session, which, || Ok(Vec::new()))?;
                let other_turns = find_companion_turns(&operations, &turns)?;
                RedoTarget { turns, other_turns, ..RedoTarget::default() }
            }
        };
        let RedoTarget { turns: mut chosen, other_turns, paths, is_superseded, .. } = target;
        if is_superseded {
            let turns = chosen.iter().map(|turn| turn.id.clone()).collect();
            return Err(EngineError::UndoSuperseded { session: session.clone(), turns });
        }
        if chosen.is_empty() {
            return Err(EngineError::NothingToRedo(session.clone()));
        }
        let wanted = match options.other_turns.as_slice() {
            [] => other_turns,
            also => also.to_vec(),
        };
        let also = add_turns(session, &line.turns, &mut chosen, &wanted)?;
        let mut changes = self.select_change_sets(ctx, session, &chosen, &also, options.scope)?;
        changes.retain(|selected| {
            is_selected(&line, which, &selected.row)
                && can_redo(&line, session, which, &chosen, selected)
        });
        for selected in &mut changes {
            selected.wanted = match &paths {
                None => UndoExtent::Nothing,
                Some(paths) => extent_without(selected, paths.get(&selected.row.set.id)),
            };
        }
        let head = find_redo_head(&line, which, options.scope, &chosen);
        let side_effects = match head {
            HeadTarget::Stay => SideEffects::default(),
            HeadTarget::Tip | HeadTarget::To(_) => self.redo_side_effects(ctx, session, &chosen)?,
        };
        let turns = chosen.iter().map(|turn| turn.id.clone()).collect();
        Ok(OperationSelection {
            kind: OperationKind::Redo,
            turns,
            other_turns: also,
            changes,
            head,
            side_effects,
        })
    }

    /// Where in the log the undo was planned that a redo without turns reverses; `None`: there is none.
    pub(crate) fn find_newest_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<Option<LogCursor>> {
        let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
        let target = self.find_last_undo(ctx, session, &line, &operations)?;
        Ok((!target.turns.is_empty()).then_some(target.planned))
    }

    /// The newest undo of which something is still undone: paths that it undid and that no operation has
    /// redone since, or turns that it hid and that are still hidden.
    fn find_last_undo<'t>(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &'t Timeline,
        operations: &[OperationRow],
    ) -> Result<RedoTarget<'t>> {
        let hidden = line.after_head();
        let mut is_branched = false;
        for (nth, operation) in operations.iter().enumerate().rev() {
            if operation.done.is_none() || is_without_effect(operation)? {
                continue;
            }
            match operation.kind {
                OperationKind::Undo => {}
                // A new turn replaced what the older undos had hidden.
                OperationKind::Branch => {
                    is_branched = true;
                    continue;
                }
                // The session is at another point: an older undo is no longer next.
                OperationKind::Jump => break,
                OperationKind::Redo
                | OperationKind::Checkpoint
                | OperationKind::Expire
                | OperationKind::Forget => continue,
            }
            let ids = decode_turns(operation)?;
            let turns: Vec<&TurnRow> =
                line.turns.iter().filter(|turn| ids.contains(&turn.id)).collect();
            let other_turns = decode_other_turns(operation)?;
            let paths = self.held_paths(ctx, session, (operations, nth), &turns, &other_turns)?;
            let is_hidden = |turn: &&TurnRow| hidden.iter().any(|one| one.id == turn.id);
            let has_effect = match is_branched {
                false => !paths.is_empty() || turns.iter().any(is_hidden),
                true => !paths.is_empty() && hidden.is_empty(),
            };
            if has_effect {
                let (planned, paths) = (operation.planned, Some(paths));
                let is_superseded = is_branched;
                return Ok(RedoTarget { turns, other_turns, paths, planned, is_superseded });
            }
        }
        // A head that was set without an undo: the first turn behind it.
        let planned = operations.last().map_or_else(LogCursor::default, |last| last.planned);
        let turns = hidden.into_iter().take(1).collect();
        Ok(RedoTarget { turns, planned, ..RedoTarget::default() })
    }

    /// The paths that an operation undid and that no later one has redone, by change set.
    fn held_paths(
        &self,
        ctx: &Context,
        session: &SessionId,
        (operations, nth): (&[OperationRow], usize),
        turns: &[&TurnRow],
        other_turns: &[(SessionId, TurnId)],
    ) -> Result<BTreeMap<ChangeId, BTreeSet<RelPath>>> {
        let mut held: BTreeMap<ChangeId, BTreeSet<RelPath>> = BTreeMap::new();
        let undid = operations.get(nth).and_then(|operation| operation.done.as_ref());
        if undid.is_none_or(|done| done.taken.is_empty()) {
            return Ok(held);
        }
        for selected in
            self.select_change_sets(ctx, session, turns, other_turns, UndoAspect::Both)?
        {
            let set = &selected.row.set;
            let is_held =
                |path: &&RelPath| find_undoing_operation(operations, &set.id, path) == Some(nth);
            let paths: BTreeSet<RelPath> =
                set.changes.iter().map(|change| &change.path).filter(is_held).cloned().collect();
            if !paths.is_empty() {
                held.insert(set.id.clone(), paths);
            }
        }
        Ok(held)
    }
}

/// True if a redo may restore a change set.
///
/// What a branch has hidden is not on the timeline, and a redo of a turn leaves it alone. A turn that is
/// hidden as a whole and named by the caller is redone nevertheless: its files are, its conversation is not.
fn can_redo(
    line: &Timeline,
    session: &SessionId,
    which: &UndoTarget,
    chosen: &[&TurnRow],
    selected: &ChangeSetUndoState,
) -> bool {
    let is_hidden_turn =
        |turn: &&&TurnRow| turn.id == selected.turn && line.turn_start(turn).is_none();
    line.contains_change_set(session, &selected.row)
        || (matches!(which, UndoTarget::Turn(_)) && chosen.iter().any(|turn| is_hidden_turn(&turn)))
}

/// What of a change set stays undone if these paths are redone.
fn extent_without(selected: &ChangeSetUndoState, redone: Option<&BTreeSet<RelPath>>) -> UndoExtent {
    let Some(redone) = redone else { return selected.undone.clone() };
    let paths = selected.row.set.changes.iter().map(|change| &change.path);
    let stays = paths.filter(|path| selected.undone.contains_path(path) && !redone.contains(*path));
    match stays.cloned().collect::<Vec<_>>() {
        none if none.is_empty() => UndoExtent::Nothing,
        stays => UndoExtent::Paths(stays),
    }
}

/// The head after a redo: before the first hidden turn that is not redone, or at the end.
fn find_redo_head(
    line: &Timeline,
    which: &UndoTarget,
    scope: UndoAspect,
    chosen: &[&TurnRow],
) -> HeadTarget {
    let hidden = line.after_head();
    let is_chosen = |turn: &&&TurnRow| chosen.iter().any(|one| one.id == turn.id);
    let next = hidden.iter().find(|turn| !is_chosen(turn));
    let is_whole = !matches!(which, UndoTarget::Message(_) | UndoTarget::Part(_));
    let is_shown_again = is_whole && hidden.iter().any(|turn| is_chosen(&turn));
    match (scope, is_shown_again, next) {
        (UndoAspect::Files, ..) | (_, false, _) => HeadTarget::Stay,
        (_, true, None) => HeadTarget::Tip,
        (_, true, Some(next)) => {
            HeadTarget::To(SessionHead { message: next.message.clone(), part: None })
        }
    }
}

/// The turns of other sessions that the newest undo of these turns took along.
fn find_companion_turns(
    operations: &[OperationRow],
    chosen: &[&TurnRow],
) -> Result<Vec<(SessionId, TurnId)>> {
    for operation in operations.iter().rev().filter(|it| it.kind == OperationKind::Undo) {
        let turns = decode_turns(operation)?;
        if chosen.iter().any(|one| turns.contains(&one.id)) {
            return decode_other_turns(operation);
        }
    }
    Ok(Vec::new())
}
