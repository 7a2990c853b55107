//! Recovery: finishes what a process that died left open. Safe to run by several at once (R45).

use std::path::Path;

use turnstone_core::change::Evidence;
use turnstone_core::id::{ChangeId, OperationId, SessionId, TurnId};
use turnstone_snapshot::git_point;
use turnstone_store::{ChangeRow, Changed, CloseChange, Context};

use crate::call::{compare, group_of};
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::room::unknown;

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
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
    pub fn recover(&self, ctx: &Context) -> Result<Recovered> {
        let ctx = &ctx.aside();
        let mut done =
            Recovered { interrupted: self.store.recover(ctx)?.interrupted, ..Recovered::default() };
        for row in self.store.read(ctx, |r| r.open_changes(None))? {
            match self.close_orphan(ctx, &row) {
                // What still runs cannot be compared; whoever uses that session is told.
                Err(EngineError::Group(_)) => {}
                closed => done.closed.extend(closed?),
            }
        }
        for session in self.store.read(ctx, |r| r.sessions_in_operation())? {
            done.finished.extend(self.finish_cut_off(ctx, &session)?);
        }
        done.finished.extend(self.finish_expiries(ctx)?);
        self.finish_forgets(ctx)?;
        done.removed = self.sweep_copies(ctx)?;
        Ok(done)
    }

    /// The same for one session, before it is used.
    pub(crate) fn recover_session(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        let ctx = &ctx.aside();
        self.store.recover(ctx)?;
        for row in self.store.read(ctx, |r| r.open_changes(None))? {
            if row.set.session == *session {
                self.close_orphan(ctx, &row)?;
            }
        }
        self.finish_cut_off(ctx, session)?;
        Ok(())
    }

    /// The same before somebody reads what the turns of a session did; costs one look if there is
    /// nothing to do (R45).
    ///
    /// # Errors
    ///
    /// As [`Engine::recover`].
    pub fn meet(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        if !self.store.read(ctx, |r| r.has_orphans(session))? {
            return Ok(());
        }
        match self.recover_session(ctx, session) {
            // What still runs is not known yet, and that is what the reader sees.
            Err(EngineError::Group(_)) => Ok(()),
            recovered => recovered,
        }
    }

    /// Closes a change set whose turn has ended without it.
    fn close_orphan(&self, ctx: &Context, row: &ChangeRow) -> Result<Option<ChangeId>> {
        let set = &row.set;
        let turns = self.store.read(ctx, |r| r.turns(&set.session))?;
        let runs = turns.iter().any(|turn| turn.id == set.turn && turn.state.is_open());
        if runs {
            return Ok(None);
        }
        self.await_group(ctx, set)?;
        let close = self.compare_orphan(ctx, row)?;
        let session = set.session.clone();
        let written = self.store.write(ctx, move |tx| tx.recover_change(&session, &close)).wait();
        match written {
            Ok(Changed::Created | Changed::Updated) => {
                self.restate_changes(ctx, &set.session)?;
                Ok(Some(set.id.clone()))
            }
            // Somebody else recovered it between our two looks.
            Ok(Changed::No) | Err(turnstone_store::StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Compares what is there now with what was there before the call.
    fn compare_orphan(&self, ctx: &Context, row: &ChangeRow) -> Result<CloseChange> {
        let set = &row.set;
        let mut close = CloseChange {
            id: set.id.clone(),
            evidence: Evidence::Recovered,
            after: None,
            changes: Vec::new(),
            not_covered: 0,
            git: git_point(Path::new(&set.root.path)),
        };
        let root = Path::new(&set.root.path);
        let Some(before) = row.before.as_deref().filter(|_| root.is_dir()) else {
            // Nothing was captured before, or nothing is left to look at.
            if !set.root.store.is_empty() {
                close.changes = unknown(&row.named);
            }
            let at_least = usize::from(!set.root.store.is_empty());
            close.not_covered = row.named.len().max(at_least) as u64;
            return Ok(close);
        };
        let vault = self.vault(root, ctx.now)?;
        let before = vault.find_capture(before)?;
        let group = group_of(&set.session);
        let named = match set.evidence {
            Evidence::Named => Some(row.named.iter().cloned().collect()),
            Evidence::Window | Evidence::Recovered => None,
        };
        let Some(after) = self.capture_after(ctx, &vault, &group, named.as_ref())? else {
            close.changes = unknown(&row.named);
            close.not_covered = row.named.len().max(1) as u64;
            return Ok(close);
        };
        close.changes = compare(&vault, &before, &after.capture)?;
        close.after = Some(after.capture.id.to_string());
        close.not_covered = close.changes.iter().filter(|c| !c.is_covered()).count() as u64;
        Ok(close)
    }
}
