//! OpenCode's revert, unrevert and cleanup, built on change sets: the boundary is its own, what
//! happens to files is ours (promises 1 to 3).

use std::sync::Arc;

use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead, UndoExtent};
use turnstone_core::revert::find_revert_boundary;
use turnstone_store::{Context, OperationRow, Store};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::historical_state::HistoricalState;
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::history::timeline::{TIMELINE_END, Timeline};
use crate::history::timeline_branch::TimelineBranches;
use crate::history::undo::{
    OperationPlanner, OperationReport, OperationRunner, OperationSelection, OtherConversations,
    UndoOptions, UndoPlan, UndoSelection,
};

/// What becomes of files when the head moves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileHandling {
    /// They go where the conversation goes.
    Follow,
    /// They are as at the end of the session.
    StayAtEnd,
}

/// OpenCode's revert, unrevert and cleanup.
#[derive(Clone)]
pub struct Reverts {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) selection: UndoSelection,
    pub(crate) changes: SessionChanges,
    pub(crate) planner: OperationPlanner,
    pub(crate) operations: OperationRunner,
    pub(crate) branches: TimelineBranches,
}

impl Reverts {
    /// Plans to revert a session to a message or a part; changes nothing. Nothing if there is no
    /// such boundary.
    ///
    /// Reverting again moves the boundary in both directions: what is before it again is restored.
    ///
    /// # Errors
    ///
    /// A fact could not be obtained: then there is no plan.
    fn plan(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
        part: Option<&PartId>,
    ) -> Result<Option<UndoPlan>> {
        self.recovery.recover(ctx, session)?;
        let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
        let Some(head) = find_revert_boundary(line.message_outlines(), message, part) else {
            return Ok(None);
        };
        let files = FileHandling::Follow;
        self.plan_move_to(ctx, session, (&line, &operations), Some(head), files).map(Some)
    }

    /// Reverts the conversation of a session to a message; its files are as they are at its end,
    /// also those that an earlier revert restored. `None` if there is no such boundary.
    ///
    /// # Errors
    ///
    /// As [`crate::History::apply`].
    pub fn revert_conversation(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
    ) -> Result<Option<OperationReport>> {
        self.recovery.recover(ctx, session)?;
        let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
        let Some(head) = find_revert_boundary(line.message_outlines(), message, None) else {
            return Ok(None);
        };
        let plan = self.plan_move_to(
            ctx,
            session,
            (&line, &operations),
            Some(head),
            FileHandling::StayAtEnd,
        )?;
        self.operations.apply(ctx, &plan).map(Some)
    }

    /// Plans to restore everything behind the head; `None` if the head is at the end.
    ///
    /// # Errors
    ///
    /// As [`Self::plan`].
    fn plan_unrevert(&self, ctx: &Context, session: &SessionId) -> Result<Option<UndoPlan>> {
        self.recovery.recover(ctx, session)?;
        let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
        match &line.head {
            None => Ok(None),
            Some(_) => {
                let line = (&line, operations.as_slice());
                self.plan_move_to(ctx, session, line, None, FileHandling::Follow).map(Some)
            }
        }
    }

    /// Reverts a session; nothing if there is no such boundary, and nothing has changed.
    ///
    /// Where files were to be restored and none could, the report says so and the head stays where it
    /// was: its `revert` field is unchanged, as if there had been no such boundary.
    ///
    /// # Errors
    ///
    /// As [`crate::History::apply`].
    pub fn revert(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
        part: Option<&PartId>,
    ) -> Result<Option<OperationReport>> {
        let plan = self.plan(ctx, session, message, part)?;
        plan.map(|plan| self.operations.apply(ctx, &plan)).transpose()
    }

    /// Reverses a revert; `None` if the head is at the end.
    ///
    /// # Errors
    ///
    /// As [`crate::History::apply`].
    pub fn unrevert(&self, ctx: &Context, session: &SessionId) -> Result<Option<OperationReport>> {
        let plan = self.plan_unrevert(ctx, session)?;
        plan.map(|plan| self.operations.apply(ctx, &plan)).transpose()
    }

    /// Hides what is behind the head, as a prompt does (R19); nothing happens at the end.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs.
    pub fn cleanup(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        self.recovery.recover(ctx, session)?;
        self.branches.branch_at_head(ctx, session).map(drop)
    }

    /// Plans to bring files and conversation to a place of the line.
    fn plan_move_to(
        &self,
        ctx: &Context,
        session: &SessionId,
        (line, operations): (&Timeline, &[OperationRow]),
        head: Option<SessionHead>,
        files: FileHandling,
    ) -> Result<UndoPlan> {
        let (there, here) = (line.position_of(head.as_ref()), line.head_position());
        let touched = there.min(here);
        let turns = line.turns_within(touched, TIMELINE_END);
        let mut changes = self.changes.of_turns(ctx, session, &turns)?;
        let apart = HistoricalState::undone_independently(operations);
        changes.retain_mut(|selected| {
            // What a branch has hidden stays as it is.
            let Some(at) = line.change_set_position(session, &selected.turn, &selected.row) else {
                return false;
            };
            selected.wanted = match at {
                at if at >= there && files == FileHandling::Follow => UndoExtent::All,
                at if at >= here => apart.undone_extent(&selected.row.set.id),
                _ => selected.undone.clone(),
            };
            files == FileHandling::Follow || selected.wanted != selected.undone
        });
        let kind = if there > here { OperationKind::Redo } else { OperationKind::Undo };
        let (from, to) = (touched, there.max(here));
        let within = line.turns_within(from, to);
        let mut side_effects = self.selection.side_effects_between(
            ctx,
            session,
            line.cursor_before(there),
            line.cursor_before(here),
        )?;
        if kind == OperationKind::Undo {
            side_effects.withdrawn = self.selection.grants_during(ctx, session, &within)?;
        }
        if files == FileHandling::Follow {
            let files = self.selection.list_imported_files(ctx, session, line, (from, to))?;
            (side_effects.not_covered, side_effects.outside) = (files.inside, files.outside);
        }
        let turns: Vec<TurnId> = within.iter().map(|turn| turn.id.clone()).collect();
        let head = head.map_or(HeadTarget::Tip, HeadTarget::To);
        let selection = OperationSelection {
            kind,
            turns,
            other_turns: Vec::new(),
            changes,
            head,
            side_effects,
            conversations: OtherConversations::default(),
        };
        self.planner.build(ctx, session, selection, &UndoOptions::default())
    }
}
