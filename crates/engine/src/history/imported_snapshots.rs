//! Steps of imported turns whose files OpenCode's own snapshots still hold: they become change sets (R21).
//!
//! A step names the tree that it found in its `patch` part and the tree that it left in the `step-finish` part before
//! it. Both are copied into the store of the session's directory, and the source can go. What cannot be copied stays
//! a file of an imported turn: not covered, and named.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use turnstone_core::change::{ChangeRoot, Evidence};
use turnstone_core::id::{ChangeId, PartId, SessionId, TurnId};
use turnstone_core::model::PartBody;
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{
    AdoptedStep, ForeignSnapshots, Oid, RecordedPath, RecordedStep, SnapshotHandle,
    find_foreign_snapshots,
};
use turnstone_store::{CloseChangeSet, Context, NewChangeSet, ReadTx, StoreError};

use crate::captures::session_coverage::{SnapshotAccess, change_root_of};
use crate::error::{EngineError, Result};
use crate::history::imported_session::ImportedSessions;
use crate::history::timeline::Timeline;
use crate::tool_calls::tracked_call::{compare_captures, session_pin_group};

/// Steps that are copied at once.
const MAX_STEPS: usize = 64;
/// Files of steps that are copied at once, unless one step has more.
const MAX_FILES: usize = 20_000;

/// What became of the snapshots of imported sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotAdoptionReport {
    /// Steps that can be undone now.
    pub steps: u64,
    /// Files that they changed.
    pub files: u64,
    /// Those of them that are not covered.
    pub not_covered: u64,
    /// Steps that an earlier import adopted.
    pub unchanged: u64,
    /// Steps whose files are not covered, with the reason.
    pub left_out: Vec<UnadoptedStep>,
}

/// A step whose files are not covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnadoptedStep {
    /// Its session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// The files it changed, as the source names them.
    pub files: Vec<String>,
    /// Why.
    pub reason: String,
}

impl SnapshotAdoptionReport {
    /// Adds what another session gave.
    pub fn merge(&mut self, other: Self) {
        self.steps += other.steps;
        self.files += other.files;
        self.not_covered += other.not_covered;
        self.unchanged += other.unchanged;
        self.left_out.extend(other.left_out);
    }
}

/// A step of an imported turn.
struct ImportedStep {
    part: PartId,
    turn: TurnId,
    before: String,
    after: Option<String>,
    files: Vec<String>,
}

/// The steps of a session, and where its files were.
struct ImportedSteps {
    directory: String,
    steps: Vec<ImportedStep>,
    unchanged: u64,
}

/// A step with the trees and files that are to be copied.
struct PreparedStep {
    step: ImportedStep,
    recorded: RecordedStep,
    /// Files outside of the directory of the store.
    outside: Vec<String>,
}

impl ImportedSessions {
    /// Makes change sets of the steps of an imported session whose trees are in OpenCode's repositories below
    /// `folder`. Repeating it adds what is new.
    ///
    /// Only for sessions that were not changed here since: what is recorded now is the newest of a session.
    ///
    /// # Errors
    ///
    /// The database or the store failed. A step that cannot be adopted is part of the report.
    pub fn adopt_snapshots(
        &self,
        ctx: &Context,
        session: &SessionId,
        folder: &Path,
    ) -> Result<SnapshotAdoptionReport> {
        let ImportedSteps { directory, steps, unchanged } =
            self.store.read(ctx, |r| read_steps(r, session))?;
        let mut report = SnapshotAdoptionReport { unchanged, ..SnapshotAdoptionReport::default() };
        if steps.is_empty() {
            return Ok(report);
        }
        let leave_out = |steps: Vec<ImportedStep>, reason: &str| {
            steps.into_iter().map(|step| left_out(session, step, reason)).collect()
        };
        let foreign = match find_foreign_snapshots(folder, Path::new(&directory)) {
            Ok(Some(foreign)) => foreign,
            Ok(None) => {
                report.left_out = leave_out(steps, "the source has no snapshots of its directory");
                return Ok(report);
            }
            Err(error) => {
                report.left_out = leave_out(steps, &error.to_string());
                return Ok(report);
            }
        };
        let handle = match self.open_store(ctx, session)? {
            Ok(handle) => handle,
            Err(reason) => {
                report.left_out = leave_out(steps, &reason);
                return Ok(report);
            }
        };
        let mut prepared = Vec::new();
        for step in steps {
            match prepare_step(&handle, &foreign, &step) {
                Ok((recorded, outside)) => prepared.push(PreparedStep { step, recorded, outside }),
                Err(reason) => report.left_out.push(left_out(session, step, reason)),
            }
        }
        while !prepared.is_empty() {
            let rest = prepared.split_off(batch_length(&prepared));
            let batch = std::mem::replace(&mut prepared, rest);
            self.adopt_batch(ctx, session, (&handle, &foreign), batch, &mut report)?;
        }
        Ok(report)
    }

    /// The files of steps that are not covered, of a session that was changed here: nothing is adopted for it.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn list_unadopted(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<SnapshotAdoptionReport> {
        let ImportedSteps { steps, unchanged, .. } =
            self.store.read(ctx, |r| read_steps(r, session))?;
        let reason = "the session was changed here since it was imported";
        let left_out = steps.into_iter().map(|step| left_out(session, step, reason)).collect();
        Ok(SnapshotAdoptionReport { unchanged, left_out, ..SnapshotAdoptionReport::default() })
    }

    /// Opens the store of the session's directory; or says why there is none.
    fn open_store(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<std::result::Result<Arc<SnapshotHandle>, String>> {
        let session = self.store.read(ctx, |r| r.sessions().get(session))?;
        Ok(match self.snapshots.open_for_session(&session, ctx.now) {
            Ok(SnapshotAccess::Available(handle)) => Ok(handle),
            Ok(SnapshotAccess::Refused(error)) => Err(error.to_string()),
            Err(EngineError::RootGone { .. }) => {
                Err("the directory of the session does not exist".to_owned())
            }
            Err(EngineError::Snapshot(error)) => Err(error.to_string()),
            Err(error) => return Err(error),
        })
    }

    fn adopt_batch(
        &self,
        ctx: &Context,
        session: &SessionId,
        (handle, foreign): (&SnapshotHandle, &ForeignSnapshots),
        batch: Vec<PreparedStep>,
        report: &mut SnapshotAdoptionReport,
    ) -> Result<()> {
        let recorded: Vec<RecordedStep> = batch.iter().map(|step| step.recorded.clone()).collect();
        let group = session_pin_group(session);
        let adopted = match handle.adopt_steps(&foreign.repositories, &recorded, &group, ctx.now) {
            // Undo data of turns that were run here is not given up for that of an import.
            Err(error) if error.is_full() => {
                let reason = "there is no room for its snapshots";
                let left = batch.into_iter().map(|it| left_out(session, it.step, reason));
                report.left_out.extend(left);
                return Ok(());
            }
            adopted => adopted?,
        };
        let root = change_root_of(handle);
        for (prepared, adopted) in batch.into_iter().zip(adopted) {
            match adopted {
                AdoptedStep::Captured { before, after } => {
                    let captures = (before, after);
                    self.record_step(ctx, session, (handle, &root), prepared, captures, report)?;
                }
                AdoptedStep::Missing { tree } => {
                    let reason = format!("snapshot {tree} is gone from the source");
                    report.left_out.push(left_out(session, prepared.step, &reason));
                }
            }
        }
        Ok(())
    }

    /// Writes the change set of a step.
    fn record_step(
        &self,
        ctx: &Context,
        session: &SessionId,
        (handle, root): (&SnapshotHandle, &ChangeRoot),
        prepared: PreparedStep,
        (before, after): (Oid, Oid),
        report: &mut SnapshotAdoptionReport,
    ) -> Result<()> {
        let reader = handle.reader();
        let captures =
            (reader.find_capture(&before.to_string())?, reader.find_capture(&after.to_string())?);
        let changes = compare_captures(handle, &captures.0, &captures.1)?;
        let not_covered = changes.iter().filter(|change| !change.is_covered()).count() as u64;
        let files = changes.len() as u64;
        let id = self.change_id(ctx, &prepared.step.part)?;
        let open = NewChangeSet {
            id: id.clone(),
            turn: prepared.step.turn.clone(),
            part: Some(prepared.step.part.clone()),
            root: root.clone(),
            evidence: Evidence::Imported,
            outer: None,
            named: Vec::new(),
            outside: prepared.outside,
            before: Some(before.to_string()),
            git: None,
            captured_from: None,
            continues: None,
        };
        let close = CloseChangeSet {
            id,
            evidence: Evidence::Imported,
            after: Some(after.to_string()),
            changes,
            not_covered,
            git: None,
            trace: None,
        };
        let name = session.clone();
        let write = self.store.write(ctx, move |tx| {
            tx.change_sets().open(&name, &open)?;
            tx.change_sets().close(&name, &close)
        });
        let reason = match write.wait() {
            Ok(_) => {
                report.steps += 1;
                report.files += files;
                report.not_covered += not_covered;
                return Ok(());
            }
            Err(StoreError::TooLarge { .. }) => "it changed too many files",
            Err(StoreError::Conflict { .. }) => "another import is adopting it",
            Err(StoreError::Busy(_) | StoreError::Fenced(_)) => "its session is in use",
            Err(error) => return Err(error.into()),
        };
        report.left_out.push(left_out(session, prepared.step, reason));
        Ok(())
    }

    /// The change set of a part has the body of the part's id, so that two imports agree on it.
    fn change_id(&self, ctx: &Context, part: &PartId) -> Result<ChangeId> {
        let derived = part.as_str().strip_prefix("prt_");
        match derived.and_then(|body| format!("chg_{body}").parse().ok()) {
            Some(id) => Ok(id),
            None => Ok(self.id_generator.new_change_id(ctx.now)?),
        }
    }
}

/// How many of the steps are copied at once.
fn batch_length(steps: &[PreparedStep]) -> usize {
    let mut files = 0;
    let fits = steps.iter().take(MAX_STEPS).take_while(|step| {
        files += step.recorded.paths.len();
        files <= MAX_FILES
    });
    fits.count().max(1)
}

fn left_out(session: &SessionId, step: ImportedStep, reason: &str) -> UnadoptedStep {
    let ImportedStep { turn, files, .. } = step;
    UnadoptedStep { session: session.clone(), turn, files, reason: reason.to_owned() }
}

/// The steps of the imported turns of a session that have no change set yet.
fn read_steps(r: &ReadTx<'_>, session: &SessionId) -> turnstone_store::Result<ImportedSteps> {
    let line = Timeline::read(r, session)?;
    let known: BTreeSet<PartId> =
        r.change_sets().list(session)?.into_iter().filter_map(|row| row.set.part).collect();
    let (mut steps, mut unchanged) = (Vec::new(), 0);
    for (at, message) in line.outline.iter().enumerate() {
        if !message.parts.iter().any(|(_, kind)| kind == "patch") {
            continue;
        }
        let turn = line.turn_at((at, 0)).filter(|turn| turn.imported);
        let Some(turn) = turn.map(|turn| turn.id.clone()) else { continue };
        let mut after = None;
        for (part, kind) in &message.parts {
            if !["step-start", "step-finish", "patch"].contains(&kind.as_str()) {
                continue;
            }
            let body = r.messages().get_part(session, part)?.body;
            if let PartBody::StepStart(_) = body {
                after = None;
            } else if let PartBody::StepFinish(step) = body {
                after = step.snapshot;
            } else if known.contains(part) {
                unchanged += 1;
            } else if let PartBody::Patch(patch) = body {
                let (part, turn, after) = (part.clone(), turn.clone(), after.clone());
                let (before, files) = (patch.hash, patch.files);
                steps.push(ImportedStep { part, turn, before, after, files });
            }
        }
    }
    Ok(ImportedSteps { directory: r.sessions().get(session)?.directory, steps, unchanged })
}

/// Finds the trees and the files of a step, and its files outside of the store; or says why it has none.
fn prepare_step(
    handle: &SnapshotHandle,
    foreign: &ForeignSnapshots,
    step: &ImportedStep,
) -> std::result::Result<(RecordedStep, Vec<String>), &'static str> {
    let parse = |text: &str| text.parse::<Oid>().ok();
    let before = parse(&step.before).ok_or("the source names no snapshot before it")?;
    let after = step.after.as_deref().and_then(parse);
    let after = after.ok_or("the source names no snapshot after it")?;
    // Where the worktree of the source is now; the store names files from its real path.
    let worktree = fs_err::canonicalize(&foreign.worktree);
    let worktree = worktree.unwrap_or_else(|_| foreign.worktree.clone());
    let (mut paths, mut outside) = (Vec::new(), Vec::new());
    for file in &step.files {
        match locate_file(&handle.location().root, (&foreign.worktree, &worktree), file) {
            Some(path) => paths.push(path),
            None => outside.push(file.clone()),
        }
    }
    Ok((RecordedStep { before, after, paths }, outside))
}

/// Where a file of a step is in the store and in the trees; `None` if it is outside of one of them.
fn locate_file(
    root: &Path,
    (named, worktree): (&Path, &PathBuf),
    file: &str,
) -> Option<RecordedPath> {
    let file = Path::new(file);
    let in_tree = file.strip_prefix(named).unwrap_or(file);
    let in_tree = RelPath::new(in_tree.as_os_str().as_bytes()).ok()?;
    let path = worktree.join(Path::new(std::ffi::OsStr::from_bytes(in_tree.as_bytes())));
    let path = path.strip_prefix(root).ok()?;
    Some(RecordedPath { path: RelPath::new(path.as_os_str().as_bytes()).ok()?, in_tree })
}
