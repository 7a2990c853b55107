//! Applying a plan: guard, store, group by group, verify, report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use rayon::prelude::*;
use turnstone_core::time::EpochMillis;

use super::crash_recovery::remove_temp_name;
use super::directory_steps::{DirectorySteps, is_directory_step, is_exchange};
use super::directory_sync::{sync_directories, sync_thread_pool};
use super::linked_files::find_linked_paths;
use super::operation_log::{OperationHeader, OperationRequest};
use super::pending_plan::{PendingPlan, random_id};
use super::plan::{RestoreError, RestorePlan, RestoreStep};
use super::report::{ConflictReason, RestoreConflict, RestoreReport};
use super::step_transaction::{StepTransaction, UnclearedSteps};
use crate::capture::{Capture, CaptureError, CaptureOutcome, capture_guard};
use crate::capture_chain::pin_restore_targets;
use crate::diff::list_tree_leaves;
use crate::file_hashing::read_current_content;
use crate::object_store::{ObjectRepository, Oid, TreeLeaf, hash_object};
use crate::path::{RelPath, temp_name};
use crate::path_image::{PathImage, UncoveredReason, missing_image, present_image};
use crate::pin_group::PinGroup;
use crate::snapshot_store::SnapshotStore;
use crate::worktree::Worktree;

/// The merges of a plan, by name.
pub(super) type MergedBlobs<'p> = BTreeMap<Oid, &'p [u8]>;

/// Steps that must be done together, by their place in the plan.
type IndexedSteps<'p> = Vec<(usize, &'p RestoreStep)>;

/// What is left of a group.
#[derive(Default)]
struct TransactionOutcome {
    /// Steps whose temporary names must be swept.
    uncleared: UnclearedSteps,
    /// True if it is neither done nor rolled back.
    is_stuck: bool,
}

/// Carries plans out: guard first, then the writes, then the report.
pub struct RestoreRunner<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl RestoreRunner<'_> {
    /// Restores the paths of `plan` to what it says, and nothing else.
    ///
    /// The present bytes of these paths are captured first and pinned in `group`. A path that no
    /// longer holds what the plan saw is left alone and reported as a conflict. After a crash,
    /// [`RestoreRunner::resume`] finishes the work.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]; no file has changed, except under [`RestoreError::Unfinished`].
    pub fn apply_plan(
        &self,
        plan: &RestorePlan,
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<RestoreReport, RestoreError> {
        self.store_and_run_plan(random_id()?, plan, None, group, now)
    }

    /// Restores the paths of an operation's plan to what it says, once, and writes that into the log.
    ///
    /// An operation that was carried out before is not carried out again: its report is returned.
    ///
    /// # Errors
    ///
    /// As [`RestoreRunner::apply_plan`].
    pub fn apply_once(
        &self,
        request: &OperationRequest,
        now: EpochMillis,
    ) -> Result<RestoreReport, RestoreError> {
        let running = self.store.restore_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = self.store.operations().find(&request.id)? {
            return Ok(done.report);
        }
        let group = request.id.guard_group();
        let number = self.store.operations().list()?.first().map_or(1, |last| last.number + 1);
        let entry = OperationHeader { number, time: now, action: request.action.clone() };
        let id = request.id.as_str().to_owned();
        let report = self.store_and_run_plan(id, &request.plan, Some(entry), &group, now)?;
        drop(running);
        Ok(report)
    }

    fn store_and_run_plan(
        &self,
        id: String,
        plan: &RestorePlan,
        entry: Option<OperationHeader>,
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<RestoreReport, RestoreError> {
        if plan.steps.is_empty() {
            return Ok(report_without_writes(plan));
        }
        self.store.worktree.check_root().map_err(|error| RestoreError::Guard(error.into()))?;
        let guarded = plan.steps.iter().filter(|step| !is_directory_step(step));
        let paths: BTreeSet<RelPath> = guarded.map(|step| step.path.clone()).collect();
        let guard = self.capture_guard_that_fits(group, &paths, now)?.capture;
        let targets =
            plan.steps.iter().filter_map(|step| Some((step.path.clone(), step.target.leaf()?)));
        pin_restore_targets(self.store, &targets.collect::<Vec<_>>(), &plan.merges, group, now)?;
        let plan = plan.clone();
        let stored = PendingPlan { id, guard: guard.id, plan, left: None, entry };
        stored.save(&self.store.directory)?;
        fail_point!("snapshot::plan_stored", |_| Err(std::io::Error::other("failpoint").into()));
        self.run_plan(&stored, &guard)
    }

    /// Finishes what killed applies began; one report for each.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`].
    pub fn resume(&self) -> Result<Vec<RestoreReport>, RestoreError> {
        let mut reports = Vec::new();
        for mut stored in PendingPlan::list(&self.store.directory)? {
            match stored.left.take() {
                None => reports
                    .push(self.run_plan(&stored, &self.store.captures().get(&stored.guard)?)?),
                Some(left) => {
                    self.finish_plan(&stored, self.clear_remaining_temps(&stored, left))?
                }
            }
        }
        Ok(reports)
    }

    /// Clears the temporary names a finished operation had to leave; returns those it still must.
    fn clear_remaining_temps(&self, stored: &PendingPlan, left: UnclearedSteps) -> UnclearedSteps {
        let mut rest = left;
        for (root, steps) in group_steps(&stored.plan.steps) {
            for (index, _) in steps {
                if rest.contains(&index)
                    && remove_temp_name(&self.store.worktree, &root, &temp_name(&stored.id, index))
                {
                    rest.remove(&index);
                }
            }
        }
        rest
    }

    /// Ends an operation: its plan is forgotten, or only what is left to be cleared is kept.
    fn finish_plan(&self, stored: &PendingPlan, left: UnclearedSteps) -> std::io::Result<()> {
        if left.is_empty() {
            return stored.remove(&self.store.directory);
        }
        let (id, guard, plan) = (stored.id.clone(), stored.guard, stored.plan.clone());
        PendingPlan { id, guard, plan, left: Some(left), entry: None }.save(&self.store.directory)
    }

    /// Captures what will be overwritten; on a disk that is nearly full, as much of it as fits (R14).
    fn capture_guard_that_fits(
        &self,
        group: &PinGroup,
        paths: &BTreeSet<RelPath>,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, RestoreError> {
        let whole = capture_guard(self.store, group, paths, now);
        let (CaptureError::BelowFloor { .. } | CaptureError::NoSpace(_)) = (match whole {
            Err(ref error) => error,
            Ok(captured) => return Ok(captured),
        }) else {
            return Ok(whole?);
        };
        let room = self.store.budget().bytes_above_floor()?;
        let stat = |path: &RelPath| self.store.worktree.stat(path).ok().flatten();
        let mut sizes: Vec<(u64, &RelPath)> =
            paths.iter().map(|path| (stat(path).map_or(0, |stat| stat.size), path)).collect();
        sizes.sort_unstable();
        let mut sum = 0;
        let fits = sizes.iter().take_while(|(size, _)| {
            sum += size + 1024;
            sum <= room
        });
        let fits: BTreeSet<RelPath> = fits.map(|(_, path)| (*path).clone()).collect();
        Ok(if fits.is_empty() { whole? } else { capture_guard(self.store, group, &fits, now)? })
    }

    pub(super) fn run_plan(
        &self,
        stored: &PendingPlan,
        guard: &Capture,
    ) -> Result<RestoreReport, RestoreError> {
        let mut report = report_without_writes(&stored.plan);
        report.guard = Some(guard.id);
        let mut ready = Vec::new();
        let guarded = list_tree_leaves(&self.store.repository, &guard.tree)?;
        for (root, steps) in group_steps(&stored.plan.steps) {
            match find_unguarded(guard, &guarded, &steps) {
                None => ready.push((root, steps)),
                Some(Ok(reason)) => report
                    .not_covered
                    .extend(steps.iter().map(|(_, step)| (step.path.clone(), reason))),
                Some(Err(why)) => add_conflicts(&mut report, &steps, why),
            }
        }
        let (directories, _) = split_directory_steps(&stored.plan.steps);
        let directories =
            DirectorySteps::new(&self.store.worktree, &directories, &stored.plan.steps);
        directories.prepare();
        let mut left = UnclearedSteps::new();
        let mut is_stuck = false;
        for (part, outcome) in self.run_transactions(stored, &ready)? {
            left.extend(outcome.uncleared);
            is_stuck |= outcome.is_stuck;
            report.restored.extend(part.restored);
            report.removed.extend(part.removed);
            report.merged.extend(part.merged);
            report.directories.extend(part.directories);
            report.conflicts.extend(part.conflicts);
            report.in_place.extend(part.in_place);
        }
        if is_stuck {
            let refused = std::io::Error::other("the disk refused to undo what was begun");
            return Err(RestoreError::Unfinished(refused));
        }
        directories.finish(&mut report);
        sync_directories(&self.store.worktree, &stored.plan.steps)
            .map_err(RestoreError::Unfinished)?;
        fail_point!("snapshot::restored", |_| Err(RestoreError::Unfinished(
            std::io::Error::other("failpoint")
        )));
        self.store.operations().append(stored, &report).map_err(RestoreError::Unfinished)?;
        fail_point!("snapshot::logged", |_| Err(RestoreError::Unfinished(std::io::Error::other(
            "failpoint"
        ))));
        self.finish_plan(stored, left).map_err(RestoreError::Unfinished)?;
        Ok(report)
    }

    /// Runs groups in parallel, removals first: they share no path, and each waits for the disk. Groups that
    /// share a file with several names run one after the other.
    fn run_transactions(
        &self,
        stored: &PendingPlan,
        ready: &[(RelPath, IndexedSteps<'_>)],
    ) -> Result<Vec<(RestoreReport, TransactionOutcome)>, RestoreError> {
        let merges = index_merges(&stored.plan.merges)?;
        let run = |(root, steps): &&(RelPath, IndexedSteps<'_>)| {
            let mut part = RestoreReport::default();
            let context = (stored.id.as_str(), &merges, &stored.plan);
            let outcome = self.run_transaction(context, (root, steps), &mut part);
            fail_point!("snapshot::group_done");
            (part, outcome)
        };
        if ready.len() < 2 {
            return Ok(ready.iter().map(|group| run(&group)).collect());
        }
        let is_removal = |group: &&(RelPath, IndexedSteps<'_>)| {
            group.1.iter().all(|(_, step)| step.target == PathImage::Absent)
        };
        let (removals, others): (Vec<_>, Vec<_>) = ready.iter().partition(is_removal);
        let threads = sync_thread_pool(ready.len())?;
        let mut done = Vec::with_capacity(ready.len());
        for groups in [removals, others] {
            // For each part, because a removal takes a name from a file. A name that comes or goes while the file is
            // read under another one looks like a save.
            let linked = find_linked_paths(&self.store.worktree, &stored.plan.steps);
            let is_linked = |group: &&(RelPath, IndexedSteps<'_>)| {
                group.1.iter().any(|(_, step)| linked.contains(&step.path))
            };
            let (linked, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_linked);
            done.extend(linked.iter().map(run));
            done.extend(threads.install(|| others.par_iter().map(run).collect::<Vec<_>>()));
        }
        Ok(done)
    }

    /// Applies a group; returns what is left of it.
    fn run_transaction(
        &self,
        (id, merges, plan): (&str, &MergedBlobs<'_>, &RestorePlan),
        (root, steps): (&RelPath, &IndexedSteps<'_>),
        report: &mut RestoreReport,
    ) -> TransactionOutcome {
        let operation = StepTransaction::open(self.store, id, root, (merges, &plan.separated));
        let mut operation = match operation {
            Ok(operation) => operation,
            Err(why) => {
                add_conflicts(report, steps, why);
                return TransactionOutcome::default();
            }
        };
        if let Err(why) = operation.run(steps) {
            add_conflicts(report, steps, why);
            return TransactionOutcome {
                uncleared: operation.uncleared,
                is_stuck: operation.is_stuck,
            };
        }
        report.in_place.append(&mut operation.in_place);
        for (_, step) in steps {
            let path = step.path.clone();
            // What counts is what is on disk, not what was written.
            if !path_holds(&self.store.worktree, &path, &step.target) {
                report.conflicts.push(RestoreConflict { path, why: ConflictReason::Changed });
            } else if is_directory_step(step) {
                report.directories.push(path);
            } else if step.target.leaf().is_none() {
                report.removed.push(path);
            } else if step.merged {
                report.merged.push(path);
            } else {
                report.restored.push(path);
            }
        }
        TransactionOutcome { uncleared: operation.uncleared, is_stuck: operation.is_stuck }
    }
}

fn report_without_writes(plan: &RestorePlan) -> RestoreReport {
    RestoreReport {
        conflicts: plan.conflicts.clone(),
        kept_directories: plan.kept_directories.clone(),
        unchanged: plan.unchanged.len(),
        not_covered: plan.not_covered.clone(),
        ..RestoreReport::default()
    }
}

/// Compares a path on disk, byte by byte, with what it should hold.
fn path_holds(worktree: &Worktree, path: &RelPath, state: &PathImage) -> bool {
    let current = read_current_content(worktree, path).image;
    let is_behind_link = current.uncovered_reason() == Some(UncoveredReason::BehindLink);
    match state {
        PathImage::Present { leaf, .. } => current.leaf() == Some(*leaf),
        PathImage::Directory { .. } => current.is_directory(),
        // A directory in the place of a file: the file is gone.
        PathImage::Absent => (current.is_covered() && current.leaf().is_none()) || is_behind_link,
        PathImage::Uncovered { .. } => false,
    }
}

/// Reads the bytes a step wants: from the store, or a merge of the plan.
pub(super) fn read_target_bytes(
    repository: &ObjectRepository,
    step: &RestoreStep,
    merges: &MergedBlobs<'_>,
) -> Result<Vec<u8>, RestoreError> {
    let Some(leaf) = step.target.leaf() else {
        return Ok(Vec::new());
    };
    match merges.get(&leaf.blob).filter(|_| step.merged) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Ok(repository.read_verified(&leaf.blob, Kind::Blob)?),
    }
}

/// Tells why steps may not be done: their present bytes are not kept, or not what was planned.
fn find_unguarded(
    guard: &Capture,
    guarded: &BTreeMap<RelPath, TreeLeaf>,
    steps: &IndexedSteps<'_>,
) -> Option<Result<UncoveredReason, ConflictReason>> {
    // A directory has no bytes to keep.
    let has_bytes = |step: &RestoreStep| !step.expected.is_directory() && !is_directory_step(step);
    steps.iter().filter(|(_, step)| has_bytes(step)).find_map(|(_, step)| {
        let image = match guarded.get(&step.path) {
            Some(leaf) => present_image(guard, &step.path, *leaf),
            None => missing_image(guard, &step.path),
        };
        match image {
            PathImage::Uncovered { reason: UncoveredReason::BehindLink }
                if step.expected.leaf().is_none() =>
            {
                None
            }
            PathImage::Uncovered { .. } => Some(Ok(UncoveredReason::NoGuard)),
            // Another operation has brought it to what is wanted: there is nothing to keep.
            image if image.leaf() == step.target.leaf() => None,
            image if image.leaf() != step.expected.leaf() => Some(Err(ConflictReason::Changed)),
            PathImage::Present { .. } | PathImage::Directory { .. } | PathImage::Absent => None,
        }
    })
}

fn index_merges(merges: &[Vec<u8>]) -> std::io::Result<MergedBlobs<'_>> {
    merges.iter().map(|bytes| Ok((hash_object(Kind::Blob, bytes)?, &bytes[..]))).collect()
}

fn add_conflicts(report: &mut RestoreReport, steps: &IndexedSteps<'_>, why: ConflictReason) {
    let all = steps.iter().map(|(_, step)| RestoreConflict { path: step.path.clone(), why });
    report.conflicts.extend(all);
}

/// The steps on directories that stand for themselves, and all others with their numbers.
///
/// Where a file and a directory change places, the directories below belong to that exchange.
fn split_directory_steps(steps: &[RestoreStep]) -> (Vec<&RestoreStep>, IndexedSteps<'_>) {
    let exchanged: BTreeSet<&RelPath> =
        steps.iter().filter(|step| is_exchange(step)).map(|step| &step.path).collect();
    let (mut directories, mut others) = (Vec::new(), IndexedSteps::new());
    for (index, step) in steps.iter().enumerate() {
        let is_in_exchange = || step.path.ancestors().any(|above| exchanged.contains(&above));
        match is_directory_step(step) && !is_in_exchange() {
            true => directories.push(step),
            false => others.push((index, step)),
        }
    }
    (directories, others)
}

/// Puts steps together of which one path lies above another; they stand or fall together (R17).
fn group_steps(steps: &[RestoreStep]) -> BTreeMap<RelPath, IndexedSteps<'_>> {
    let (_, steps) = split_directory_steps(steps);
    let paths: BTreeSet<&RelPath> = steps.iter().map(|(_, step)| &step.path).collect();
    let mut groups = BTreeMap::<RelPath, IndexedSteps<'_>>::new();
    for (index, step) in steps.iter().copied() {
        let top = step.path.ancestors().filter(|above| paths.contains(above)).last();
        groups.entry(top.unwrap_or_else(|| step.path.clone())).or_default().push((index, step));
    }
    groups
}
