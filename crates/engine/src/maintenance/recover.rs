//! Recovery: finishes what a process that died left open. Safe to run by several at once (R45).

use std::path::Path;

use turnstone_core::change::Evidence;
use turnstone_core::id::{ChangeId, OperationId, SessionId, TurnId};
use turnstone_snapshot::read_git_position;
use turnstone_store::{ChangeSetRow, CloseChangeSet, Context, WriteOutcome};

use crate::captures::budgeted_capture::unknown_changes;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::tool_calls::tracked_call::{compare_captures, session_pin_group};

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Turns whose process died.
    pub interrupted: Vec<TurnId>,
    /// Calls whose end nobody saw; what they changed is known since.
    pub closed: Vec<ChangeId>,
    /// Operations that were cut off and are finished.
    pub finished: Vec<OperationId>,
    /// Copies of sessions that were cut off and are gone.
    pub removed: Vec<SessionId>,
}

impl Engine {
    /// Finishes what dead processes left, in every session: the one recovery there is (R45). Run by
    /// several at once, or again, it does everything once.
    ///
    /// # Errors
    ///
    /// The ledger or a snapshot store refused; run it again.
    pub fn recover_all(&self, ctx: &Context) -> Result<RecoveryReport> {
        let ctx = &ctx.without_preconditions();
        let mut done = RecoveryReport {
            interrupted: self.store.recover_turns(ctx)?.interrupted,
            ..RecoveryReport::default()
        };
        for row in self.store.read(ctx, |r| r.change_sets().list_open(None))? {
            match self.close_orphaned_change(ctx, &row) {
                // What still runs cannot be compared; whoever uses that session is told.
                Err(EngineError::ProcessGroup(_)) => {}
                closed => done.closed.extend(closed?),
            }
        }
        for session in self.store.read(ctx, |r| r.operations().sessions_in_operation())? {
            done.finished.extend(self.finish_interrupted_operation(ctx, &session)?);
        }
        done.finished.extend(self.finish_interrupted_evictions(ctx)?);
        self.finish_interrupted_forgets(ctx)?;
        done.removed = self.remove_abandoned_copies(ctx)?;
        Ok(done)
    }

    /// The same for one session, before it is used.
    pub(crate) fn recover_session(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let ctx = &ctx.without_preconditions();
        self.store.recover_turns(ctx)?;
        for row in self.store.read(ctx, |r| r.change_sets().list_open(None))? {
            if row.set.session == *session {
                self.close_orphaned_change(ctx, &row)?;
            }
        }
        self.finish_interrupted_operation(ctx, session)?;
        Ok(())
    }

    /// The same before somebody reads what the turns of a session did; costs one look if there is
    /// nothing to do (R45).
    ///
    /// # Errors
    ///
    /// As [`Engine::recover_all`].
    pub fn ensure_recovered(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        if !self.store.read(ctx, |r| r.change_sets().has_orphaned(session))? {
            return Ok(());
        }
        match self.recover_session(ctx, session) {
            // What still runs is not known yet, and that is what the reader sees.
            Err(EngineError::ProcessGroup(_)) => Ok(()),
            recovered => recovered,
        }
    }

    /// Closes a change set whose turn has ended without it.
    fn close_orphaned_change(&self, ctx: &Context, row: &ChangeSetRow) -> Result<Option<ChangeId>> {
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
                self.update_change_summary(ctx, &set.session)?;
                Ok(Some(set.id.clone()))
            }
            // Somebody else recovered it between our two looks.
            Ok(WriteOutcome::No) | Err(turnstone_store::StoreError::Conflict { .. }) => Ok(None),
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
        let vault = self.open_snapshot_handle(root, ctx.now)?;
        let before = vault.find_capture(before)?;
        let group = session_pin_group(&set.session);
        let named = match set.evidence {
            Evidence::Named => Some(row.named.iter().cloned().collect()),
            Evidence::Window | Evidence::Recovered => None,
        };
        let Some(after) = self.try_capture_with_eviction(ctx, &vault, &group, named.as_ref())?
        else {
            close.changes = unknown_changes(&row.named);
            close.not_covered = row.named.len().max(1) as u64;
            return Ok(close);
        };
        close.changes = compare_captures(&vault, &before, &after.capture)?;
        close.after = Some(after.capture.id.to_string());
        close.not_covered = close.changes.iter().filter(|c| !c.is_covered()).count() as u64;
        Ok(close)
    }
}
