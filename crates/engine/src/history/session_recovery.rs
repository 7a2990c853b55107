//! Recovery of one session: finishes what a dead process left open in it (R45).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use turnstone_core::change::{ChangeSet, Evidence};
use turnstone_core::id::{ChangeId, SessionId, TurnId};
use turnstone_snapshot::read_git_position;
use turnstone_store::{ChangeSetRow, CloseChangeSet, Context, Store, StoreError, WriteOutcome};

use crate::captures::budgeted_capture::{BudgetedCapture, unknown_changes};
use crate::captures::partial_capture::ClosingCapture;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::trace::{TraceFiles, TracedWindow};
use crate::error::{EngineError, Result};
use crate::history::pending_turn_ends::PendingTurnEnds;
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
    pub(crate) turn_ends: PendingTurnEnds,
    pub(crate) traces: TraceFiles,
}

impl SessionRecovery {
    /// Finishes what dead processes left open in one session, before it is used.
    pub(crate) fn recover(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let ctx = &ctx.without_preconditions();
        self.turn_ends.store_ends_of(session);
        self.store.recover_turns(ctx)?;
        for row in self.store.read(ctx, |r| r.change_sets().list_open(None))? {
            if row.set.session == *session {
                self.close_orphaned_change(ctx, &row)?;
            }
        }
        self.operations.finish_interrupted(ctx, session)?;
        Ok(())
    }

    /// Recovers a session before a read of what its turns did; costs one query if no call is open (R45).
    ///
    /// # Errors
    ///
    /// As [`crate::Maintenance::recover_all`].
    pub(crate) fn ensure_recovered(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        if !self.store.read(ctx, |r| r.change_sets().has_orphaned(session))? {
            return Ok(());
        }
        match self.recover(ctx, session) {
            // What still runs, or waits for space, is not known yet, and the reader sees that.
            Err(EngineError::ProcessGroup(_)) => Ok(()),
            Err(error) if error.is_full() => Ok(()),
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
        // Processes that outlived their command may go on for days.
        if runs || self.traces.is_continued_window_running(row)? {
            return Ok(None);
        }
        if row.continues.is_none() {
            self.wait_for_orphaned_group(ctx, set)?;
        }
        if self.find_root_error(row)?.is_some() {
            return Ok(None);
        }
        let close = self.compare_orphaned_change(ctx, row)?;
        let (session, is_traced) = (set.session.clone(), close.trace.is_some());
        let written =
            self.store.write(ctx, move |tx| tx.change_sets().recover(&session, &close)).wait();
        if written.is_ok() && is_traced {
            self.traces.remove(&set.id)?;
        }
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
            trace: None,
            git: read_git_position(Path::new(&self.snapshots.locate_root(&set.root)?.path)),
        };
        let Some(before) = row.before.as_deref() else {
            // Nothing was captured before.
            if !set.root.store.is_empty() {
                close.changes = unknown_changes(&row.named);
            }
            let at_least = usize::from(!set.root.store.is_empty());
            close.not_covered = row.named.len().max(at_least) as u64;
            return Ok(close);
        };
        let handle = self.snapshots.of_root(&set.root, ctx.now)?;
        let before = handle.reader().find_capture(before)?;
        let group = session_pin_group(&set.session);
        let named = match set.evidence {
            Evidence::Named => Some(row.named.iter().cloned().collect()),
            Evidence::Window | Evidence::Traced | Evidence::Recovered | Evidence::Imported => None,
        };
        let taken = self.captures.capture_after(ctx, &handle, &group, &before, named.as_ref())?;
        let (after, changes) = match taken {
            ClosingCapture::Complete(after) => {
                let changes = compare_captures(&handle, &before, &after)?;
                (Some((after, true)), changes)
            }
            // What no disk of this size could hold is given up; the rest waits for space.
            ClosingCapture::Partial(taken) if !taken.may_fit_later => {
                (taken.after.map(|after| (after, false)), taken.changes)
            }
            ClosingCapture::Partial(_) | ClosingCapture::NoRoom => {
                return Err(EngineError::ChangesPending(set.session.clone()));
            }
        };
        close.after = after.as_ref().map(|(after, _)| after.id.to_string());
        close.changes = changes;
        if named.is_none() && (row.continues.is_some() || self.traces.exists(&set.id)) {
            let complete = after.as_ref().filter(|(_, is_complete)| *is_complete);
            let window = TracedWindow {
                change: &set.id,
                handle: &handle,
                opened_root: &set.root.path,
                captured_from: row.captured_from,
                before: &before,
                after: complete.map(|(after, _)| after),
            };
            self.attribute_orphaned_changes(row, &window, &mut close);
        }
        close.not_covered = close.changes.iter().filter(|c| !c.is_covered()).count() as u64;
        Ok(close)
    }

    /// What a dead process had traced until its command ended is as certain as if it had lived.
    fn attribute_orphaned_changes(
        &self,
        row: &ChangeSetRow,
        window: &TracedWindow<'_>,
        close: &mut CloseChangeSet,
    ) {
        let changes = std::mem::take(&mut close.changes);
        let found = match row.continues {
            Some(_) => self.traces.attribute_continued(window, changes),
            None => self.traces.attribute(window, changes),
        };
        if found.is_traced {
            close.evidence = Evidence::Traced;
        }
        (close.changes, close.trace) = (found.changes, Some(found.report));
    }

    /// Refuses to undo turns of which a change set is still open, because its directory is missing.
    pub(crate) fn ensure_recorded(
        &self,
        ctx: &Context,
        session: &SessionId,
        turns: &[TurnId],
    ) -> Result<()> {
        let open = self.store.read(ctx, |r| r.change_sets().list_open(None))?;
        let is_meant =
            |row: &&ChangeSetRow| row.set.session == *session && turns.contains(&row.set.turn);
        for row in open.iter().filter(is_meant) {
            let turn = row.set.turn.clone();
            return Err(match self.find_root_error(row)? {
                None => continue,
                Some(EngineError::DirectoryGone { path }) => {
                    EngineError::DirectoryMissing { turn, root: path }
                }
                Some(error) => error,
            });
        }
        Ok(())
    }

    /// Why it cannot be found out what a captured call changed: its directory is missing, or another one has
    /// its path. It may come back, empty or not, or be found elsewhere: until then it is unknown, and an absent
    /// directory must not be taken for one without changes.
    fn find_root_error(&self, row: &ChangeSetRow) -> Result<Option<EngineError>> {
        match row.before {
            Some(_) => self.snapshots.find_root_error(&row.set.root),
            None => Ok(None),
        }
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
