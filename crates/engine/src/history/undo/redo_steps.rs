//! Retracing: what an undo took comes back as the undo wrote it down, not from change sets again.
//!
//! A change set says what a turn did. What an undo took of it may be less: a person had put a part
//! back before, and that part is theirs. So a path goes from what the undo left to what it found,
//! and whatever was changed since is merged around as always. If only some of what it took is brought
//! back, the path goes to what the undo would have left, had it taken the rest alone.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::{PathImage, ThreeWayStep};
use turnstone_core::id::{ChangeId, OperationId, SessionId, TurnId};
use turnstone_core::operation::UndoExtent;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::TargetState;
use turnstone_store::{ChangeSetRow, Context, OperationRow, Store};

use super::operation_json::{decode_plan, decode_report, written_paths};
use super::plan::undo_links;
use super::types::{OperationReport, PlannedChangeSet, UndoPlan};
use crate::error::{EngineError, Result};

/// A path of a store.
pub(super) type StorePath = (String, RelPath);

/// The steps that bring paths back to what they held before they were taken back.
#[derive(Default)]
pub(super) struct RedoSteps {
    pub(super) links: BTreeMap<StorePath, Vec<ThreeWayStep>>,
    /// The operations whose guards hold what the steps need.
    pub(super) relies: BTreeSet<OperationId>,
}

/// An operation that took something back, as it is stored.
struct UndoRecord {
    plan: UndoPlan,
    report: OperationReport,
}

/// Change sets that are looked up on the way, and whose turns have expired.
struct ChangeSetCache<'e> {
    store: &'e Store,
    ctx: &'e Context,
    rows: BTreeMap<ChangeId, Option<ChangeSetRow>>,
    expired: BTreeMap<SessionId, BTreeMap<TurnId, EpochMillis>>,
}

/// Finds, for what is to be brought back, the steps that undo what took it.
///
/// A path is left out where an operation brought something else back in the same step, belongs
/// to another session, or found just what the change sets left: then those tell the way.
pub(super) fn find_redo_steps(
    store: &Store,
    ctx: &Context,
    parts: &[PlannedChangeSet],
    operations: &[OperationRow],
) -> Result<RedoSteps> {
    let mut spots: BTreeMap<StorePath, Vec<(Option<usize>, &ChangeId)>> = BTreeMap::new();
    for part in parts {
        for path in part.taken.iter().filter(|path| !part.wanted.contains_path(path)) {
            let spot = (part.store.clone(), path.clone());
            let taker = find_undoing_operation(operations, &part.change, path);
            spots.entry(spot).or_default().push((taker, &part.change));
        }
    }
    let (rows, expired) = (BTreeMap::new(), BTreeMap::new());
    let mut archive = ChangeSetCache { store, ctx, rows, expired };
    let mut takers: BTreeMap<usize, UndoRecord> = BTreeMap::new();
    let mut found = RedoSteps::default();
    for (spot, wanted) in spots {
        let Some(by_taker) = group_by_operation(&wanted) else { continue };
        let (mut steps, mut relies) = (Vec::new(), Vec::new());
        // What was taken last comes back first.
        for (nth, changes) in by_taker.iter().rev() {
            let operation = &operations[*nth];
            if !takers.contains_key(nth) {
                let Some(report) = decode_report(operation)? else { continue };
                takers.insert(*nth, UndoRecord { plan: decode_plan(operation)?, report });
            }
            let Some(taker) = takers.get(nth) else { continue };
            let held = |change: &ChangeId| {
                find_undoing_operation(operations, change, &spot.1) == Some(*nth)
            };
            let step = taker.reverse_step(&spot, changes, &held, &mut archive)?;
            relies.extend(step.iter().filter(|it| it.is_guarded).map(|_| operation.id.clone()));
            steps.push(step.map(|step| step.link));
        }
        if let Some(links) = steps.into_iter().collect::<Option<Vec<_>>>() {
            found.links.insert(spot, join_links(links));
            found.relies.extend(relies);
        }
    }
    Ok(found)
}

/// The operation that took a path of a change set back and has not let go of it since.
fn find_undoing_operation(
    operations: &[OperationRow],
    change: &ChangeId,
    path: &RelPath,
) -> Option<usize> {
    let mut taker = None;
    for (nth, operation) in operations.iter().enumerate() {
        let taken = operation.done.iter().flat_map(|done| &done.taken);
        for one in taken.filter(|one| one.change == *change) {
            taker = match one.extent.contains_path(path) {
                true => taker.or(Some(nth)),
                false => None,
            };
        }
    }
    taker
}

/// The change sets by who took them; nothing if that is not known of one.
fn group_by_operation<'c>(
    wanted: &[(Option<usize>, &'c ChangeId)],
) -> Option<BTreeMap<usize, BTreeSet<&'c ChangeId>>> {
    let mut by_taker: BTreeMap<usize, BTreeSet<&ChangeId>> = BTreeMap::new();
    for (taker, change) in wanted {
        by_taker.entry((*taker)?).or_default().insert(change);
    }
    Some(by_taker)
}

/// Steps of which one begins where the other ended are one step.
fn join_links(links: Vec<ThreeWayStep>) -> Vec<ThreeWayStep> {
    let mut joined: Vec<ThreeWayStep> = Vec::new();
    for link in links {
        match joined.last_mut() {
            Some(last)
                if link.base.as_ref() == Some(&last.target)
                    && last.target_by.is_empty()
                    && link.base_by.is_empty() =>
            {
                (last.target, last.target_by) = (link.target, link.target_by);
            }
            _ => joined.push(link),
        }
    }
    joined
}

/// A step back, and whether only the guard of the operation holds what it needs.
struct ReverseStep {
    link: ThreeWayStep,
    is_guarded: bool,
}

impl UndoRecord {
    /// The step from what this operation left to what it would have left without these change sets;
    /// nothing if change sets tell the same, or nobody can tell. `held` says of which change sets it
    /// still holds what it took.
    fn reverse_step(
        &self,
        spot: &StorePath,
        changes: &BTreeSet<&ChangeId>,
        held: &dyn Fn(&ChangeId) -> bool,
        archive: &mut ChangeSetCache<'_>,
    ) -> Result<Option<ReverseStep>> {
        let took = self.undone_change_sets(spot);
        let (Some(took), Some((left, found))) = (took, self.images_around(spot)) else {
            return Ok(None);
        };
        if !changes.iter().all(|change| took.iter().any(|part| part.change == **change)) {
            return Ok(None);
        }
        let way = archive.undo_links(&self.plan.session, &took, &spot.1)?;
        // Nobody had touched what the turns left: their change sets hold both sides of the step.
        let is_plain = matches!(way.as_slice(), [one]
            if one.base.as_ref().and_then(PathImage::leaf) == found.leaf()
                && one.target.leaf() == left.leaf());
        let is_whole = took.len() == changes.len();
        if is_whole {
            let link = ThreeWayStep::new(Some(left), found);
            return Ok(Some(ReverseStep { link, is_guarded: !is_plain }));
        }
        if is_plain {
            return Ok(None);
        }
        let standing: Vec<&PlannedChangeSet> =
            took.iter().copied().filter(|it| held(&it.change)).collect();
        let rest: Vec<&PlannedChangeSet> =
            standing.iter().copied().filter(|it| !changes.contains(&it.change)).collect();
        let mut link = ThreeWayStep::new(Some(left), found);
        if standing.len() < took.len() {
            archive.ensure_not_expired(&self.plan.session, &standing)?;
            link.base = Some(found);
            link.base_by = archive.undo_links(&self.plan.session, &standing, &spot.1)?;
        }
        archive.ensure_not_expired(&self.plan.session, &rest)?;
        link.target_by = archive.undo_links(&self.plan.session, &rest, &spot.1)?;
        Ok(Some(ReverseStep { link, is_guarded: true }))
    }

    /// The change sets this operation took a path of back; nothing if it brought another one forth.
    fn undone_change_sets(&self, (store, path): &StorePath) -> Option<Vec<&PlannedChangeSet>> {
        let parts = || self.plan.changes.iter().filter(|part| part.store == *store);
        let is_in = |extent: &UndoExtent, part: &PlannedChangeSet| {
            part.paths.contains(path) && extent.contains_path(path)
        };
        let brought = parts().any(|part| part.taken.contains(path) && !is_in(&part.wanted, part));
        let took = parts().filter(|part| is_in(&part.wanted, part) && !part.taken.contains(path));
        (!brought).then(|| took.collect())
    }

    /// What a path held after this operation, and before; nothing if it was not written.
    fn images_around(&self, (store, path): &StorePath) -> Option<(PathImage, PathImage)> {
        let mut roots = self.report.roots.iter().filter(|root| root.root.store == *store);
        if !roots.any(|root| written_paths(root).any(|it| it == path)) {
            return None;
        }
        let planned = self.plan.roots.iter().filter(|root| root.root.store == *store);
        let wishes = planned.flat_map(|root| root.plan.inverse());
        let TargetState { links, .. } = wishes.into_iter().find(|wish| wish.path == *path)?;
        let link = links.into_iter().next()?;
        Some((link.base?, link.target))
    }
}

impl ChangeSetCache<'_> {
    /// The steps that take a path of change sets back.
    fn undo_links(
        &mut self,
        session: &SessionId,
        parts: &[&PlannedChangeSet],
        path: &RelPath,
    ) -> Result<Vec<ThreeWayStep>> {
        let mut seen = Vec::new();
        for part in parts {
            let row = self.find_row(part.session.as_ref().unwrap_or(session), &part.change)?;
            let change = row.and_then(|row| {
                let change = row.set.changes.iter().find(|change| change.path == *path)?;
                Some((row.span(), change.clone()))
            });
            seen.extend(change);
        }
        Ok(undo_links(&seen))
    }

    /// Refuses if the captures of one of the change sets are gone.
    fn ensure_not_expired(
        &mut self,
        session: &SessionId,
        parts: &[&PlannedChangeSet],
    ) -> Result<()> {
        for part in parts {
            let name = part.session.as_ref().unwrap_or(session).clone();
            let Some(row) = self.find_row(&name, &part.change)? else { continue };
            let turn = row.set.turn.clone();
            if !self.expired.contains_key(&name) {
                let expired = self.store.read(self.ctx, |r| r.expiry().expired_turns(&name))?;
                self.expired.insert(name.clone(), expired);
            }
            if let Some(at) = self.expired.get(&name).and_then(|expired| expired.get(&turn)) {
                return Err(EngineError::UndoExpired { session: name, turn, at: *at });
            }
        }
        Ok(())
    }

    fn find_row(
        &mut self,
        session: &SessionId,
        change: &ChangeId,
    ) -> Result<Option<&ChangeSetRow>> {
        if !self.rows.contains_key(change) {
            let found = self.store.read(self.ctx, |r| r.change_sets().find(session, change))?;
            self.rows.insert(change.clone(), found);
        }
        Ok(self.rows.get(change).and_then(Option::as_ref))
    }
}
