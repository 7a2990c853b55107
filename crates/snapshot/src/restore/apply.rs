//! Applying a plan: guard, store, group by group, verify, report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use rayon::prelude::*;
use turnstone_core::time::Millis;

use super::durable::{sync_names, waiting};
use super::group::{Left, Operation};
use super::plan::{Plan, RestoreError, State, Step, leaf_of};
use super::record::{Entry, Order};
use super::report::{Conflict, Report, Why};
use super::stored::{Stored, mint};
use crate::capture::{Capture, CaptureError, Captured};
use crate::coverage::Reason;
use crate::group::Group;
use crate::hash::{Look, look};
use crate::image::Image;
use crate::object::{Leaf, Oid};
use crate::path::{RelPath, temp_name};
use crate::shadow::Shadow;
use crate::worktree::Name;

/// The merges of a plan, by name.
pub(super) type Merges<'p> = BTreeMap<Oid, &'p [u8]>;

/// Steps that must be done together, by their place in the plan.
type Steps<'p> = Vec<(usize, &'p Step)>;

/// What is left of a group.
#[derive(Default)]
struct Outcome {
    /// Steps whose temporary names must be swept.
    left: Left,
    /// True if it is neither done nor taken back.
    is_stuck: bool,
}

impl Shadow {
    /// Brings the paths of `plan` to what it says, and nothing else.
    ///
    /// The present bytes of these paths are captured first and pinned in `group`. A path that no
    /// longer holds what the plan saw is left alone and reported as a conflict. After a crash,
    /// [`Shadow::resume`] finishes the work.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]; no file has changed, except under [`RestoreError::Unfinished`].
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
        let guard = self.guard(group, &paths, now)?.capture;
        let targets =
            plan.steps.iter().filter_map(|step| Some((step.path.clone(), leaf_of(step.target)?)));
        self.pin(&targets.collect::<Vec<_>>(), &plan.merges, group, now)?;
        let plan = plan.clone();
        let stored = Stored { id, guard: guard.id, plan, left: None, entry };
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
        let mut reports = Vec::new();
        for mut stored in Stored::list(&self.folder)? {
            match stored.left.take() {
                None => reports.push(self.run(&stored, &self.get_capture(&stored.guard)?)?),
                Some(left) => self.close(&stored, self.sweep_left(&stored, left))?,
            }
        }
        Ok(reports)
    }

    /// Clears the temporary names a finished operation had to leave; returns those it still must.
    fn sweep_left(&self, stored: &Stored, left: Left) -> Left {
        let mut rest = left;
        for (root, steps) in groups(&stored.plan.steps) {
            for (index, _) in steps {
                if rest.contains(&index) && self.sweep(&root, &temp_name(&stored.id, index)) {
                    rest.remove(&index);
                }
            }
        }
        rest
    }

    /// Ends an operation: its plan is forgotten, or only what is left to be cleared is kept.
    fn close(&self, stored: &Stored, left: Left) -> std::io::Result<()> {
        if left.is_empty() {
            return stored.remove(&self.folder);
        }
        let (id, guard, plan) = (stored.id.clone(), stored.guard, stored.plan.clone());
        Stored { id, guard, plan, left: Some(left), entry: None }.save(&self.folder)
    }

    /// Captures what will be overwritten; on a disk that is nearly full, as much of it as fits (R14).
    fn guard(
        &self,
        group: &Group,
        paths: &BTreeSet<RelPath>,
        now: Millis,
    ) -> Result<Captured, RestoreError> {
        let whole = self.capture_guard(group, paths, now);
        let (CaptureError::BelowFloor { .. } | CaptureError::NoSpace(_)) = (match whole {
            Err(ref error) => error,
            Ok(captured) => return Ok(captured),
        }) else {
            return Ok(whole?);
        };
        let room = self.free_bytes()?;
        let stat = |path: &RelPath| self.worktree.stat(path).ok().flatten();
        let mut sizes: Vec<(u64, &RelPath)> =
            paths.iter().map(|path| (stat(path).map_or(0, |stat| stat.size), path)).collect();
        sizes.sort_unstable();
        let mut sum = 0;
        let fits = sizes.iter().take_while(|(size, _)| {
            sum += size + 1024;
            sum <= room
        });
        let fits: BTreeSet<RelPath> = fits.map(|(_, path)| (*path).clone()).collect();
        Ok(if fits.is_empty() { whole? } else { self.capture_guard(group, &fits, now)? })
    }

    fn unwritten(&self, plan: &Plan) -> Report {
        Report {
            conflicts: plan.conflicts.clone(),
            unchanged: plan.unchanged.len(),
            not_covered: plan.not_covered.clone(),
            ..Report::default()
        }
    }

    pub(super) fn run(&self, stored: &Stored, guard: &Capture) -> Result<Report, RestoreError> {
        let mut report = self.unwritten(&stored.plan);
        report.guard = Some(guard.id);
        let mut ready = Vec::new();
        let guarded = self.leaves(&guard.tree)?;
        for (root, steps) in groups(&stored.plan.steps) {
            match unguarded(guard, &guarded, &steps) {
                None => ready.push((root, steps)),
                Some(Ok(reason)) => report
                    .not_covered
                    .extend(steps.iter().map(|(_, step)| (step.path.clone(), reason))),
                Some(Err(why)) => conflict(&mut report, &steps, why),
            }
        }
        let mut left = Left::new();
        let mut is_stuck = false;
        for (part, outcome) in self.run_groups(stored, &ready)? {
            left.extend(outcome.left);
            is_stuck |= outcome.is_stuck;
            report.restored.extend(part.restored);
            report.removed.extend(part.removed);
            report.merged.extend(part.merged);
            report.conflicts.extend(part.conflicts);
            report.in_place.extend(part.in_place);
        }
        if is_stuck {
            let refused = std::io::Error::other("the disk refused to take back what was begun");
            return Err(RestoreError::Unfinished(refused));
        }
        self.prune(&report.removed);
        sync_names(&self.worktree, &stored.plan.steps).map_err(RestoreError::Unfinished)?;
        fail_point!("snapshot::restored", |_| Err(RestoreError::Unfinished(
            std::io::Error::other("failpoint")
        )));
        self.log_operation(stored, &report).map_err(RestoreError::Unfinished)?;
        fail_point!("snapshot::logged", |_| Err(RestoreError::Unfinished(std::io::Error::other(
            "failpoint"
        ))));
        self.close(stored, left).map_err(RestoreError::Unfinished)?;
        Ok(report)
    }

    /// Runs groups beside each other: they do not touch, and each waits for the disk.
    fn run_groups(
        &self,
        stored: &Stored,
        ready: &[(RelPath, Steps<'_>)],
    ) -> Result<Vec<(Report, Outcome)>, RestoreError> {
        let merges = by_name(&stored.plan.merges)?;
        let run = |(root, steps): &(RelPath, Steps<'_>)| {
            let mut part = Report::default();
            let outcome = self.run_group(&stored.id, &merges, (root, steps), &mut part);
            fail_point!("snapshot::group_done");
            (part, outcome)
        };
        if ready.len() < 2 {
            return Ok(ready.iter().map(run).collect());
        }
        Ok(waiting(ready.len())?.install(|| ready.par_iter().map(run).collect()))
    }

    /// Does a group; tells what is left of it.
    fn run_group(
        &self,
        id: &str,
        merges: &Merges<'_>,
        (root, steps): (&RelPath, &Steps<'_>),
        report: &mut Report,
    ) -> Outcome {
        let operation = Operation::open(self, id, root, merges);
        let mut operation = match operation {
            Ok(operation) => operation,
            Err(why) => {
                conflict(report, steps, why);
                return Outcome::default();
            }
        };
        if let Err(why) = operation.run(steps) {
            conflict(report, steps, why);
            return Outcome { left: operation.left, is_stuck: operation.is_stuck };
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
        Outcome { left: operation.left, is_stuck: operation.is_stuck }
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
        merges: &Merges<'_>,
    ) -> Result<Vec<u8>, RestoreError> {
        let Some(leaf) = leaf_of(step.target) else {
            return Ok(Vec::new());
        };
        match merges.get(&leaf.blob).filter(|_| step.merged) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Ok(self.repository.read_verified(&leaf.blob, Kind::Blob)?),
        }
    }
}

/// Tells why steps may not be done: their present bytes are not kept, or not what was planned.
fn unguarded(
    guard: &Capture,
    guarded: &BTreeMap<RelPath, Leaf>,
    steps: &Steps<'_>,
) -> Option<Result<Reason, Why>> {
    steps.iter().find_map(|(_, step)| {
        let image = match guarded.get(&step.path) {
            Some(leaf) => Image::present(guard, &step.path, *leaf),
            None => Image::missing(guard, &step.path),
        };
        match image {
            Image::Uncovered { reason: Reason::BehindLink } if leaf_of(step.expected).is_none() => {
                None
            }
            Image::Uncovered { .. } => Some(Ok(Reason::NoGuard)),
            image if image.leaf() != leaf_of(step.expected) => Some(Err(Why::Changed)),
            Image::Present { .. } | Image::Absent => None,
        }
    })
}

fn by_name(merges: &[Vec<u8>]) -> std::io::Result<Merges<'_>> {
    merges.iter().map(|bytes| Ok((Oid::of(Kind::Blob, bytes)?, &bytes[..]))).collect()
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
