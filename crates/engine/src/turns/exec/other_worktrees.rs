//! What a command does in the other worktrees of its project (R39).
//!
//! A command claims there what its trace saw it write, and nothing else: worktrees exist so that people and agents work
//! side by side. Without a trace it is not known whose the changes are: they are named. Only small worktrees, and few
//! of them, are compared; the others are named, too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::{Evidence, FileChange, GitPosition};
use turnstone_core::id::PartId;
use turnstone_core::model::Session;
use turnstone_snapshot::{Capture, JournalState, SnapshotHandle, read_git_position};
use turnstone_store::{CloseChangeSet, Context, NewChangeSet, Tx};

use crate::captures::partial_capture::ClosingCapture;
use crate::captures::session_coverage::change_root_of;
use crate::captures::trace::{AttributedChanges, TracedWindow};
use crate::error::Result;
use crate::tool_calls::tracked_call::{
    CallComparison, ClosedCall, TrackedCall, compare_captures, session_pin_group,
};
use crate::turns::exec::Commands;
use crate::turns::turn::Turn;

/// So many other worktrees are compared.
const MAX_WORKTREES: usize = 4;
/// A worktree with more files is compared only if the kernel reports its changes: a walk would take too long.
const MAX_FILES: usize = 2_000;
/// The size of a git index with about so many files.
const MAX_GIT_INDEX_BYTES: u64 = 200_000;

/// The other worktrees of the project of a command, before it runs.
#[derive(Default)]
pub(super) struct OtherWorktrees {
    /// Those that are compared afterwards.
    windows: Vec<WorktreeWindow>,
    /// Those that are not.
    pub(super) skipped: Vec<PathBuf>,
}

/// A worktree that is compared after a command.
struct WorktreeWindow {
    handle: Arc<SnapshotHandle>,
    before: Capture,
    git: Option<GitPosition>,
    /// When the capture began.
    captured_from: Option<i64>,
}

/// Compares the other worktrees of a project before and after a command.
pub(super) struct WorktreeComparison<'c> {
    pub(super) commands: &'c Commands,
}

impl WorktreeComparison<'_> {
    /// Captures the other worktrees of the project that can be compared quickly.
    pub(super) fn open_all(
        &self,
        ctx: &Context,
        session: &Session,
        own: &SnapshotHandle,
    ) -> OtherWorktrees {
        let mut found = OtherWorktrees::default();
        let project = match self.commands.store.read(ctx, |r| r.projects().find(&session.project)) {
            Ok(Some(project)) => project,
            Ok(None) => return found,
            // The command does not depend on it.
            Err(error) => {
                tracing::warn!("the other worktrees are not compared: {error}");
                return found;
            }
        };
        let own = &own.location().root;
        let is_other =
            |root: &&Path| root.is_dir() && !root.starts_with(own) && !own.starts_with(root);
        let all = std::iter::once(&project.worktree).chain(&project.sandboxes);
        let mut roots: Vec<&Path> = all.map(Path::new).filter(is_other).collect();
        roots.sort_unstable();
        roots.dedup();
        for root in roots {
            match self.open(ctx, session, root, found.windows.len()) {
                Ok(Some(window)) => found.windows.push(window),
                Ok(None) => found.skipped.push(root.to_owned()),
                Err(error) => {
                    tracing::info!("{} is not compared: {error}", root.display());
                    found.skipped.push(root.to_owned());
                }
            }
        }
        found
    }

    fn open(
        &self,
        ctx: &Context,
        session: &Session,
        root: &Path,
        count: usize,
    ) -> Result<Option<WorktreeWindow>> {
        if count >= MAX_WORKTREES {
            return Ok(None);
        }
        let known = self.commands.snapshots.find(root, ctx.now)?;
        let is_cheap = match &known {
            Some(handle) => {
                let status = handle.maintenance().status()?;
                let is_watched = status.journal.state == JournalState::On;
                match status.files {
                    0 => is_small_checkout(root),
                    files => is_watched || files <= MAX_FILES,
                }
            }
            None => is_small_checkout(root),
        };
        if !is_cheap {
            return Ok(None);
        }
        let handle = match known {
            Some(handle) => handle,
            None => self.commands.snapshots.open(root, ctx.now)?,
        };
        let commands = self.commands;
        let name = commands.id_generator.new_change_id(ctx.now)?;
        let captured_from = commands.calls.traces.file_time(&name).ok();
        let group = session_pin_group(&session.id);
        let before = self.commands.calls.captures.try_capture(ctx, &handle, &group, None)?;
        let git = read_git_position(root);
        Ok(before.map(|before| {
            let before = before.capture;
            WorktreeWindow { handle, before, git, captured_from }
        }))
    }

    /// Compares the other worktrees after a command: records what it changed, and names what it may have changed.
    pub(super) fn close_all(
        &self,
        ctx: &Context,
        (turn, part): (&Turn, &PartId),
        call: &TrackedCall,
        others: OtherWorktrees,
        closed: &mut ClosedCall,
    ) {
        for window in others.windows {
            let root = window.handle.location().root.clone();
            match self.close(ctx, (turn, part), call, &window, closed) {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!("{} is not compared: {error}", root.display());
                    closed.uncompared.push(root);
                }
            }
        }
        closed.uncompared.extend(others.skipped);
    }

    fn close(
        &self,
        ctx: &Context,
        (turn, part): (&Turn, &PartId),
        call: &TrackedCall,
        window: &WorktreeWindow,
        closed: &mut ClosedCall,
    ) -> Result<()> {
        let WorktreeWindow { handle, before, captured_from, .. } = window;
        let (group, root) = (session_pin_group(&turn.session), change_root_of(handle));
        let taken =
            self.commands.calls.captures.capture_after(ctx, handle, &group, before, None)?;
        let ClosingCapture::Complete(after) = taken else {
            closed.uncompared.push(handle.location().root.clone());
            return Ok(());
        };
        let changes = compare_captures(handle, before, &after)?;
        if changes.is_empty() {
            return Ok(());
        }
        let traced = TracedWindow {
            change: &call.id,
            handle,
            opened_root: &root.path,
            captured_from: *captured_from,
            before,
            after: Some(&after),
        };
        let comparison = CallComparison(&self.commands.calls);
        let found = comparison.attribute_in(call, Some(&traced), changes);
        if !found.is_traced {
            let path = |change: &FileChange| {
                Path::new(&root.path).join(OsStr::from_bytes(change.path.as_bytes()))
            };
            closed.unclaimed.extend(found.changes.iter().map(path));
            return Ok(());
        }
        if found.changes.is_empty() {
            return Ok(());
        }
        closed.other_roots.push(self.record(ctx, (turn, part), window, &after, found)?);
        Ok(())
    }

    /// Records what the command changed in one worktree, as a further change set of its call.
    fn record(
        &self,
        ctx: &Context,
        (turn, part): (&Turn, &PartId),
        WorktreeWindow { handle, before, git, captured_from }: &WorktreeWindow,
        after: &Capture,
        AttributedChanges { changes, report, .. }: AttributedChanges,
    ) -> Result<ClosedCall> {
        let root = change_root_of(handle);
        let id = self.commands.id_generator.new_change_id(ctx.now)?;
        let not_covered = changes.iter().filter(|change| !change.is_covered()).count() as u64;
        let close = CloseChangeSet {
            id: id.clone(),
            evidence: Evidence::Traced,
            after: Some(after.id.to_string()),
            changes: changes.clone(),
            not_covered,
            git: read_git_position(Path::new(&root.path)),
            trace: Some(report),
        };
        let open = NewChangeSet {
            id: id.clone(),
            turn: turn.id.clone(),
            part: Some(part.clone()),
            git: git.clone(),
            root,
            evidence: Evidence::Window,
            outer: None,
            named: Vec::new(),
            outside: Vec::new(),
            before: Some(before.id.to_string()),
            captured_from: *captured_from,
            continues: None,
        };
        let session = turn.session.clone();
        let write = move |tx: &Tx<'_>| {
            tx.change_sets().open(&session, &open)?;
            tx.change_sets().close(&session, &close)
        };
        self.commands.store.write(&turn.context(ctx), write).wait()?;
        Ok(ClosedCall::new(id, Evidence::Traced, changes, not_covered))
    }
}

/// True if the git index of a checkout tells that it has few files.
fn is_small_checkout(root: &Path) -> bool {
    let mark = root.join(".git");
    let folder = match fs_err::read_to_string(&mark) {
        Ok(text) => text.strip_prefix("gitdir: ").map(|path| root.join(path.trim_end())),
        Err(_) => Some(mark),
    };
    let index = folder.and_then(|folder| fs_err::metadata(folder.join("index")).ok());
    index.is_some_and(|index| index.len() <= MAX_GIT_INDEX_BYTES)
}
