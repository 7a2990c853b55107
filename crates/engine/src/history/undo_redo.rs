//! Undo and redo of turns, and the parts of the history service.

use std::sync::Arc;

use turnstone_core::id::SessionId;
use turnstone_store::{Context, Store};

use crate::error::Result;
use crate::history::checkpoint::Checkpoints;
use crate::history::client_edit::ClientEdits;
use crate::history::diff::Diffs;
use crate::history::fork::Forks;
use crate::history::replication::Replication;
use crate::history::revert::Reverts;
use crate::history::session_branch::SessionBranches;
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::history::undo::{
    OperationPlanner, OperationReport, OperationRunner, UndoOptions, UndoPlan, UndoSelection,
    UndoTarget,
};

/// Undo, redo and jump; revert, checkpoints, diffs and forks through its parts.
#[derive(Clone)]
pub struct History {
    pub(crate) store: Arc<Store>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) selection: UndoSelection,
    pub(crate) changes: SessionChanges,
    pub(crate) branches: SessionBranches,
    pub(crate) planner: OperationPlanner,
    pub(crate) operations: OperationRunner,
    pub(crate) reverts: Reverts,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) diffs: Diffs,
    pub(crate) forks: Forks,
    pub(crate) edits: ClientEdits,
    pub(crate) replication: Replication,
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
    /// turns has expired; or a fact could not be obtained: then there is no plan.
    pub fn plan_undo(
        &self,
        ctx: &Context,
        session: &SessionId,
        which: &UndoTarget,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        self.recovery.recover(ctx, session)?;
        let selection = self.selection.select_undo(ctx, session, which, options)?;
        self.planner.build(ctx, session, selection, options)
    }

    /// Plans a redo; changes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::NothingToRedo`]; [`crate::EngineError::UndoExpired`] or
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
        self.planner.build(ctx, session, selection, options)
    }

    /// Carries a plan out, if it may be. After a crash, [`crate::Maintenance::recover_all`] finishes it.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs;
    /// [`crate::EngineError::PermissionRefused`] or [`crate::EngineError::PermissionPending`] at the gate (R37). Then
    /// nothing has changed. Any later failure leaves the operation to recovery.
    pub fn apply(&self, ctx: &Context, plan: &UndoPlan) -> Result<OperationReport> {
        self.operations.apply(ctx, plan)
    }
}
