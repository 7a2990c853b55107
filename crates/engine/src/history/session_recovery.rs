//! Recovery of one session: finishes what a dead process left open in it (R45).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use turnstone_core::change::{ChangeSet, Evidence};
use turnstone_core::id::{ChangeId, SessionId};
use turnstone_snapshot::read_git_position;
use turnstone_store::{ChangeSetRow, CloseChangeSet, Context, Store, StoreError, WriteOutcome};

use crate::captures::budgeted_capture::{BudgetedCapture, unknown_changes};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::history::session_changes::SessionChanges;
use crate::history::undo::OperationRunner;
use crate::tool_calls::process_group::read_group;
use crate::tool_calls::tracked_call::{compare_captures, session_pin_group};

/// A supervisor without an owner ends its group within its grace period; this is a little more.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(7);
/// Time that a remaining group gets between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Finishes what a dead process left open in a session.
#[derive(Clone)]
pub(crate) struct SessionRecovery {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) captures: BudgetedCapture,
    pub(crate) changes: SessionChanges,
    pub(crate) operations: OperationRunner,
}

impl SessionRecovery {
    /// The same for one session, before it is used.
    pub(crate) fn recover(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let ctx = &ctx.without_preconditions();
        self.store.recover_turns(ctx)?;
        for row in self.store.read(ctx, |r| r.change_sets().list_open(None))? {
            if row.set.session == *session {
                self.close_orphaned_change(ctx, &row)?;
            }
        }
        self.operations.finish_interrupted(ctx, session)?;
        Ok(())
    }

    /// The same before a read of what the turns of a session did; costs one query if there is
    /// nothing to do (R45).
    ///
    /// # Errors
    ///
    /// As [`crate::Maintenance::recover_all`].
    pub(crate) fn ensure_recovered(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        if !self.store.read(ctx, |r| r.change_sets().has_orphaned(session))? {
            return Ok(());
        }
        match self.recover(ctx, session) {
            // What still runs is not known yet, and the reader sees that.
            Err(EngineError::ProcessGroup(_)) => Ok(()),
            recovered => recovered,
        }
    }

    /// Closes a change set whose turn has ended without it.
    pub(crate) fn close_orphaned_change(
        &self,
        ctx: &Context,
        row: &ChangeSetRow,
    ) -> Result<Option<ChangeId>> {
        let set = &row.set;
        let turns = self.store.read(ctx, |r| r.turns().list(&set.session))?;
        let runs = turns.iter().any(|turn| turn.id == set.turn && turn.state.is_open());
        if runs {
            return Ok(None);
        }
        self.wait_for_orphaned_group(ctx, set)?;
        let close = self.compare_orphaned_change(ctx, row)?;
        let session = set.session.clone();
        let written =
            self.store.write(ctx, move |tx| tx.change_sets().recover(&session, &close)).wait();
        match written {
            Ok(WriteOutcome::Created | WriteOutcome::Updated) => {
                self.changes.update_summary(ctx, &set.session)?;
                Ok(Some(set.id.clone()))
            }
            // Another process recovered it in the meantime.
            Ok(WriteOutcome::No) | Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Compares what is there now with what was there before the call.
    fn compare_orphaned_change(&self, ctx: &Context, row: &ChangeSetRow) -> Result<CloseChangeSet> {
        let set = &row.set;
        let mut close = CloseChangeSet {
            id: set.id.clone(),
            evidence: Evidence::Recovered,
            after: None,
            changes: Vec::new(),
            not_covered: 0,
            git: read_git_position(Path::new(&set.root.path)),
        };
        let root = Path::new(&set.root.path);
        let Some(before) = row.before.as_deref().filter(|_| root.is_dir()) else {
            // Nothing was captured before, or nothing is left to look at.
            if !set.root.store.is_empty() {
                close.changes = unknown_changes(&row.named);
            }
            let at_least = usize::from(!set.root.store.is_empty());
            close.not_covered = row.named.len().max(at_least) as u64;
            return Ok(close);
        };
        let handle = self.snapshots.open(root, ctx.now)?;
        let before = handle.reader().find_capture(before)?;
        let group = session_pin_group(&set.session);
        let named = match set.evidence {
            Evidence::Named => Some(row.named.iter().cloned().collect()),
            Evidence::Window | Evidence::Recovered => None,
        };
        let Some(after) = self.captures.try_capture(ctx, &handle, &group, named.as_ref())? else {
            close.changes = unknown_changes(&row.named);
            close.not_covered = row.named.len().max(1) as u64;
            return Ok(close);
        };
        close.changes = compare_captures(&handle, &before, &after.capture)?;
        close.after = Some(after.capture.id.to_string());
        close.not_covered = close.changes.iter().filter(|c| !c.is_covered()).count() as u64;
        Ok(close)
    }

    /// Waits until no process of the call of a change set runs any more.
    pub(crate) fn wait_for_orphaned_group(&self, ctx: &Context, set: &ChangeSet) -> Result<()> {
        let Some(part) = &set.part else {
            return Ok(());
        };
        let part = match self.store.read(ctx, |r| r.messages().get_part(&set.session, part)) {
            Ok(part) => part,
            // The call is gone from the session, and its processes with it.
            Err(StoreError::NoPart { .. } | StoreError::NoMessage { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if let Some(group) = read_group(&part)?
            && !group.wait(SUPERVISOR_TIMEOUT)?
        {
            group.end(GRACE)?;
        }
        Ok(())
    }
}
