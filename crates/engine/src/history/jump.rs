//! Jumps: to any point a session has been at, on its line or on one that a branch has hidden.

use std::collections::HashSet;

use turnstone_core::id::{MessageId, OperationId, PartId, SessionId, TurnId};
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead, UndoExtent};
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};
use turnstone_store::{
    Context, MessageOutlineRow, OperationRow, SessionAtBoundary, Store, StreamBoundary, TurnRow,
};

use crate::error::{EngineError, Result};
use crate::history::checkpoint::active_checkpoints;
use crate::history::historical_state::HistoricalState;
use crate::history::timeline::Timeline;
use crate::history::undo::{
    ChangeSetUndoState, OperationSelection, OtherConversations, SideEffects, TimelineSwitch,
    UndoAspect, UndoOptions, UndoPlan, is_timeline_switch,
};
use crate::history::undo_redo::History;

/// A point of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionPoint {
    /// Before a turn began.
    Before(TurnId),
    /// After a turn ended.
    After(TurnId),
    /// After an operation.
    Operation(OperationId),
    /// A checkpoint; the newest of that name.
    Checkpoint(String),
    /// At a boundary, by its place in the session's stream.
    Seq(SessionSeq),
}

/// A point with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCheckpoint {
    /// The operation that named it.
    pub operation: OperationId,
    /// The name.
    pub name: String,
    /// When.
    pub time: EpochMillis,
}

impl History {
    /// Plans to bring files and conversation to a point; changes nothing.
    ///
    /// Change sets after it are undone, those before it are as they were then, whatever branch
    /// they are on. Changes that belong to no turn stay.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoPoint`], or a fact could not be obtained: then there is no plan.
    pub fn plan_jump(
        &self,
        ctx: &Context,
        session: &SessionId,
        point: &SessionPoint,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recovery.recover(ctx, session)?;
        let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
        let boundaries =
            self.store.read(ctx, |r| r.history().boundaries(session, SessionSeq(0), usize::MAX))?;
        let target = find_point(&line, &operations, &boundaries, point)?.ok_or_else(|| {
            EngineError::NoPoint { session: session.clone(), point: describe_point(point) }
        })?;
        let past = HistoricalState::at(&operations, target.cursor);
        let changes = match options.scope {
            UndoAspect::Conversation => Vec::new(),
            UndoAspect::Both | UndoAspect::Files => {
                self.change_sets_to_point(ctx, session, &line, &past, target.cursor)?
            }
        };
        let mut turns: Vec<TurnId> = Vec::new();
        for selected in &changes {
            if !turns.contains(&selected.turn) {
                turns.push(selected.turn.clone());
            }
        }
        let (mut head, mut side_effects) = (HeadTarget::Stay, SideEffects::default());
        if options.scope != UndoAspect::Files {
            let at =
                self.store.read(ctx, |r| r.history().session_at_boundary(session, target.seq))?;
            let other = match is_on_timeline(&line.outline, &at) {
                true => None,
                false => {
                    self.find_hidden_timeline(ctx, session, &operations, &boundaries, target)?
                }
            };
            let outline = other.as_ref().map_or(&line.outline, |(_, outline)| outline);
            head = find_head_move(outline, &at, past.head.as_ref());
            let here = line.cursor_before(line.head_position());
            side_effects =
                self.selection.side_effects_between(ctx, session, target.cursor, here)?;
            let later = line.turns.iter().filter(|turn| turn.span.0 >= target.cursor);
            side_effects.withdrawn =
                self.selection.grants_during(ctx, session, &later.collect::<Vec<_>>())?;
            side_effects.switch =
                other.map(|(seq, outline)| plan_switch(&line.outline, &outline, seq));
        }
        let selection = OperationSelection {
            kind: OperationKind::Jump,
            turns,
            other_turns: Vec::new(),
            changes,
            head,
            side_effects,
            conversations: OtherConversations::default(),
        };
        self.planner.build(ctx, session, selection, options)
    }

    /// The change sets of a session that are not as they were at a place in the log.
    fn change_sets_to_point(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
        past: &HistoricalState,
        at: LogCursor,
    ) -> Result<Vec<ChangeSetUndoState>> {
        let all: Vec<&TurnRow> = line.turns.iter().collect();
        let mut changes = self.changes.of_turns(ctx, session, &all)?;
        for selected in &mut changes {
            selected.wanted = match selected.row.opened > at {
                true => UndoExtent::All,
                false => past.undone_extent(&selected.row.set.id),
            };
        }
        changes.retain(|selected| selected.wanted != selected.undone);
        Ok(changes)
    }

    /// The line a point is on, if a branch or a jump has left it since: whole, as it was then.
    fn find_hidden_timeline(
        &self,
        ctx: &Context,
        session: &SessionId,
        operations: &[OperationRow],
        boundaries: &[StreamBoundary],
        target: StreamBoundary,
    ) -> Result<Option<(SessionSeq, Vec<MessageOutlineRow>)>> {
        let mut left = None;
        for operation in operations.iter().filter(|it| it.planned > target.cursor) {
            if operation.kind == OperationKind::Branch || is_timeline_switch(operation)? {
                left = Some(operation);
                break;
            }
        }
        let Some(left) = left else {
            return Ok(None);
        };
        let last = boundaries.iter().rev().find(|it| it.cursor < left.planned).unwrap_or(&target);
        let at = self.store.read(ctx, |r| r.history().session_at_boundary(session, last.seq))?;
        Ok(Some((last.seq, build_outline(&at))))
    }
}

/// Finds a point.
pub(crate) fn resolve_point(
    store: &Store,
    ctx: &Context,
    session: &SessionId,
    line: &Timeline,
    operations: &[OperationRow],
    point: &SessionPoint,
) -> Result<StreamBoundary> {
    let boundaries =
        store.read(ctx, |r| r.history().boundaries(session, SessionSeq(0), usize::MAX))?;
    find_point(line, operations, &boundaries, point)?.ok_or_else(|| EngineError::NoPoint {
        session: session.clone(),
        point: describe_point(point),
    })
}

/// A point as text, for the error that it does not exist.
fn describe_point(point: &SessionPoint) -> String {
    match point {
        SessionPoint::Before(turn) | SessionPoint::After(turn) => turn.to_string(),
        SessionPoint::Operation(operation) => operation.to_string(),
        SessionPoint::Checkpoint(name) => name.clone(),
        SessionPoint::Seq(seq) => seq.0.to_string(),
    }
}

fn find_point(
    line: &Timeline,
    operations: &[OperationRow],
    boundaries: &[StreamBoundary],
    point: &SessionPoint,
) -> Result<Option<StreamBoundary>> {
    let at = |cursor: LogCursor| boundaries.iter().find(|it| it.cursor == cursor).copied();
    let turn = |id: &TurnId| line.turns.iter().find(|turn| turn.id == *id);
    // An operation is numbered by where it was planned; its end is the boundary.
    let end = |operation: &OperationRow| {
        boundaries.iter().find(|it| it.entity == operation.planned.0).copied()
    };
    Ok(match point {
        SessionPoint::Before(id) => turn(id).and_then(|turn| at(turn.span.0)),
        SessionPoint::After(id) => {
            turn(id).filter(|turn| !turn.state.is_open()).and_then(|turn| at(turn.span.1))
        }
        SessionPoint::Operation(id) => operations.iter().find(|it| it.id == *id).and_then(end),
        SessionPoint::Checkpoint(wanted) => {
            let named =
                active_checkpoints(operations)?.into_iter().rev().find(|it| it.name == *wanted);
            let is_it = |operation: &&OperationRow| {
                named.as_ref().is_some_and(|it| it.operation == operation.id)
            };
            operations.iter().find(is_it).and_then(end)
        }
        SessionPoint::Seq(seq) => boundaries.iter().find(|it| it.seq == *seq).copied(),
    })
}

/// Tells whether everything that was there at a point is on a line.
fn is_on_timeline(outline: &[MessageOutlineRow], at: &SessionAtBoundary) -> bool {
    let messages: HashSet<&MessageId> = outline.iter().map(|it| &it.message).collect();
    let parts: HashSet<&PartId> =
        outline.iter().flat_map(|it| it.parts.iter().map(|(id, _)| id)).collect();
    at.messages.iter().all(|it| {
        messages.contains(&it.message.id) && it.parts.iter().all(|part| parts.contains(&part.id))
    })
}

fn build_outline(at: &SessionAtBoundary) -> Vec<MessageOutlineRow> {
    let outline = |it: &turnstone_store::MessageWithParts| MessageOutlineRow {
        message: it.message.id.clone(),
        is_user: matches!(it.message.body, turnstone_core::model::MessageBody::User(_)),
        parts: it.parts.iter().map(|part| (part.id.clone(), String::new())).collect(),
        part_cursors: it.parts.iter().map(|_| LogCursor(0)).collect(),
    };
    at.messages.iter().map(outline).collect()
}

/// Where the head is on a line for what was there at a point, or where it was then.
fn find_head_move(
    outline: &[MessageOutlineRow],
    at: &SessionAtBoundary,
    then: Option<&SessionHead>,
) -> HeadTarget {
    let messages: HashSet<&MessageId> = at.messages.iter().map(|it| &it.message.id).collect();
    let parts: HashSet<&PartId> =
        at.messages.iter().flat_map(|it| it.parts.iter().map(|part| &part.id)).collect();
    for it in outline {
        let message = it.message.clone();
        let stood = then.is_some_and(|head| head.message == message && head.part.is_none());
        if stood || !messages.contains(&message) {
            return HeadTarget::To(SessionHead { message, part: None });
        }
        let is_behind = |part: &&(PartId, String)| {
            let stood = then.is_some_and(|head| head.part.as_ref() == Some(&part.0));
            stood || !parts.contains(&part.0)
        };
        if let Some((part, _)) = it.parts.iter().find(is_behind) {
            return HeadTarget::To(SessionHead { message, part: Some(part.clone()) });
        }
    }
    HeadTarget::Tip
}

/// What leaves the line for another one.
fn plan_switch(
    present: &[MessageOutlineRow],
    other: &[MessageOutlineRow],
    line: SessionSeq,
) -> TimelineSwitch {
    let messages: HashSet<&MessageId> = other.iter().map(|it| &it.message).collect();
    let parts: HashSet<&PartId> =
        other.iter().flat_map(|it| it.parts.iter().map(|(id, _)| id)).collect();
    let (stay, leave): (Vec<&MessageOutlineRow>, Vec<&MessageOutlineRow>) =
        present.iter().partition(|it| messages.contains(&it.message));
    let gone = stay.iter().flat_map(|it| &it.parts).filter(|(id, _)| !parts.contains(id));
    TimelineSwitch {
        messages: leave.iter().map(|it| it.message.clone()).collect(),
        parts: gone.map(|(id, _)| id.clone()).collect(),
        line,
    }
}
