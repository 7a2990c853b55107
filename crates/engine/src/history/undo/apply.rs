//! Applying: the plan is stored, the snapshot stores carry it out, the result is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use fail::fail_point;
use turnstone_core::id::{ChangeId, OperationId, SessionId};
use turnstone_core::model::SessionFileDiff;
use turnstone_core::operation::{HeadTarget, OperationKind, UndoExtent, UndoneChangeSet};
use turnstone_core::permission::GatedOperation;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    OperationAction, OperationRequest, RestoreError, RestoreReport, SnapshotError,
};
use turnstone_store::{
    Context, ExpiredTurn, FinishedOperation, NewOperation, OperationRow, Store, StoreError, TurnRow,
};

use super::operation_json::{
    decode_branch, decode_plan, encode_plan, encode_report, written_paths,
};
use super::other_conversations::{ConversationMove, ConversationRecord};
use super::types::{OperationReport, PlannedChangeSet, RootPlan, RootReport, UndoPlan};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::history::diff_event_size::event_bytes;
use crate::history::session_changes::SessionChanges;
use crate::history::timeline_branch::TimelineBranches;
use crate::permissions::OperationGates;

/// What the database and its log need to record an operation, apart from its plan.
const RECORD_BYTES: u64 = 128 << 10;
/// How often a plan is stored: in the database, in its log, in the report.
const PLAN_COPIES: u64 = 4;
/// How often a diff is stored: as an event and as a value, each also in SQLite's own log.
const DIFF_COPIES: u64 = 4;

/// What a plan needs and has expired.
enum ExpiredRequirement {
    Turn(ExpiredTurn),
    Guard(OperationId, EpochMillis),
}

/// Carries out plans of undo, redo, revert and jump.
#[derive(Clone)]
pub(crate) struct OperationRunner {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) gates: OperationGates,
    pub(crate) changes: SessionChanges,
    pub(crate) branches: TimelineBranches,
}

impl OperationRunner {
    /// Carries a plan out, if it may be. After a crash, [`crate::Maintenance::recover_all`] finishes it.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs;
    /// [`crate::EngineError::PermissionRefused`] or [`crate::EngineError::PermissionPending`] at the gate (R37). Then
    /// nothing has changed. Any later failure leaves the operation to recovery: [`EngineError::Unrecorded`] if
    /// files have changed.
    pub(crate) fn apply(&self, ctx: &Context, plan: &UndoPlan) -> Result<OperationReport> {
        self.ensure_idle(ctx, plan)?;
        self.ensure_room(plan)?;
        // Asking is not what the caller relies on, nor what its key is for.
        self.require_permission(&ctx.without_preconditions(), plan)?;
        let new =
            NewOperation { id: plan.operation.clone(), kind: plan.kind, plan: encode_plan(plan)? };
        let (session, needed) = (plan.session.clone(), plan.moved_change_sets());
        let (relies, during_turn) = (plan.relies.clone(), plan.during_turn);
        // Between plan and apply what it needs may have expired; from here on it cannot.
        let write = move |tx: &turnstone_store::Tx<'_>| {
            if let Some(expired) = tx.undo_expiry().find_expired_change_set(&needed)? {
                return Ok(Some(ExpiredRequirement::Turn(expired)));
            }
            if let Some((operation, at)) = tx.undo_expiry().find_expired_guard(&session, &relies)? {
                return Ok(Some(ExpiredRequirement::Guard(operation, at)));
            }
            match during_turn {
                true => tx.operations().plan_during_turn(&session, &new),
                false => tx.operations().plan(&session, &new),
            }
            .map(|_| None)
        };
        let planned = match self.store.write(ctx, write).wait() {
            // No turn runs, so it is another operation.
            Err(StoreError::Busy(session)) if self.ensure_idle(ctx, plan).is_ok() => {
                return Err(EngineError::OperationRunning(session));
            }
            planned => planned?,
        };
        match planned {
            Some(ExpiredRequirement::Turn(ExpiredTurn { session, turn, at })) => {
                let paths = plan.changes.iter().flat_map(|part| part.paths.clone()).collect();
                return Err(EngineError::UndoExpired { session, turn, at, paths });
            }
            Some(ExpiredRequirement::Guard(operation, at)) => {
                return Err(EngineError::GuardExpired { operation, at });
            }
            None => {}
        }
        fail_point!(
            "engine::operation_planned",
            |_| Err(std::io::Error::other("failpoint").into())
        );
        self.execute(&ctx.without_expected_seq(), plan)
    }

    /// Carries out what is left of a stored plan.
    fn execute(&self, ctx: &Context, plan: &UndoPlan) -> Result<OperationReport> {
        let mut roots = Vec::new();
        for root in &plan.roots {
            match self.apply_root(ctx, plan, root) {
                Ok(report) => roots.push(report),
                Err(error) => return Err(explain_unrecorded(&plan.build_report(roots), error)),
            }
            fail_point!("engine::root_applied", |_| {
                let error = std::io::Error::other("failpoint");
                Err(explain_unrecorded(&plan.build_report(roots.clone()), error.into()))
            });
        }
        let report = plan.build_report(roots);
        let recorded = self.finish(ctx, plan, &report);
        recorded.map_err(|error| explain_unrecorded(&report, error))
    }

    /// Moves the conversation after the files, and stores what was done.
    fn finish(
        &self,
        ctx: &Context,
        plan: &UndoPlan,
        report: &OperationReport,
    ) -> Result<OperationReport> {
        // An operation that could restore no file, or that left some for another one, moves nothing else.
        let head = match plan.moves_conversation(report) {
            true => plan.head.clone(),
            false => HeadTarget::Stay,
        };
        if let Some(switch) = plan.switch.as_ref().filter(|_| !report.without_effect) {
            self.branches.swap_timeline_messages(ctx, &plan.session, switch)?;
        }
        let done = FinishedOperation {
            id: plan.operation.clone(),
            head,
            taken: plan
                .changes
                .iter()
                .filter_map(|part| undone_after(plan, part, report))
                .collect(),
            report: encode_report(report)?,
        };
        self.record(ctx, plan, report, done)
    }

    /// Stores what was done, and returns the report of it; to-dos, grants and the conversations of other
    /// sessions follow in the same transaction.
    fn record(
        &self,
        ctx: &Context,
        plan: &UndoPlan,
        report: &OperationReport,
        done: FinishedOperation,
    ) -> Result<OperationReport> {
        let session = self.store.read(ctx, |r| r.sessions().get(&plan.session))?;
        let todos = plan.todos.clone().filter(|_| plan.moves_conversation(report));
        let withdrawn = report.withdrawn.clone();
        let mut summary = Vec::new();
        let others = plan.also.iter().map(|(other, _)| other);
        for one in std::iter::once(&plan.session).chain(others).collect::<BTreeSet<_>>() {
            summary.push((one.clone(), self.changes.summarize(ctx, one, &done.taken, &[])?));
        }
        let behind = self.diff_after(ctx, &plan.session, &done.head)?;
        let conversations = self.prepare_conversations(ctx, plan, report, &done.taken)?;
        let report = report.clone();
        let record = move |tx: &turnstone_store::Tx<'_>| {
            if let Some(diff) = &behind {
                tx.sessions().put_diff(&session.id, diff)?;
            }
            if let Some(todos) = &todos {
                tx.sessions().set_todos(&session.id, todos)?;
            }
            for rule in &withdrawn {
                tx.projects().withdraw_rule(&session.project, rule)?;
            }
            summary.iter().try_for_each(|(session, summary)| summary.write(tx, session))?;
            let (mut report, mut done) = (report.clone(), done.clone());
            let mut moving = Vec::new();
            for record in &conversations {
                match record.find_obstacle(tx)? {
                    None => moving.push(record),
                    Some(reason) => report.conversations_left.push(record.unmoved(reason)),
                }
            }
            done.report = encode_report(&report)
                .map_err(|error| StoreError::Internal(format!("the report: {error}")))?;
            tx.operations().finish(&session.id, &done)?;
            moving.into_iter().try_for_each(|record| record.write(tx))?;
            Ok(report)
        };
        Ok(self.store.write(ctx, record).wait()?)
    }

    /// What the other sessions record whose conversations move with a plan.
    fn prepare_conversations(
        &self,
        ctx: &Context,
        plan: &UndoPlan,
        report: &OperationReport,
        taken: &[UndoneChangeSet],
    ) -> Result<Vec<ConversationRecord>> {
        if !plan.moves_conversation(report) {
            return Ok(Vec::new());
        }
        let record = |moved: &(OperationId, ConversationMove)| {
            let session = &moved.1.session;
            let is_own = |it: &&UndoneChangeSet| {
                let part = plan.changes.iter().find(|part| part.change == it.change);
                part.and_then(|part| part.session.as_ref()) == Some(session)
            };
            let own = taken.iter().filter(is_own).cloned().collect();
            let diff = self.diff_after(ctx, session, &moved.1.head)?;
            ConversationRecord::new(plan, moved, (own, diff))
        };
        plan.conversations.iter().map(record).collect()
    }

    /// The diff that clients are shown after a head has moved.
    fn diff_after(
        &self,
        ctx: &Context,
        session: &SessionId,
        head: &HeadTarget,
    ) -> Result<Option<Vec<SessionFileDiff>>> {
        let behind = match head {
            HeadTarget::To(head) => self.changes.diff_after_head(ctx, session, head)?,
            HeadTarget::Stay | HeadTarget::Tip => None,
        };
        Ok(behind.and_then(|diff| self.trim_to_disk(diff)))
    }

    /// The diff for clients as far as there is room for it: what was done must be recorded without it, too.
    fn trim_to_disk(&self, mut diff: Vec<SessionFileDiff>) -> Option<Vec<SessionFileDiff>> {
        let fits = |diff: &[SessionFileDiff]| {
            let bytes = event_bytes(diff) as u64;
            self.snapshots.ensure_disk_space(RECORD_BYTES + DIFF_COPIES * bytes).is_ok()
        };
        if !fits(&diff) {
            diff.iter_mut().for_each(|file| file.patch = None);
        }
        fits(&diff).then_some(diff)
    }

    fn apply_root(&self, ctx: &Context, plan: &UndoPlan, root: &RootPlan) -> Result<RootReport> {
        let handle = self.snapshots.of_root(&root.root, ctx.now)?;
        let order = OperationRequest {
            id: root.order.clone(),
            action: OperationAction::Decided { by: plan.operation.to_string() },
            plan: root.plan.clone(),
        };
        let report = handle.apply_once(&order, ctx.now)?;
        Ok(RootReport { root: root.root.clone(), report })
    }

    /// Finishes the operation of a session that was cut off, if there is one.
    pub(crate) fn finish_interrupted(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<Option<OperationId>> {
        let operations = self.store.read(ctx, |r| r.operations().list(session))?;
        let is_cut_off =
            |operation: &OperationRow| operation.done.is_none() && !operation.kind.is_background();
        let Some(open) = operations.into_iter().find(is_cut_off) else {
            return Ok(None);
        };
        if open.kind == OperationKind::Branch {
            self.branches.finish_branch(ctx, session, &open.id, &decode_branch(&open)?)?;
            return Ok(Some(open.id));
        }
        self.execute(ctx, &decode_plan(&open)?)?;
        Ok(Some(open.id))
    }

    /// Refuses a plan while a turn of its session runs; next to other turns, while one of its own turns does.
    pub(crate) fn ensure_idle(&self, ctx: &Context, plan: &UndoPlan) -> Result<()> {
        let turns = self.store.read(ctx, |r| r.turns().list(&plan.session))?;
        let concerns = |turn: &&TurnRow| !plan.during_turn || plan.turns.contains(&turn.id);
        match turns.iter().filter(concerns).any(|turn| turn.state.is_open()) {
            true => Err(StoreError::Busy(plan.session.clone()).into()),
            false => Ok(()),
        }
    }

    /// Refuses a plan that the database has no room for, before anything is stored.
    ///
    /// Without this an operation could begin and not be recorded, and a dry run would not foresee it.
    pub(crate) fn ensure_room(&self, plan: &UndoPlan) -> Result<()> {
        let plan_bytes = encode_plan(plan)?.to_string().len() as u64;
        self.snapshots.ensure_disk_space(RECORD_BYTES + PLAN_COPIES * plan_bytes)
    }

    /// Passes the gate for a plan, before it is stored.
    ///
    /// A caller that repeats its request finds the answer to it again, although every repeat has a plan of
    /// its own; the answer counts only if that plan changes the same paths.
    pub(crate) fn require_permission(&self, ctx: &Context, plan: &UndoPlan) -> Result<()> {
        self.ensure_idle(ctx, plan)?;
        let steps = plan.roots.iter().flat_map(|root| &root.plan.steps);
        let paths: Vec<String> = steps.map(|step| step.path.to_string()).collect();
        let gate = GatedOperation::Revert;
        let mut others: Vec<SessionId> = plan.also.iter().map(|(other, _)| other.clone()).collect();
        others.sort();
        others.dedup();
        let sessions = (&plan.session, others.as_slice());
        self.gates.require_for_operation(ctx, sessions, gate, &paths, &plan.operation)
    }
}

impl UndoPlan {
    /// The change sets of which something moves, with their sessions.
    fn moved_change_sets(&self) -> Vec<(SessionId, ChangeId)> {
        let moves = |part: &&PlannedChangeSet| {
            part.paths
                .iter()
                .any(|path| part.wanted.contains_path(path) != part.taken.contains(path))
        };
        let named = |part: &PlannedChangeSet| {
            (part.session.clone().unwrap_or_else(|| self.session.clone()), part.change.clone())
        };
        self.changes.iter().filter(moves).map(named).collect()
    }
}

/// Says what was done before an error, if files have changed: the error alone reads as if none had.
fn explain_unrecorded(report: &OperationReport, error: EngineError) -> EngineError {
    let is_unfinished =
        matches!(error, EngineError::Snapshot(SnapshotError::Restore(RestoreError::Unfinished(_))));
    let has_changed = report.roots.iter().any(|root| {
        let RestoreReport { restored, removed, merged, directories, .. } = &root.report;
        [restored, removed, merged, directories].iter().any(|paths| !paths.is_empty())
    });
    match has_changed || is_unfinished {
        true => {
            EngineError::Unrecorded { report: Box::new(report.clone()), source: Box::new(error) }
        }
        false => error,
    }
}

/// How much of a change set is undone after what the report says; `None` if as much as before.
fn undone_after(
    plan: &UndoPlan,
    part: &PlannedChangeSet,
    report: &OperationReport,
) -> Option<UndoneChangeSet> {
    let reached: BTreeSet<&RelPath> = plan
        .roots
        .iter()
        .zip(&report.roots)
        .filter(|(root, _)| root.root.store == part.store)
        .flat_map(|(root, done)| {
            // An undo owns what it moved: where a path already had the wanted content, another writer
            // did that, and a redo must not undo their work.
            let unmoved =
                root.plan.unchanged.iter().filter(|path| !part.wanted.contains_path(path));
            written_paths(done).chain(unmoved)
        })
        .collect();
    let before: BTreeSet<&RelPath> = part.taken.iter().collect();
    let is_taken = |path: &&RelPath| match reached.contains(path) {
        true => part.wanted.contains_path(path),
        false => before.contains(path),
    };
    let after: Vec<RelPath> = part.paths.iter().filter(is_taken).cloned().collect();
    if after.iter().collect::<BTreeSet<_>>() == before {
        return None;
    }
    let extent = match after.len() {
        0 => UndoExtent::Nothing,
        all if all == part.paths.len() => UndoExtent::All,
        _ => UndoExtent::Paths(after),
    };
    Some(UndoneChangeSet { change: part.change.clone(), extent })
}
