//! Tracking of calls: files are captured before a call runs and compared after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::{ChangeRoot, Evidence};
use turnstone_core::id::{ChangeId, PartId};
use turnstone_core::model::Session;
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{Capture, PinGroup, SnapshotHandle, WrittenPath, read_git_position};
use turnstone_store::{ChangeSetRow, Context, NewChangeSet, Store};

use super::closed_call::ClosedCall;
use super::compare::CallComparison;
use crate::captures::Captures;
use crate::captures::budgeted_capture::BudgetedCapture;
use crate::captures::session_coverage::{
    PathLocation, SnapshotAccess, change_root_of, locate_path,
};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::trace::{CallTrace, TraceFiles};
use crate::error::Result;
use crate::id_generator::IdGenerator;
use crate::tool_calls::file::ReadStamps;
use crate::turns::turn::Turn;

/// Paths in other roots, by root.
type PathsByRoot = BTreeMap<PathBuf, (Arc<SnapshotHandle>, BTreeSet<RelPath>)>;

/// A call that may be changing files right now.
pub struct TrackedCall {
    /// Its change set.
    pub id: ChangeId,
    /// Paths the tool named that lie outside of every root: not covered.
    pub outside: Vec<PathBuf>,
    /// What it does in other roots of the project, one change set for each (R39).
    pub other_roots: Vec<TrackedCall>,
    pub(crate) snapshots: Option<Arc<SnapshotHandle>>,
    pub(crate) before: Option<Capture>,
    pub(crate) named: Option<BTreeSet<RelPath>>,
    /// What it left at all of its paths, if this process wrote them itself: the disk is not asked then.
    pub(crate) written: Option<Vec<WrittenPath>>,
    /// The path of its root when it was opened.
    pub(crate) opened_root: String,
    /// When the capture before it began, in nanoseconds by the time of files.
    pub(crate) captured_from: Option<i64>,
    pub(crate) trace: CallTrace,
}

impl TrackedCall {
    /// False if nothing this call does can be undone: its root is not captured, or it names nothing
    /// that lies in a root.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        let names_nothing = self.named.as_ref().is_some_and(BTreeSet::is_empty);
        let is_elsewhere = names_nothing && self.other_roots.is_empty() && !self.outside.is_empty();
        self.before.is_some() && !is_elsewhere
    }

    /// True if that is so only because the budget is used up and the call runs uncovered (R13).
    #[must_use]
    pub fn is_over_budget(&self) -> bool {
        self.before.is_none() && self.snapshots.is_some()
    }
}

/// What was captured before a call.
#[derive(Default)]
struct OpeningCapture {
    before: Option<Capture>,
    /// When it began, in nanoseconds by the time of files.
    from: Option<i64>,
}

/// The pin group of a session: what keeps its captures.
pub(crate) fn session_pin_group(session: &turnstone_core::id::SessionId) -> PinGroup {
    PinGroup::new(session.as_str())
}

/// Tool calls and the change sets they leave, and files that are read and written for a session.
#[derive(Clone)]
pub struct ToolCalls {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) captures: BudgetedCapture,
    pub(crate) read_stamps: Arc<ReadStamps>,
    pub(crate) lock_folder: PathBuf,
    pub(crate) traces: TraceFiles,
}

impl ToolCalls {
    pub(crate) fn new(
        store: &Arc<Store>,
        ids: &Arc<IdGenerator>,
        captures: &Captures,
        data: &Path,
    ) -> Self {
        Self {
            store: store.clone(),
            id_generator: ids.clone(),
            snapshots: captures.snapshots.clone(),
            captures: captures.budgeted.clone(),
            read_stamps: Arc::new(ReadStamps::new(data)),
            lock_folder: data.join("lock").join("file"),
            traces: captures.traces.clone(),
        }
    }

    /// Announces the paths a tool is about to write; they are captured before this returns (R6).
    ///
    /// # Errors
    ///
    /// The capture or the database failed: then the tool must not write.
    pub fn open_named(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        paths: &[PathBuf],
    ) -> Result<TrackedCall> {
        let session = self.store.read(ctx, |r| r.sessions().get(&turn.session))?;
        let SnapshotAccess::Available(handle) =
            self.snapshots.open_for_session(&session, ctx.now)?
        else {
            let named = (Some(BTreeSet::new()), paths);
            let none = OpeningCapture::default();
            return self.record_open_call(ctx, turn, part, &session, None, named, none);
        };
        let (mut inside, mut elsewhere) = (BTreeSet::new(), Vec::new());
        for path in paths {
            match locate_path(&handle, Path::new(&session.directory), path)? {
                PathLocation::Inside { path, also } => {
                    inside.extend([path].into_iter().chain(also))
                }
                PathLocation::Outside => elsewhere.push(path.clone()),
            }
        }
        let (others, outside) = self.group_paths_by_root(ctx, &session, elsewhere)?;
        let open = |handle: Arc<SnapshotHandle>, paths: BTreeSet<RelPath>, outside: &[PathBuf]| {
            let group = session_pin_group(&turn.session);
            let before = self.captures.capture_by_policy(ctx, &handle, &group, Some(&paths))?;
            let (named, before) = ((Some(paths), outside), OpeningCapture { before, from: None });
            self.record_open_call(ctx, turn, part, &session, Some(handle), named, before)
        };
        let call = open(handle, inside, &outside)?;
        let concurrent = others.into_values().map(|(handle, paths)| open(handle, paths, &[]));
        Ok(TrackedCall { outside, other_roots: concurrent.collect::<Result<_>>()?, ..call })
    }

    /// Finds which paths lie in other roots of the project, and which in none.
    fn group_paths_by_root(
        &self,
        ctx: &Context,
        session: &Session,
        paths: Vec<PathBuf>,
    ) -> Result<(PathsByRoot, Vec<PathBuf>)> {
        let (mut found, mut outside) = (PathsByRoot::new(), Vec::new());
        if paths.is_empty() {
            return Ok((found, outside));
        }
        let project = self.store.read(ctx, |r| r.projects().find(&session.project))?;
        let roots: Vec<String> = project
            .map(|project| std::iter::once(project.worktree).chain(project.sandboxes).collect())
            .unwrap_or_default();
        for path in paths {
            match self.snapshots.locate_in_other_roots(session, &roots, &path, ctx.now)? {
                Some((handle, PathLocation::Inside { path, also })) => {
                    let root = handle.location().root.clone();
                    let (_, paths) = found.entry(root).or_insert((handle, BTreeSet::new()));
                    paths.extend([path].into_iter().chain(also));
                }
                Some((_, PathLocation::Outside)) | None => outside.push(path),
            }
        }
        Ok((found, outside))
    }

    /// Announces a call that names nothing: the whole root is captured before this returns.
    ///
    /// # Errors
    ///
    /// As [`Self::open_named`].
    pub fn open_window(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
    ) -> Result<TrackedCall> {
        let session = self.store.read(ctx, |r| r.sessions().get(&turn.session))?;
        self.open_window_in(ctx, turn, &session, part)
    }

    /// Announces a call that names nothing, in a session that the caller has read.
    pub(crate) fn open_window_in(
        &self,
        ctx: &Context,
        turn: &Turn,
        session: &Session,
        part: Option<&PartId>,
    ) -> Result<TrackedCall> {
        let (handle, before) = match self.snapshots.open_for_session(session, ctx.now)? {
            SnapshotAccess::Available(handle) => {
                let group = session_pin_group(&turn.session);
                // Without the time, a trace of the call cannot be used.
                let from = self.traces.file_time(&self.id_generator.new_change_id(ctx.now)?).ok();
                let before = self.captures.capture_by_policy(ctx, &handle, &group, None)?;
                (Some(handle), OpeningCapture { before, from })
            }
            SnapshotAccess::Refused(_) => (None, OpeningCapture::default()),
        };
        self.record_open_call(ctx, turn, part, session, handle, (None, &[]), before)
    }

    #[expect(clippy::too_many_arguments, reason = "the two ways to open meet here")]
    fn record_open_call(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        session: &Session,
        handle: Option<Arc<SnapshotHandle>>,
        (named, outside): (Option<BTreeSet<RelPath>>, &[PathBuf]),
        OpeningCapture { before, from }: OpeningCapture,
    ) -> Result<TrackedCall> {
        let id = self.id_generator.new_change_id(ctx.now)?;
        let uncovered = || ChangeRoot { store: String::new(), path: session.directory.clone() };
        let root = handle.as_deref().map_or_else(uncovered, change_root_of);
        let open = NewChangeSet {
            id: id.clone(),
            turn: turn.id.clone(),
            part: part.cloned(),
            git: read_git_position(Path::new(&root.path)),
            root,
            evidence: if named.is_some() { Evidence::Named } else { Evidence::Window },
            outer: self.find_parent_window(ctx, session)?,
            named: named.iter().flatten().cloned().collect(),
            outside: outside.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            before: before.as_ref().map(|capture| capture.id.to_string()),
            captured_from: from,
            continues: None,
        };
        let opened_root = open.root.path.clone();
        let name = turn.session.clone();
        self.store
            .write(&turn.context(ctx), move |tx| tx.change_sets().open(&name, &open))
            .wait()?;
        fail::fail_point!("engine::call_open");
        Ok(TrackedCall {
            id,
            outside: Vec::new(),
            other_roots: Vec::new(),
            snapshots: handle,
            before,
            named,
            written: None,
            opened_root,
            captured_from: from,
            trace: CallTrace::NotRequested,
        })
    }

    /// The open window of the session that began this one: what a child does is inside it (R3).
    fn find_parent_window(&self, ctx: &Context, session: &Session) -> Result<Option<ChangeId>> {
        let Some(parent) = &session.parent else {
            return Ok(None);
        };
        let open = self.store.read(ctx, |r| r.change_sets().list_open(None))?;
        let is_outer = |row: &ChangeSetRow| row.set.session == *parent && row.continues.is_none();
        let of_parent = open.into_iter().rev().find(is_outer);
        Ok(of_parent.map(|row| row.set.id))
    }

    /// Captures again and stores what a call changed.
    ///
    /// # Errors
    ///
    /// The capture or the database failed; the change set stays open and recovery closes it.
    pub fn close(&self, ctx: &Context, turn: &Turn, call: &TrackedCall) -> Result<ClosedCall> {
        let (closed, sets) = CallComparison(self).compare(ctx, turn, call)?;
        // One commit each: together, large sets would not fit a transaction.
        let mut context = turn.context(ctx);
        for set in sets {
            let name = turn.session.clone();
            self.store.write(&context, move |tx| tx.change_sets().close(&name, &set)).wait()?;
            context = turn.context(&ctx.without_expected_seq());
        }
        CallComparison(self).remove_traces(call, &closed);
        Ok(closed)
    }

    pub(crate) fn reopen(&self, ctx: &Context, row: ChangeSetRow) -> Result<TrackedCall> {
        let (mut handle, mut capture) = (None, None);
        if let Some(before) = &row.before {
            let found = self.snapshots.of_root(&row.set.root, ctx.now)?;
            capture = Some(found.reader().find_capture(before)?);
            handle = Some(found);
        }
        let named = match row.set.evidence {
            Evidence::Named => Some(row.named.into_iter().collect()),
            Evidence::Window | Evidence::Traced | Evidence::Recovered | Evidence::Imported => None,
        };
        let (outside, concurrent) = (Vec::new(), Vec::new());
        let trace = match self.traces.exists(&row.set.id) {
            true => CallTrace::Requested,
            false => CallTrace::NotRequested,
        };
        Ok(TrackedCall {
            id: row.set.id,
            outside,
            other_roots: concurrent,
            snapshots: handle,
            before: capture,
            named,
            written: None,
            opened_root: row.set.root.path,
            captured_from: row.captured_from,
            trace,
        })
    }
}
