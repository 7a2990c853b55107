//! Forking into a worktree of its own: the files of the point, and captures that depend on nothing
//! of the original (R12, R40).
//!
//! Everything that undo of a copied turn needs is in the store of the new worktree before the
//! first row of the copy is written. Its change sets have new ids: they are about other
//! files now, and an undo in one session changes nothing in the other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::ChangeRoot;
use turnstone_core::id::{ChangeId, MessageId, SessionId};
use turnstone_core::model::Session;
use turnstone_core::time::LogCursor;
use turnstone_snapshot::{
    Capture, Oid, OperationAction, OperationRequest, RestoreOperationId, RestoreReport,
    SnapshotError, SnapshotHandle,
};
use turnstone_store::{Context, Store, StoreError};

use super::copy::SessionCopy;
use crate::captures::budgeted_capture::BudgetedCapture;
use crate::captures::session_coverage::{SnapshotAccess, change_root_of};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::fork::SessionCopies;
use crate::history::historical_state::HistoricalState;
use crate::id_generator::IdGenerator;
use crate::projects::worktree::{WorktreeError, WorktreeInfo, WorktreeRequest, Worktrees};
use crate::tool_calls::tracked_call::session_pin_group;

/// A fork with its own files.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkedWorktree {
    /// The copy.
    pub session: Session,
    /// Where its files are.
    pub worktree: WorktreeInfo,
    /// What was done to the files of the checkout to make them those of the point.
    pub report: RestoreReport,
}

/// The files a fork begins with.
struct ForkFiles {
    /// The store they are captured in.
    handle: Arc<SnapshotHandle>,
    capture: Capture,
    /// The place in the log they are of; none: the present.
    at: Option<LogCursor>,
    /// The commit the user's repository stood at then.
    commit: Option<String>,
}

/// Forks of a session, in place or into a worktree of their own.
#[derive(Clone)]
pub struct Forks {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) captures: BudgetedCapture,
    pub(crate) worktrees: Worktrees,
    pub(crate) copies: SessionCopies,
}

impl Forks {
    /// Copies a session up to a message, or up to its head, into a new worktree that holds the
    /// files as they were at that point.
    ///
    /// # Errors
    ///
    /// [`WorktreeError::NotGit`] where no worktree can be made, [`WorktreeError::NoCapture`] for
    /// what no capture holds. Nothing is left then, neither worktree nor session.
    pub fn fork_into_worktree(
        &self,
        ctx: &Context,
        session: &SessionId,
        at: Option<&MessageId>,
        new: &WorktreeRequest,
    ) -> Result<ForkedWorktree, WorktreeError> {
        let original = self.store.read(ctx, |r| r.sessions().get(session));
        let original = original.map_err(crate::EngineError::from)?;
        let mut copy = self.copies.plan(ctx, session, at)?;
        let files = self.find_fork_files(ctx, &original, at)?;
        let from = new.from.clone().or_else(|| files.commit.clone());
        let project = original.project.clone();
        let made = self.worktrees.add(ctx, &project, &WorktreeRequest { from, ..new.clone() })?;
        let directory = PathBuf::from(&made.directory);
        let filled = self.fill_worktree(ctx, &files, &directory, &mut copy);
        let report = match filled {
            Ok(report) => report,
            Err(error) => {
                self.worktrees.discard(ctx, &project, &made, &error)?;
                return Err(error);
            }
        };
        let worktree = self.worktrees.record_ready(ctx, &project, made)?;
        let home = match original.path.as_deref().filter(|path| !path.is_empty()) {
            Some(path) if directory.join(path).is_dir() => directory.join(path),
            Some(_) | None => directory,
        };
        copy.session.directory = home.to_string_lossy().into_owned();
        let session = self.copies.write_or_delete(ctx, &copy)?;
        Ok(ForkedWorktree { session, worktree, report })
    }

    /// Removes a copy that an interrupted fork left behind.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`]; [`StoreError::Invalid`] if the copy is complete.
    pub fn discard_partial(&self, ctx: &Context, copy: &SessionId) -> Result<()> {
        let found = self.store.read(ctx, |r| r.sessions().get(copy))?;
        if found.origin.is_some() {
            return Err(StoreError::Invalid(format!("{copy} is a complete fork")).into());
        }
        self.store.delete_session(&ctx.without_preconditions(), copy)?;
        Ok(())
    }

    /// Finds the capture of the files of a point.
    fn find_fork_files(
        &self,
        ctx: &Context,
        session: &Session,
        at: Option<&MessageId>,
    ) -> Result<ForkFiles, WorktreeError> {
        let handle = match self.snapshots.open_for_session(session, ctx.now)? {
            SnapshotAccess::Available(handle) => handle,
            SnapshotAccess::Refused(why) => {
                let session = session.id.clone();
                return Err(WorktreeError::NotCaptured { session, why: why.to_string() });
            }
        };
        let Some(message) = at else {
            // At the head, the present files are the right ones.
            let capture =
                self.captures.capture(ctx, &handle, &session_pin_group(&session.id), None)?.capture;
            return Ok(ForkFiles { handle, capture, at: None, commit: None });
        };
        let found = self.find_capture_before(ctx, session, &handle, message)?;
        let (capture, cut) = found.ok_or_else(|| WorktreeError::NoCapture {
            session: session.id.clone(),
            message: message.clone(),
        })?;
        let commit = self.find_commit_at(ctx, session, &handle, cut)?;
        Ok(ForkFiles { handle, capture, at: Some(cut), commit })
    }

    /// The commit the user's repository stood at; nothing if no call near that place tells.
    fn find_commit_at(
        &self,
        ctx: &Context,
        session: &Session,
        handle: &SnapshotHandle,
        cut: LogCursor,
    ) -> Result<Option<String>> {
        let rows = self.store.read(ctx, |r| r.change_sets().list(&session.id))?;
        let store = handle.location().id.as_str();
        let mut points = Vec::new();
        for row in rows.iter().filter(|row| row.set.root.store == store) {
            if let Some(git) = &row.set.git {
                points.push((row.opened, git.before.head.clone()));
                points.extend(row.closed.map(|at| (at, git.after.head.clone())));
            }
        }
        points.sort_by_key(|(at, _)| *at);
        let next = points.iter().find(|(at, _)| *at > cut);
        let last = points.iter().rev().find(|(at, _)| *at <= cut);
        Ok(next.or(last).and_then(|(_, head)| head.clone()))
    }

    /// Brings captures and files to a new worktree, and the change sets of a copy to its store.
    fn fill_worktree(
        &self,
        ctx: &Context,
        files: &ForkFiles,
        directory: &Path,
        copy: &mut SessionCopy,
    ) -> Result<RestoreReport, WorktreeError> {
        let handle = self.snapshots.open(directory, ctx.now).map_err(crate::EngineError::from)?;
        let group = session_pin_group(&copy.session.id);
        let mut captures = self.move_changes_to_root(ctx, files, &change_root_of(&handle), copy)?;
        captures.push(files.capture.id);
        let copied = handle.copy_captures(&files.handle, &captures, &group, ctx.now);
        copied.map_err(crate::EngineError::from)?;
        fail::fail_point!("engine::fork_captures", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        let report =
            restore_capture(&handle, &files.capture, ctx).map_err(crate::EngineError::from)?;
        fail::fail_point!("engine::fork_filled", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        if report.conflicts.is_empty() {
            return Ok(report);
        }
        let paths = report.conflicts.iter().map(|it| it.path.to_string()).collect();
        Err(WorktreeError::NotFilled { directory: directory.to_owned(), paths })
    }

    /// Gives the change sets of a copy ids and a root of their own; returns the captures they need.
    ///
    /// What a turn did in other roots of the project is not copied: those files are the original's.
    fn move_changes_to_root(
        &self,
        ctx: &Context,
        files: &ForkFiles,
        to: &ChangeRoot,
        copy: &mut SessionCopy,
    ) -> Result<Vec<Oid>> {
        let store = files.handle.location().id.as_str();
        copy.changes.retain(|selected| selected.row.set.root.store == store);
        copy.has_own_files = true;
        let origin = copy.session.origin.as_ref().map(|origin| origin.session.clone());
        let past = match (files.at, origin) {
            (Some(at), Some(origin)) => {
                let operations = self.store.read(ctx, |r| r.operations().list(&origin))?;
                Some(HistoricalState::at(&operations, at))
            }
            _ => None,
        };
        let mut ids: HashMap<ChangeId, ChangeId> = HashMap::new();
        for selected in &copy.changes {
            ids.insert(selected.row.set.id.clone(), self.id_generator.new_change_id(ctx.now)?);
        }
        let mut captures = Vec::new();
        for selected in &mut copy.changes {
            let row = &mut selected.row;
            let set = &mut row.set;
            selected.wanted =
                past.as_ref().map_or(selected.undone.clone(), |past| past.undone_extent(&set.id));
            let outer = set.outer.as_ref().and_then(|outer| ids.get(outer));
            set.outer = outer.cloned();
            set.root = to.clone();
            if let Some(id) = ids.get(&set.id) {
                set.id = id.clone();
            }
            for name in row.before.iter().chain(&row.after) {
                match files.handle.reader().find_capture(name) {
                    Ok(capture) => captures.push(capture.id),
                    // That turn cannot be undone in the original either.
                    Err(SnapshotError::NoCapture { .. }) => {
                        copy.expired_turns.insert(selected.turn.clone());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(captures)
    }

    /// Copies a session up to a message, or up to its head, into a new session.
    ///
    /// Every message and part has a new id. Change sets keep theirs: what is undone in one of
    /// the sessions is undone in both. Until the copy is complete it is archived and has no origin.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::Fork`] if the session has no such message. The original is never
    /// touched; a copy that was cut off is never shown, and recovery removes it.
    pub fn fork_session(
        &self,
        ctx: &Context,
        session: &SessionId,
        at: Option<&MessageId>,
    ) -> Result<Session> {
        let mut copy = self.copies.plan(ctx, session, at)?;
        // The original is only read; that read compared the sequence number the caller expects.
        let ctx = &ctx.without_expected_seq();
        self.copies.pin_captures(ctx, &mut copy)?;
        self.copies.write_or_delete(ctx, &copy)
    }
}

/// Makes the files of a fresh checkout those of a capture.
fn restore_capture(
    handle: &SnapshotHandle,
    capture: &Capture,
    ctx: &Context,
) -> Result<RestoreReport, SnapshotError> {
    let target = handle.reader().find_capture(&capture.id.to_string())?;
    let plan = handle.plan_restore(&target, None, false, ctx.now)?;
    let action = OperationAction::Restore { tree: capture.tree, paths: Vec::new() };
    handle.apply_once(
        &OperationRequest { id: RestoreOperationId::generate()?, action, plan },
        ctx.now,
    )
}
