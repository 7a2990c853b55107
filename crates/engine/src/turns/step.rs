//! Steps: one model call of a turn, with what the worktree was before and after it (R42).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Number, Value};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{
    ExtraFields, Message, MessageBody, Part, PartBody, PatchPart, Session, StepFinishPart,
    StepStartPart, TokenCounts, ToolPart, ToolState,
};
use turnstone_core::time::LogCursor;
use turnstone_store::{ChangeSetRow, Context, EventPosition, Store};

use crate::captures::budgeted_capture::BudgetedCapture;
use crate::captures::session_coverage::SnapshotAccess;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::watched_roots::WatchedRoots;
use crate::error::Result;
use crate::id_generator::IdGenerator;
use crate::tool_calls::tracked_call::{ClosedCall, ToolCalls, TrackedCall, session_pin_group};
use crate::turns::step_usage::{add_numbers, sum_finished_costs};
use crate::turns::turn::Turn;

/// A model call that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelStep {
    /// The answer it writes.
    pub message: MessageId,
    /// The tree of the worktree when it began; none before there is a baseline.
    pub snapshot: Option<String>,
    /// Where the log stood.
    began: LogCursor,
}

impl ModelStep {
    /// A model call whose beginning is in the database, at `at`.
    pub(crate) const fn from_database(
        message: MessageId,
        snapshot: Option<String>,
        at: LogCursor,
    ) -> Self {
        Self { message, snapshot, began: at }
    }
}

/// How a model call ended.
#[derive(Clone, Debug, PartialEq)]
pub struct StepEnd {
    /// Why the model stopped.
    pub reason: String,
    /// What it cost.
    pub cost: Number,
    /// Its tokens.
    pub tokens: TokenCounts,
    /// The answer in the form that its prompt asked for.
    pub structured: Option<Value>,
}

/// What is kept of a model call that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// The tree of the worktree; none before there is a baseline.
    pub snapshot: Option<String>,
    /// The files the turn itself changed in this step, absolute (R21).
    pub files: Vec<PathBuf>,
}

/// What a tool may do to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolFileAccess {
    /// Nothing.
    Nothing,
    /// It writes these and no others.
    Named(Vec<PathBuf>),
    /// Whatever it wants.
    Anything,
}

/// A tool that runs.
pub struct ToolRun {
    part: Part,
    call: Option<TrackedCall>,
}

impl ToolRun {
    pub(crate) const fn from_database(part: Part, call: Option<TrackedCall>) -> Self {
        Self { part, call }
    }

    /// What it may do to files; nothing if it touches none.
    #[must_use]
    pub const fn call(&self) -> Option<&TrackedCall> {
        self.call.as_ref()
    }
}

/// Model calls of a turn, and the tools that run in them.
#[derive(Clone)]
pub struct Steps {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) watched_roots: Arc<WatchedRoots>,
    pub(crate) captures: BudgetedCapture,
    pub(crate) calls: ToolCalls,
}

impl Steps {
    /// Begins a model call: its answer and the mark of its beginning are written at once.
    ///
    /// # Errors
    ///
    /// The database refused; a worktree that cannot be captured is no error (R42).
    pub fn begin(&self, ctx: &Context, turn: &Turn, answer: Message) -> Result<ModelStep> {
        let session = self.store.read(ctx, |r| r.sessions().get(&turn.session))?;
        self.watched_roots.wait_for_first_capture(Path::new(&session.directory));
        let snapshot = self.capture_step_tree(ctx, &session)?;
        let began = self.store.read(ctx, |r| r.log().last_cursor())?;
        let body = StepStartPart { snapshot: snapshot.clone(), extra: ExtraFields::new() };
        let part = self.new_part(ctx, &answer, PartBody::StepStart(body))?;
        let message = answer.id.clone();
        let compacting = is_summary(&answer).then(|| Number::from(ctx.now.0));
        let begin = move |tx: &turnstone_store::Tx<'_>| {
            if compacting.is_some() {
                mark_compacting(tx, &answer.session, compacting.as_ref())?;
            }
            tx.messages().put(&answer)?;
            tx.messages().put_part(&part)
        };
        self.store.write(&turn.context(ctx), begin).wait()?;
        Ok(ModelStep { message, snapshot, began })
    }

    /// Ends a model call: usage, what it changed, and the answer, all or nothing.
    ///
    /// # Errors
    ///
    /// The database refused: the step is still open and ends with its turn.
    pub fn end(
        &self,
        ctx: &Context,
        turn: &Turn,
        step: &ModelStep,
        end: &StepEnd,
    ) -> Result<StepReport> {
        let session = self.store.read(ctx, |r| r.sessions().get(&turn.session))?;
        let snapshot = self.capture_step_tree(ctx, &session)?;
        let (found, rows) = self.store.read(ctx, |r| {
            let found = r.messages().get(&turn.session, &step.message)?;
            Ok((found, r.change_sets().of_turn(&turn.session, &turn.id)?))
        })?;
        let mut answer = found.message;
        let rows: Vec<&ChangeSetRow> = rows.iter().filter(|row| row.opened > step.began).collect();
        let files = list_changed_files(&rows);
        let finish = StepFinishPart {
            reason: end.reason.clone(),
            snapshot: snapshot.clone(),
            cost: end.cost.clone(),
            tokens: end.tokens.clone(),
            extra: ExtraFields::new(),
        };
        let mut parts = vec![self.new_part(ctx, &answer, PartBody::StepFinish(finish))?];
        if let Some(patch) = self.build_patch(ctx, turn, step, &rows, &files)? {
            parts.push(self.new_part(ctx, &answer, PartBody::Patch(patch))?);
        }
        if let MessageBody::Assistant(said) = &mut answer.body {
            said.finish = Some(end.reason.clone());
            // What was reported while it ran is part of this.
            said.cost = add_numbers(&sum_finished_costs(&found.parts), &end.cost);
            said.tokens = end.tokens.clone();
            if end.structured.is_some() {
                said.structured.clone_from(&end.structured);
            }
            said.time.completed = Some(Number::from(ctx.now.0));
        }
        let write = move |tx: &turnstone_store::Tx<'_>| {
            parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))?;
            if is_summary(&answer) {
                mark_compacting(tx, &answer.session, None)?;
            }
            tx.messages().put(&answer)
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(StepReport { snapshot, files })
    }

    /// The tree of the worktree, if a capture costs no more than what changed.
    fn capture_step_tree(&self, ctx: &Context, session: &Session) -> Result<Option<String>> {
        match self.snapshots.open_for_session(session, ctx.now)? {
            SnapshotAccess::Available(handle) if handle.reader().has_baseline() => {
                // A step continues without one that does not fit.
                let captured = self.captures.try_capture(
                    ctx,
                    &handle,
                    &session_pin_group(&session.id),
                    None,
                )?;
                Ok(captured.map(|it| it.capture.tree.to_string()))
            }
            SnapshotAccess::Available(_) | SnapshotAccess::Refused(_) => Ok(None),
        }
    }

    /// What the turn itself changed, for clients that show it; nothing is decided by it (R21).
    fn build_patch(
        &self,
        ctx: &Context,
        turn: &Turn,
        step: &ModelStep,
        rows: &[&ChangeSetRow],
        files: &[PathBuf],
    ) -> Result<Option<PatchPart>> {
        if files.is_empty() {
            return Ok(None);
        }
        let hash = match (&step.snapshot, rows.iter().find_map(|row| row.before.as_deref())) {
            (Some(tree), _) => tree.clone(),
            (None, Some(before)) => {
                let session = self.store.read(ctx, |r| r.sessions().get(&turn.session))?;
                let SnapshotAccess::Available(handle) =
                    self.snapshots.open_for_session(&session, ctx.now)?
                else {
                    return Ok(None);
                };
                handle.reader().find_capture(before)?.tree.to_string()
            }
            (None, None) => return Ok(None),
        };
        let files = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        Ok(Some(PatchPart { hash, files, extra: ExtraFields::new() }))
    }

    fn new_part(&self, ctx: &Context, message: &Message, body: PartBody) -> Result<Part> {
        let (session, message) = (message.session.clone(), message.id.clone());
        Ok(Part { id: self.id_generator.new_part_id(ctx.now)?, session, message, body })
    }

    /// Announces a tool: its part runs, and what it may touch is captured before this returns.
    ///
    /// # Errors
    ///
    /// As [`crate::ToolCalls::open_named`]: then the tool must not run.
    pub fn begin_tool(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: &Part,
        touch: &ToolFileAccess,
    ) -> Result<ToolRun> {
        let running = part.clone();
        self.store.write(&turn.context(ctx), move |tx| tx.messages().put_part(&running)).wait()?;
        // What the caller relied on held when the part was written (R43).
        let ctx = &ctx.without_expected_seq();
        let call = match touch {
            ToolFileAccess::Nothing => None,
            ToolFileAccess::Named(paths) => {
                Some(self.calls.open_named(ctx, turn, Some(&part.id), paths)?)
            }
            ToolFileAccess::Anything => Some(self.calls.open_window(ctx, turn, Some(&part.id))?),
        };
        Ok(ToolRun { part: part.clone(), call })
    }

    /// Ends a tool: its changes are stored first, then its result.
    ///
    /// # Errors
    ///
    /// The capture or the database failed: the tool is still open and ends with its turn.
    pub fn end_tool(
        &self,
        ctx: &Context,
        turn: &Turn,
        run: ToolRun,
        state: ToolState,
    ) -> Result<Option<ClosedCall>> {
        let ToolRun { mut part, call } = run;
        let is_open = call.is_some();
        let closed = call.map(|call| self.calls.close(ctx, turn, &call)).transpose()?;
        let ctx = &if is_open { ctx.without_expected_seq() } else { ctx.clone() };
        if let PartBody::Tool(tool) = &mut part.body {
            **tool = ToolPart { state, ..(**tool).clone() };
        }
        self.store.write(&turn.context(ctx), move |tx| tx.messages().put_part(&part)).wait()?;
        Ok(closed)
    }

    /// Stores a part of an answer of a turn, under the lease of the turn.
    ///
    /// # Errors
    ///
    /// As `MessageMutations::put_part`; [`turnstone_store::StoreError::Fenced`] if another process took the session over.
    pub fn put_part(&self, ctx: &Context, turn: &Turn, part: Part) -> Result<()> {
        self.store.write(&turn.context(ctx), move |tx| tx.messages().put_part(&part)).wait()?;
        Ok(())
    }

    /// Adds streamed text to a part: durable when this returns (R24).
    ///
    /// # Errors
    ///
    /// As [`turnstone_store::MessageMutations::append_text`].
    pub fn append_text(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: &PartId,
        delta: &str,
    ) -> Result<Option<EventPosition>> {
        let (session, part, delta) = (turn.session.clone(), part.clone(), delta.to_owned());
        let append =
            move |tx: &turnstone_store::Tx<'_>| tx.messages().append_text(&session, &part, &delta);
        Ok(self.store.write(&turn.context(ctx), append).wait()?)
    }
}

/// True for the summary of a compaction.
fn is_summary(answer: &Message) -> bool {
    matches!(&answer.body, MessageBody::Assistant(said) if said.summary == Some(true))
}

/// Stores since when the context of a session is being compacted; `None` at the end.
pub(super) fn mark_compacting(
    tx: &turnstone_store::Tx<'_>,
    session: &SessionId,
    since: Option<&Number>,
) -> Result<(), turnstone_store::StoreError> {
    let set = |session: &mut turnstone_core::model::Session| {
        session.time.compacting = since.cloned();
        Ok(())
    };
    tx.sessions().update(session, set).map(drop)
}

/// The files of change sets, absolute, each once.
fn list_changed_files(rows: &[&ChangeSetRow]) -> Vec<PathBuf> {
    let mut files = BTreeSet::new();
    for row in rows.iter().filter(|row| row.closed.is_some()) {
        let root = PathBuf::from(&row.set.root.path);
        let path = |path: &turnstone_core::rel_path::RelPath| {
            use std::os::unix::ffi::OsStrExt;
            root.join(std::ffi::OsStr::from_bytes(path.as_bytes()))
        };
        let changed = row.set.changes.iter().filter(|change| !change.is_directory_only());
        files.extend(changed.map(|change| path(&change.path)));
    }
    files.into_iter().collect()
}
