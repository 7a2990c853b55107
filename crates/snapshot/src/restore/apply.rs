//! Applying a plan: guard, store, group by group, verify, report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use rayon::prelude::*;
use turnstone_core::time::Millis;

use super::group::Operation;
use super::plan::{Plan, RestoreError, State, Step, leaf_of};
use super::record::{Entry, Order};
use super::report::{Conflict, Report, Why};
use super::stored::{Stored, mint};
use crate::capture::Capture;
use crate::coverage::Reason;
use crate::group::Group;
use crate::hash::{Look, look};
use crate::image::Image;
use crate::path::RelPath;
use crate::shadow::Shadow;
use crate::worktree::{Name, sync_file_system};

/// Groups that wait for the disk at the same time; it commits them together.
const WAITING: usize = 16;

/// Steps that must be done together, by their place in the plan.
type Steps<'p> = Vec<(usize, &'p Step)>;

impl Shadow {
    /// Brings the paths of `plan` to what it says, and nothing else.
    ///
    /// The present bytes of these paths are captured first and pinned in `group`. A path that no
    /// longer holds what the plan saw is left alone and reported as a conflict. After a crash,
    /// [`Shadow::resume`] finishes the work.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]; no file has changed.
    pub fn apply(&self, plan: &Plan, group: &Group, now: Millis) -> Result<Report, RestoreError> {
        self.apply_stored(mint()?, plan, None, group, now)
    }

    /// Brings the paths of an order's plan to what it says, once, and writes that into the log.
    ///
    /// An order that was carried out before is not carried out again: its report is returned.
    ///
    /// # Errors
    ///
    /// As [`Shadow::apply`].
    pub fn apply_order(&self, order: &Order, now: Millis) -> Result<Report, RestoreError> {
        let running = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = self.find_operation(&order.id)? {
            return Ok(done.report);
        }
        let group = order.id.group();
        let number = self.list_operations()?.first().map_or(1, |last| last.number + 1);
        let entry = Entry { number, time: now, action: order.action.clone() };
        let id = order.id.as_str().to_owned();
        let report = self.apply_stored(id, &order.plan, Some(entry), &group, now)?;
        drop(running);
        Ok(report)
    }

    fn apply_stored(
        &self,
        id: String,
        plan: &Plan,
        entry: Option<Entry>,
        group: &Group,
        now: Millis,
    ) -> Result<Report, RestoreError> {
        if plan.steps.is_empty() {
            return Ok(self.unwritten(plan));
        }
        self.worktree.check().map_err(|error| RestoreError::Guard(error.into()))?;
        let paths: BTreeSet<RelPath> = plan.steps.iter().map(|step| step.path.clone()).collect();
        let guard = self.capture_named(group, &paths, false, now)?.capture;
        let targets =
            plan.steps.iter().filter_map(|step| Some((step.path.clone(), leaf_of(step.target)?)));
        self.pin(&targets.collect::<Vec<_>>(), &plan.merges, group, now)?;
        let stored = Stored { id, guard: guard.id, plan: plan.clone(), entry };
        stored.save(&self.folder)?;
        fail_point!("snapshot::plan_stored", |_| Err(std::io::Error::other("failpoint").into()));
        self.run(&stored, &guard)
    }

    /// Finishes what killed applies began; one report for each.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`].
    pub fn resume(&self) -> Result<Vec<Report>, RestoreError> {
        let finish = |stored: &Stored| self.run(stored, &self.get_capture(&stored.guard)?);
        Stored::list(&self.folder)?.iter().map(finish).collect()
    }

    fn unwritten(&self, plan: &Plan) -> Report {
        Report {
            conflicts: plan.conflicts.clone(),
            unchanged: plan.unchanged.len(),
            not_covered: plan.not_covered.clone(),
            ..Report::default()
        }
    }

    fn run(&self, stored: &Stored, guard: &Capture) -> Result<Report, RestoreError> {
        let mut report = self.unwritten(&stored.plan);
        report.guard = Some(guard.id);
        let mut ready = Vec::new();
        for (root, steps) in groups(&stored.plan.steps) {
            match self.unguarded(guard, &steps)? {
                None => ready.push((root, steps)),
                Some(Ok(reason)) => report
                    .not_covered
                    .extend(steps.iter().map(|(_, step)| (step.path.clone(), reason))),
                Some(Err(why)) => conflict(&mut report, &steps, why),
            }
        }
        for part in self.run_groups(stored, &ready)? {
            report.restored.extend(part.restored);
            report.removed.extend(part.removed);
            report.merged.extend(part.merged);
            report.conflicts.extend(part.conflicts);
            report.in_place.extend(part.in_place);
        }
        self.prune(&report.removed);
        sync_file_system(&self.worktree.open_dir(None)?)?;
        fail_point!("snapshot::restored", |_| Err(std::io::Error::other("failpoint").into()));
        self.log_operation(stored, &report)?;
        fail_point!("snapshot::logged", |_| Err(std::io::Error::other("failpoint").into()));
        stored.remove(&self.folder)?;
        Ok(report)
    }

    /// Tells why steps may not be done: their present bytes are not kept, or not what was planned.
    fn unguarded(
        &self,
        guard: &Capture,
        steps: &Steps<'_>,
    ) -> Result<Option<Result<Reason, Why>>, RestoreError> {
        for (_, step) in steps {
            match self.image(guard, &step.path)? {
                Image::Uncovered { reason: Reason::BehindLink }
                    if leaf_of(step.expected).is_none() => {}
                Image::Uncovered { .. } => return Ok(Some(Ok(Reason::NoGuard))),
                image if image.leaf() != leaf_of(step.expected) => {
                    return Ok(Some(Err(Why::Changed)));
                }
                Image::Present { .. } | Image::Absent => {}
            }
        }
        Ok(None)
    }

    /// Runs groups beside each other: they do not touch, and each waits for the disk.
    fn run_groups(
        &self,
        stored: &Stored,
        ready: &[(RelPath, Steps<'_>)],
    ) -> Result<Vec<Report>, RestoreError> {
        let run = |(root, steps): &(RelPath, Steps<'_>)| {
            let mut part = Report::default();
            self.run_group(stored, root, steps, &mut part);
            fail_point!("snapshot::group_done", |_| part.clone());
            part
        };
        if ready.len() < 2 {
            return Ok(ready.iter().map(run).collect());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(ready.len().min(WAITING));
        let pool = pool.build().map_err(std::io::Error::other)?;
        Ok(pool.install(|| ready.par_iter().map(run).collect()))
    }

    fn run_group(&self, stored: &Stored, root: &RelPath, steps: &Steps<'_>, report: &mut Report) {
        let operation = Operation::open(self, &stored.id, root, &stored.plan.merges);
        let mut operation = match operation {
            Ok(operation) => operation,
            Err(why) => return conflict(report, steps, why),
        };
        if let Err(why) = operation.run(steps) {
            return conflict(report, steps, why);
        }
        report.in_place.append(&mut operation.in_place);
        for (_, step) in steps {
            let path = step.path.clone();
            // What counts is what is on disk, not what was written.
            if !self.holds(&path, &step.target) {
                report.conflicts.push(Conflict { path, why: Why::Changed });
            } else if step.target == State::Absent {
                report.removed.push(path);
            } else if step.merged {
                report.merged.push(path);
            } else {
                report.restored.push(path);
            }
        }
    }

    /// Compares a path on disk, byte by byte, with what it should hold.
    pub(super) fn holds(&self, path: &RelPath, state: &State) -> bool {
        match (look(&self.worktree, path), state) {
            (Look::Present(_, leaf, _), State::Present { leaf: wanted, .. }) => leaf == *wanted,
            (Look::Absent, State::Absent) => true,
            (Look::Uncovered(Reason::BehindLink), State::Absent) => true,
            (Look::Present(..) | Look::Absent | Look::Uncovered(_), _) => false,
        }
    }

    /// Removes the directories that became empty because a file of theirs was removed.
    fn prune(&self, removed: &[RelPath]) {
        for path in removed {
            for folder in path.ancestors() {
                let gone = self
                    .worktree
                    .open_parent(&folder)
                    .and_then(|dir| Name { dir: &dir, name: folder.name() }.remove_empty_dir());
                if !matches!(gone, Ok(true)) {
                    break;
                }
            }
        }
    }

    /// Reads the bytes a step wants: from the store, or a merge of the plan.
    pub(super) fn target_bytes(
        &self,
        step: &Step,
        merges: &[Vec<u8>],
    ) -> Result<Vec<u8>, RestoreError> {
        let Some(leaf) = leaf_of(step.target) else {
            return Ok(Vec::new());
        };
        let is_it = |bytes: &&Vec<u8>| {
            crate::object::Oid::of(Kind::Blob, bytes).is_ok_and(|oid| oid == leaf.blob)
        };
        match merges.iter().find(is_it).filter(|_| step.merged) {
            Some(bytes) => Ok(bytes.clone()),
            None => Ok(self.repository.read_verified(&leaf.blob, Kind::Blob)?),
        }
    }
}

fn conflict(report: &mut Report, steps: &Steps<'_>, why: Why) {
    let all = steps.iter().map(|(_, step)| Conflict { path: step.path.clone(), why });
    report.conflicts.extend(all);
}

/// Puts steps together of which one path lies above another; they stand or fall together (R17).
fn groups(steps: &[Step]) -> BTreeMap<RelPath, Steps<'_>> {
    let paths: BTreeSet<&RelPath> = steps.iter().map(|step| &step.path).collect();
    let mut groups = BTreeMap::<RelPath, Steps<'_>>::new();
    for (index, step) in steps.iter().enumerate() {
        let top = step.path.ancestors().filter(|above| paths.contains(above)).last();
        groups.entry(top.unwrap_or_else(|| step.path.clone())).or_default().push((index, step));
    }
    groups
}
