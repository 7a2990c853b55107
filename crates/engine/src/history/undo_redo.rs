//! Undo and redo of turns, and the parts of the history service.

use std::sync::Arc;

use turnstone_core::id::{OperationId, SessionId};
use turnstone_core::operation::HeadTarget;
use turnstone_store::{Context, Store, TurnRow};

use crate::error::Result;
use crate::history::checkout_turns::CheckoutTurns;
use crate::history::checkpoint::Checkpoints;
use crate::history::client_edit::ClientEdits;
use crate::history::diff::Diffs;
use crate::history::fork::Forks;
use crate::history::imported_session::ImportedSessions;
use crate::history::replication::Replication;
use crate::history::revert::Reverts;
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::history::timeline_branch::TimelineBranches;
use crate::history::undo::{
    OperationPlanner, OperationReport, OperationRunner, UndoAspect, UndoOptions, UndoPlan,
    UndoSelection, UndoTarget, UnmovedConversation, UnmovedReason, decode_plan, decode_report,
};

/// Undo, redo and jump; revert, checkpoints, diffs and forks through its parts.
#[derive(Clone)]
pub struct History {
    pub(crate) store: Arc<Store>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) selection: UndoSelection,
    pub(crate) changes: SessionChanges,
    pub(crate) branches: TimelineBranches,
    pub(crate) planner: OperationPlanner,
    pub(crate) operations: OperationRunner,
    pub(crate) reverts: Reverts,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) diffs: Diffs,
    pub(crate) forks: Forks,
    pub(crate) edits: ClientEdits,
    pub(crate) replication: Replication,
    pub(crate) checkout_turns: CheckoutTurns,
    pub(crate) imported_sessions: ImportedSessions,
}

impl History {
    /// OpenCode's revert, unrevert and cleanup.
    #[must_use]
    pub fn reverts(&self) -> &Reverts {
        &self.reverts
    }

    /// Named points of a session.
    #[must_use]
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Differences between points of a session.
    #[must_use]
    pub fn diffs(&self) -> &Diffs {
        &self.diffs
    }

    /// Edits of stored records by clients, outside of a turn.
    #[must_use]
    pub fn edits(&self) -> &ClientEdits {
        &self.edits
    }

    /// The turns of all sessions in a checkout, and which of them an undo or redo without arguments is about.
    #[must_use]
    pub fn checkout_turns(&self) -> &CheckoutTurns {
        &self.checkout_turns
    }

    /// What an import leaves to the engine.
    #[must_use]
    pub fn imported_sessions(&self) -> &ImportedSessions {
        &self.imported_sessions
    }

    /// Stores events of other servers.
    #[must_use]
    pub fn replication(&self) -> &Replication {
        &self.replication
    }

    /// Forks of a session, in place or into a worktree of their own.
    #[must_use]
    pub fn forks(&self) -> &Forks {
        &self.forks
    }
}

impl History {
    /// Plans an undo of turns; changes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NothingToUndo`]; [`crate::EngineError::UndoExpired`] if the undo of one of the
    /// turns has expired; [`crate::EngineError::NoSuchChange`] if a path filter matches no change;
    /// [`crate::EngineError::DirectoryMissing`]; or a fact could not be obtained: then there is no plan.
    pub fn plan_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &UndoTarget,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recovery.recover(ctx, session)?;
        let selection = self.selection.select_undo(ctx, session, which, options)?;
        self.recovery.ensure_recorded(ctx, session, &selection.turns)?;
        let mut plan = self.planner.build(ctx, session, selection, options)?;
        plan.move_head_last();
        self.restrict_during_turn(ctx, &mut plan, options)?;
        Ok(plan)
    }

    /// Plans a redo; changes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NothingToRedo`]; [`crate::EngineError::UndoSuperseded`];
    /// [`crate::EngineError::NoSuchChange`]; [`crate::EngineError::UndoExpired`] or
    /// [`crate::EngineError::GuardExpired`] if what it needs is gone; or a fact could not be obtained.
    pub fn plan_redo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &UndoTarget,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recovery.recover(ctx, session)?;
        let selection = self.selection.select_redo(ctx, session, which, options)?;
        let mut plan = self.planner.build(ctx, session, selection, options)?;
        plan.move_head_last();
        self.restrict_during_turn(ctx, &mut plan, options)?;
        Ok(plan)
    }

    /// Makes a plan fit next to a running turn of its session, if the caller allows that: files of finished
    /// turns change, and the conversation and the to-dos stay with the running turn (R45).
    fn restrict_during_turn(
        &self,
        ctx: &Context,
        plan: &mut UndoPlan,
        options: &UndoOptions,
    ) -> Result<()> {
        if !options.during_turn || options.scope == UndoAspect::Conversation {
            return Ok(());
        }
        let turns = self.store.read(ctx, |r| r.turns().list(&plan.session))?;
        let is_running = |turn: &&TurnRow| turn.state.is_open();
        let runs_itself = turns.iter().filter(is_running).any(|turn| plan.turns.contains(&turn.id));
        if turns.iter().any(|turn| turn.state.is_open()) && !runs_itself {
            if plan.head != HeadTarget::Stay && !plan.also.is_empty() {
                let (session, reason) = (plan.session.clone(), UnmovedReason::Running);
                plan.conversations_left.push(UnmovedConversation { session, reason });
            }
            (plan.during_turn, plan.head, plan.todos) = (true, HeadTarget::Stay, None);
        }
        Ok(())
    }

    /// Checks what [`Self::apply`] would check before it changes anything, except for permission.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs;
    /// [`turnstone_store::StoreError::Full`] if the operation could not be recorded.
    pub fn check(&self, ctx: &Context, plan: &UndoPlan) -> Result<()> {
        self.operations.ensure_idle(ctx, plan)?;
        self.operations.ensure_room(plan)
    }

    /// Carries a plan out, if it may be. After a crash, [`crate::Maintenance::recover_all`] finishes it.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs;
    /// [`turnstone_store::StoreError::Full`] if the operation could not be recorded;
    /// [`crate::EngineError::PermissionRefused`] or [`crate::EngineError::PermissionPending`] at the gate (R37). Then
    /// nothing has changed. Any later failure leaves the operation to recovery: [`crate::EngineError::Unrecorded`]
    /// if files have changed.
    pub fn apply(&self, ctx: &Context, plan: &UndoPlan) -> Result<OperationReport> {
        self.operations.apply(ctx, plan)
    }

    /// The plan and the report of an operation of a session that is over; `None` if there is none, or if it
    /// moved no files.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::UnreadableOperation`]; [`turnstone_store::StoreError::NoSession`].
    pub fn find_finished(
        &self,
        ctx: &Context,
        session: &SessionId,
        id: &OperationId,
    ) -> Result<Option<(UndoPlan, OperationReport)>> {
        let operations = self.store.read(ctx, |r| r.operations().list(session))?;
        let Some(found) = operations.iter().find(|operation| operation.id == *id) else {
            return Ok(None);
        };
        match decode_report(found)? {
            Some(report) => Ok(Some((decode_plan(found)?, report))),
            None => Ok(None),
        }
    }
}
