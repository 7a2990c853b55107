//! Selecting a redo: which undo it reverses, and how much of that undo still has an effect.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::StepDirection;
use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead, UndoExtent};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_store::{Context, OperationRow, StoreError, TurnRow};

use super::operation_json::{decode_leader, decode_other_turns, decode_turns, is_without_effect};
use super::other_conversations::ConversationFinder;
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
    /// The session whose undo took these turns along.
    leader: Option<SessionId>,
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
                RedoTarget { turns, ..RedoTarget::default() }
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
        let finder = ConversationFinder { selection: self, ctx };
        let conversations = finder.find(StepDirection::Redo, &also, options.scope)?;
        Ok(OperationSelection {
            kind: OperationKind::Redo,
            turns,
            other_turns: also,
            changes,
            head,
            side_effects,
            conversations,
        })
    }

    /// Where in the log the undo was planned that a redo without turns reverses, and in which session: it may
    /// have taken this one along. `None`: there is none.
    pub(crate) fn find_newest_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<Option<(LogCursor, SessionId)>> {
        let find = |session: &SessionId| {
            let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
            let target = self.find_last_undo(ctx, session, &line, &operations)?;
            let found = (target.planned, session.clone());
            Ok::<_, EngineError>((!target.turns.is_empty()).then_some((found, target.leader)))
        };
        let Some((own, leader)) = find(session)? else { return Ok(None) };
        let Some(leader) = leader else { return Ok(Some(own)) };
        match find(&leader) {
            Ok(Some((found, None))) => Ok(Some(found)),
            Ok(Some((_, Some(_))) | None) => Ok(Some(own)),
            Err(EngineError::Store(StoreError::NoSession(_) | StoreError::Deleted(_))) => {
                Ok(Some(own))
            }
            Err(error) => Err(error),
        }
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
            let undo = (operations, nth);
            if let Some(target) = self.find_effect(ctx, session, line, undo, is_branched)? {
                return Ok(target);
            }
        }
        // A head that was set without an undo: the first turn behind it.
        let planned = operations.last().map_or_else(LogCursor::default, |last| last.planned);
        let turns = hidden.into_iter().take(1).collect();
        Ok(RedoTarget { turns, planned, ..RedoTarget::default() })
    }

    /// What an undo still has an effect on; `None` if on nothing.
    fn find_effect<'t>(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &'t Timeline,
        (operations, nth): (&[OperationRow], usize),
        is_branched: bool,
    ) -> Result<Option<RedoTarget<'t>>> {
        let (operation, hidden) = (&operations[nth], line.after_head());
        let ids = decode_turns(operation)?;
        let turns: Vec<&TurnRow> =
            line.turns.iter().filter(|turn| ids.contains(&turn.id)).collect();
        // An undo that found its turns undone hid nothing: an older one did.
        let has_moved = operation.done.as_ref().is_some_and(|done| done.head != HeadTarget::Stay);
        let hides_own =
            has_moved && turns.iter().any(|turn| hidden.iter().any(|one| one.id == turn.id));
        let planned = operation.planned;
        if let Some((leader, _)) = decode_leader(operation)? {
            let leader = Some(leader);
            let target = RedoTarget { turns, planned, leader, ..RedoTarget::default() };
            return Ok((!is_branched && hides_own).then_some(target));
        }
        let other_turns = decode_other_turns(operation)?;
        let paths = self.held_paths(ctx, session, (operations, nth), &turns, &other_turns)?;
        let has_effect = match is_branched {
            false => !paths.is_empty() || hides_own || self.hides_other_turn(ctx, &other_turns)?,
            true => !paths.is_empty() && hidden.is_empty(),
        };
        let (paths, is_superseded, leader) = (Some(paths), is_branched, None);
        let target = RedoTarget { turns, other_turns, paths, planned, is_superseded, leader };
        Ok(has_effect.then_some(target))
    }

    /// True if the conversation of another session does not show one of its turns.
    fn hides_other_turn(&self, ctx: &Context, turns: &[(SessionId, TurnId)]) -> Result<bool> {
        for (session, turn) in turns {
            match self.store.read(ctx, |r| Timeline::read(r, session)) {
                Ok(line) if line.after_head().iter().any(|one| one.id == *turn) => return Ok(true),
                Ok(_) | Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
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
            // An operation of another session may have redone it.
            let is_held = |path: &&RelPath| {
                selected.undone.contains_path(path)
                    && find_undoing_operation(operations, &set.id, path) == Some(nth)
            };
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
pub(super) fn find_redo_head(
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
