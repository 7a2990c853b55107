//! The conversations of other sessions whose turns an undo or a redo takes along.
//!
//! Each session records its own move as an operation that names the one it belongs to: a redo reverses that one.

use serde::{Deserialize, Serialize};
use turnstone_core::change::StepDirection;
use turnstone_core::id::{OperationId, ProjectId, SessionId, TurnId};
use turnstone_core::model::{SessionFileDiff, Todo};
use turnstone_core::operation::{HeadTarget, SessionHead, UndoneChangeSet};
use turnstone_core::permission::PermissionRule;
use turnstone_store::{
    Context, ExpectedPosition, FinishedOperation, HeadMoveObstacle, NewOperation, StoreError,
    TurnRow, Tx,
};

use super::operation_json::{encode_member_plan, encode_report};
use super::redo_selection::find_redo_head;
use super::selection::{SideEffects, UndoSelection, find_turn};
use super::types::{UndoAspect, UndoPlan, UndoTarget};
use crate::error::Result;
use crate::history::timeline::Timeline;

/// How the conversation of another session moves with an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationMove {
    /// The session.
    pub session: SessionId,
    /// Its project.
    pub project: ProjectId,
    /// Its turns.
    pub turns: Vec<TurnId>,
    /// Its head afterwards.
    pub head: HeadTarget,
    /// Its to-do list afterwards; nothing: as it is.
    pub todos: Option<Vec<Todo>>,
    /// Grants that were given in its turns: withdrawn (R20).
    pub withdrawn: Vec<PermissionRule>,
    /// Its head when this was planned: it moves only from there.
    pub seen_head: Option<SessionHead>,
    /// Its newest turn when this was planned: it moves only if that still is the newest one.
    pub newest_turn: Option<TurnId>,
}

/// A conversation that stays, although turns of its session are undone or redone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmovedConversation {
    /// The session.
    pub session: SessionId,
    /// Why it stays.
    pub reason: UnmovedReason,
}

/// Why a conversation stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnmovedReason {
    /// A turn of the session is running.
    Running,
    /// Later turns of the session are not undone.
    LaterTurns,
    /// The session went on while the operation was carried out.
    Changed,
}

/// The conversations of other sessions: those that move, and those that cannot.
#[derive(Default)]
pub(crate) struct OtherConversations {
    pub(crate) moves: Vec<ConversationMove>,
    pub(crate) unmoved: Vec<UnmovedConversation>,
}

/// Finds how the conversations of other sessions follow an operation.
pub(super) struct ConversationFinder<'a> {
    pub(super) selection: &'a UndoSelection,
    pub(super) ctx: &'a Context,
}

impl ConversationFinder<'_> {
    /// Finds how the conversations follow an operation on these turns of other sessions.
    pub(super) fn find(
        &self,
        direction: StepDirection,
        other_turns: &[(SessionId, TurnId)],
        scope: UndoAspect,
    ) -> Result<OtherConversations> {
        let mut found = OtherConversations::default();
        if scope == UndoAspect::Files {
            return Ok(found);
        }
        let mut sessions: Vec<&SessionId> = other_turns.iter().map(|(other, _)| other).collect();
        sessions.sort();
        sessions.dedup();
        for session in sessions {
            let line = self.selection.store.read(self.ctx, |r| Timeline::read(r, session))?;
            let mut turns = Vec::new();
            for (_, turn) in other_turns.iter().filter(|(other, _)| other == session) {
                turns.push(find_turn(&line.turns, session, turn)?);
            }
            turns.sort_by_key(|turn| turn.span.0);
            let head = match direction {
                StepDirection::Undo => find_undo_head(&line, &turns),
                StepDirection::Redo => Ok(find_redo_head(&line, &UndoTarget::Last, scope, &turns)),
            };
            let reason = match head {
                Ok(HeadTarget::Stay) => continue,
                Err(reason) => unmoved_reason(&line, reason),
                Ok(_) if has_open_turn(&line) => UnmovedReason::Running,
                Ok(head) => {
                    found.moves.push(self.plan_move(session, (&line, &turns), direction, head)?);
                    continue;
                }
            };
            found.unmoved.push(UnmovedConversation { session: session.clone(), reason });
        }
        Ok(found)
    }

    fn plan_move(
        &self,
        session: &SessionId,
        (line, turns): (&Timeline, &[&TurnRow]),
        direction: StepDirection,
        head: HeadTarget,
    ) -> Result<ConversationMove> {
        let SideEffects { todos, withdrawn, .. } =
            self.selection.find_side_effects(self.ctx, session, turns, direction)?;
        let project = self.selection.store.read(self.ctx, |r| r.sessions().get(session))?.project;
        Ok(ConversationMove {
            session: session.clone(),
            project,
            turns: turns.iter().map(|turn| turn.id.clone()).collect(),
            head,
            todos,
            withdrawn,
            seen_head: line.head.clone(),
            newest_turn: line.turns.last().map(|turn| turn.id.clone()),
        })
    }
}

impl OtherConversations {
    /// The head of the session of an undo; if others are undone with it, the reason is kept why it stays.
    pub(super) fn find_own_undo_head(
        &mut self,
        line: &Timeline,
        (session, turns): (&SessionId, &[&TurnRow]),
        has_others: bool,
    ) -> HeadTarget {
        find_undo_head(line, turns).unwrap_or_else(|reason| {
            if has_others {
                let (session, reason) = (session.clone(), unmoved_reason(line, reason));
                self.unmoved.push(UnmovedConversation { session, reason });
            }
            HeadTarget::Stay
        })
    }
}

/// The head after an undo of turns, oldest first. The conversation has one head: it moves back only if nothing
/// visible stays behind it.
fn find_undo_head(line: &Timeline, turns: &[&TurnRow]) -> Result<HeadTarget, UnmovedReason> {
    let visible = line.before_head();
    let Some(first) = turns.first().filter(|first| visible.iter().any(|it| it.id == first.id))
    else {
        return Ok(HeadTarget::Stay);
    };
    let mut behind = visible.iter().filter(|turn| turn.span.0 > first.span.0);
    match behind.all(|turn| turns.iter().any(|one| one.id == turn.id)) {
        true => Ok(HeadTarget::To(SessionHead { message: first.message.clone(), part: None })),
        false => Err(UnmovedReason::LaterTurns),
    }
}

fn has_open_turn(line: &Timeline) -> bool {
    line.turns.iter().any(|turn| turn.state.is_open())
}

/// Why a conversation stays: if its last turn is still running, that is the reason that passes.
fn unmoved_reason(line: &Timeline, reason: UnmovedReason) -> UnmovedReason {
    if has_open_turn(line) { UnmovedReason::Running } else { reason }
}

/// What the database records of a conversation that moves with an operation.
pub(super) struct ConversationRecord {
    change: ConversationMove,
    new: NewOperation,
    done: FinishedOperation,
    /// What clients are shown after the move.
    diff: Option<Vec<SessionFileDiff>>,
}

impl ConversationRecord {
    pub(super) fn new(
        plan: &UndoPlan,
        (operation, change): &(OperationId, ConversationMove),
        (taken, diff): (Vec<UndoneChangeSet>, Option<Vec<SessionFileDiff>>),
    ) -> Result<Self> {
        let own = UndoPlan {
            turns: change.turns.clone(),
            head: change.head.clone(),
            ..UndoPlan::empty(operation.clone(), plan.kind, change.session.clone())
        };
        let leader = (plan.session.clone(), plan.operation.clone());
        let (id, kind) = (operation.clone(), plan.kind);
        let new = NewOperation { id: id.clone(), kind, plan: encode_member_plan(&own, leader)? };
        let report = encode_report(&own.build_report(Vec::new()))?;
        let done = FinishedOperation { id, head: change.head.clone(), taken, report };
        Ok(Self { change: change.clone(), new, done, diff })
    }

    /// Why the conversation stays after all; `None` if it moves, or if its session is gone.
    pub(super) fn find_obstacle(
        &self,
        tx: &Tx<'_>,
    ) -> turnstone_store::Result<Option<UnmovedReason>, StoreError> {
        let ConversationMove { session, seen_head, newest_turn, .. } = &self.change;
        let expected =
            ExpectedPosition { head: seen_head.as_ref(), newest_turn: newest_turn.as_ref() };
        match tx.operations().find_head_move_obstacle(session, expected) {
            Ok(obstacle) => Ok(obstacle.map(|obstacle| match obstacle {
                HeadMoveObstacle::Busy => UnmovedReason::Running,
                HeadMoveObstacle::Changed => UnmovedReason::Changed,
            })),
            Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The session, as one whose conversation stays.
    pub(super) fn unmoved(&self, reason: UnmovedReason) -> UnmovedConversation {
        UnmovedConversation { session: self.change.session.clone(), reason }
    }

    /// Moves the conversation. What is undone of its turns is recorded here, too: it outlives the session that
    /// the operation belongs to.
    pub(super) fn write(&self, tx: &Tx<'_>) -> turnstone_store::Result<(), StoreError> {
        let ConversationMove { session, project, todos, withdrawn, .. } = &self.change;
        match tx.operations().record_at_once(session, &self.new, &self.done) {
            // A session that was deleted meanwhile has no conversation.
            Err(StoreError::NoSession(_) | StoreError::Deleted(_)) => return Ok(()),
            recorded => recorded?,
        };
        if let Some(diff) = &self.diff {
            tx.sessions().put_diff(session, diff)?;
        }
        if let Some(todos) = todos {
            tx.sessions().set_todos(session, todos)?;
        }
        withdrawn.iter().try_for_each(|rule| tx.projects().withdraw_rule(project, rule).map(drop))
    }
}
