//! Puts the history service together.

use std::path::Path;
use std::sync::Arc;

use turnstone_store::Store;

use crate::captures::Captures;
use crate::history::checkout_turns::CheckoutTurns;
use crate::history::checkpoint::Checkpoints;
use crate::history::client_edit::ClientEdits;
use crate::history::diff::Diffs;
use crate::history::fork::{Forks, SessionCopies};
use crate::history::imported_session::ImportedSessions;
use crate::history::pending_turn_ends::PendingTurnEnds;
use crate::history::replication::Replication;
use crate::history::revert::Reverts;
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::history::timeline_branch::TimelineBranches;
use crate::history::undo::{OperationPlanner, OperationRunner, UndoSelection};
use crate::history::undo_redo::History;
use crate::id_generator::IdGenerator;
use crate::permissions::Permissions;
use crate::projects::Projects;

/// What the history service needs.
pub(crate) struct HistoryInputs<'e> {
    pub(crate) store: &'e Arc<Store>,
    pub(crate) ids: &'e Arc<IdGenerator>,
    pub(crate) captures: &'e Captures,
    pub(crate) permissions: &'e Permissions,
    pub(crate) projects: &'e Projects,
    pub(crate) data: &'e Path,
}

/// What all parts of the history share.
struct SharedParts {
    changes: SessionChanges,
    branches: TimelineBranches,
    operations: OperationRunner,
    recovery: SessionRecovery,
    selection: UndoSelection,
    planner: OperationPlanner,
}

impl SharedParts {
    fn new(inputs: &HistoryInputs<'_>) -> Self {
        let (store, id_generator) = (inputs.store.clone(), inputs.ids.clone());
        let snapshots = inputs.captures.snapshots.clone();
        let changes = SessionChanges { store: store.clone(), snapshots: snapshots.clone() };
        let branches =
            TimelineBranches { store: store.clone(), id_generator: id_generator.clone() };
        let operations = OperationRunner {
            store: store.clone(),
            snapshots: snapshots.clone(),
            gates: inputs.permissions.gates().clone(),
            changes: changes.clone(),
            branches: branches.clone(),
        };
        let recovery = SessionRecovery {
            store: store.clone(),
            snapshots: snapshots.clone(),
            captures: inputs.captures.budgeted.clone(),
            changes: changes.clone(),
            operations: operations.clone(),
            turn_ends: PendingTurnEnds::default(),
            traces: inputs.captures.traces.clone(),
        };
        let selection = UndoSelection { store: store.clone(), changes: changes.clone() };
        let planner = OperationPlanner {
            store,
            id_generator,
            snapshots,
            changes: changes.clone(),
            store_folder: inputs.data.join("store"),
        };
        Self { changes, branches, operations, recovery, selection, planner }
    }
}

/// Puts the service together from what it needs.
pub(crate) fn assemble(inputs: &HistoryInputs<'_>) -> History {
    let parts = SharedParts::new(inputs);
    let reverts = new_reverts(inputs, &parts);
    let forks = new_forks(inputs, &parts);
    let SharedParts { changes, branches, operations, recovery, selection, planner } = parts;
    let (store, id_generator) = (inputs.store.clone(), inputs.ids.clone());
    let imported_sessions = ImportedSessions {
        store: store.clone(),
        id_generator: id_generator.clone(),
        snapshots: inputs.captures.snapshots.clone(),
        changes: changes.clone(),
        selection: selection.clone(),
    };
    let checkpoints = Checkpoints {
        store: store.clone(),
        id_generator,
        recovery: recovery.clone(),
        gates: inputs.permissions.gates().clone(),
    };
    let edits = ClientEdits { store: store.clone(), gates: inputs.permissions.gates().clone() };
    let replication = Replication { store: store.clone(), projects: inputs.projects.clone() };
    let diffs =
        Diffs { store: store.clone(), recovery: recovery.clone(), changes: changes.clone() };
    let checkout_turns = CheckoutTurns {
        store: store.clone(),
        selection: selection.clone(),
        changes: changes.clone(),
    };
    History {
        store,
        recovery,
        selection,
        changes,
        branches,
        planner,
        operations,
        reverts,
        checkpoints,
        diffs,
        forks,
        edits,
        replication,
        checkout_turns,
        imported_sessions,
    }
}

fn new_reverts(inputs: &HistoryInputs<'_>, parts: &SharedParts) -> Reverts {
    Reverts {
        store: inputs.store.clone(),
        snapshots: inputs.captures.snapshots.clone(),
        recovery: parts.recovery.clone(),
        selection: parts.selection.clone(),
        changes: parts.changes.clone(),
        planner: parts.planner.clone(),
        operations: parts.operations.clone(),
        branches: parts.branches.clone(),
    }
}

fn new_forks(inputs: &HistoryInputs<'_>, parts: &SharedParts) -> Forks {
    let copies = SessionCopies {
        store: inputs.store.clone(),
        id_generator: inputs.ids.clone(),
        snapshots: inputs.captures.snapshots.clone(),
        recovery: parts.recovery.clone(),
        changes: parts.changes.clone(),
    };
    Forks {
        store: inputs.store.clone(),
        id_generator: inputs.ids.clone(),
        snapshots: inputs.captures.snapshots.clone(),
        captures: inputs.captures.budgeted.clone(),
        worktrees: inputs.projects.worktrees().clone(),
        copies,
    }
}
