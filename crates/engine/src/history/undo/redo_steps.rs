//! The steps of a redo come from what the undo recorded, not from the change sets again.
//!
//! A change set says what a turn did. An undo may have undone less of it: a person had restored a part
//! before, and that part is theirs. So a redo takes a path from what the undo left to what it found,
//! and later changes are merged as always. If only some turns of the undo are redone, the path goes to
//! what an undo of the other turns alone would have left.

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

/// The steps that restore paths to what they held before an undo.
#[derive(Default)]
pub(super) struct RedoSteps {
    pub(super) links: BTreeMap<StorePath, Vec<ThreeWayStep>>,
    /// The operations whose guards hold what the steps need.
    pub(super) relies: BTreeSet<OperationId>,
}

/// A stored operation that undid something.
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

/// Finds the steps that reverse what an undo did, for what is redone.
///
/// A path is left out where an operation brought something else back in the same step, belongs
/// to another session, or found just what the change sets left: then those tell the way.
pub(super) fn find_redo_steps(
    store: &Store,
    ctx: &Context,
    parts: &[PlannedChangeSet],
    operations: &[OperationRow],
) -> Result<RedoSteps> {
    let mut store_paths: BTreeMap<StorePath, Vec<(Option<usize>, &ChangeId)>> = BTreeMap::new();
    for part in parts {
        for path in part.taken.iter().filter(|path| !part.wanted.contains_path(path)) {
            let store_path = (part.store.clone(), path.clone());
            let undone_by = find_undoing_operation(operations, &part.change, path);
            store_paths.entry(store_path).or_default().push((undone_by, &part.change));
        }
    }
    let (rows, expired) = (BTreeMap::new(), BTreeMap::new());
    let mut change_sets = ChangeSetCache { store, ctx, rows, expired };
    let mut records: BTreeMap<usize, UndoRecord> = BTreeMap::new();
    let mut found = RedoSteps::default();
    for (store_path, wanted) in store_paths {
        let Some(by_taker) = group_by_operation(&wanted) else { continue };
        let (mut steps, mut relies) = (Vec::new(), Vec::new());
        // What was taken last comes back first.
        for (nth, changes) in by_taker.iter().rev() {
            let operation = &operations[*nth];
            if !records.contains_key(nth) {
                let Some(report) = decode_report(operation)? else { continue };
                records.insert(*nth, UndoRecord { plan: decode_plan(operation)?, report });
            }
            let Some(undone_by) = records.get(nth) else { continue };
            let is_held = |change: &ChangeId| {
                find_undoing_operation(operations, change, &store_path.1) == Some(*nth)
            };
            let step = undone_by.reverse_step(&store_path, changes, &is_held, &mut change_sets)?;
            relies.extend(step.iter().filter(|it| it.is_guarded).map(|_| operation.id.clone()));
            steps.push(step.map(|step| step.link));
        }
        if let Some(links) = steps.into_iter().collect::<Option<Vec<_>>>() {
            found.links.insert(store_path, join_links(links));
            found.relies.extend(relies);
        }
    }
    Ok(found)
}

/// The operation that undid a path of a change set, if no later one has redone it.
pub(super) fn find_undoing_operation(
    operations: &[OperationRow],
    change: &ChangeId,
    path: &RelPath,
) -> Option<usize> {
    let mut undone_by = None;
    for (nth, operation) in operations.iter().enumerate() {
        let taken = operation.done.iter().flat_map(|done| &done.taken);
        for one in taken.filter(|one| one.change == *change) {
            undone_by = match one.extent.contains_path(path) {
                true => undone_by.or(Some(nth)),
                false => None,
            };
        }
    }
    undone_by
}

/// The change sets by who took them; nothing if that is not known of one.
fn group_by_operation<'c>(
    wanted: &[(Option<usize>, &'c ChangeId)],
) -> Option<BTreeMap<usize, BTreeSet<&'c ChangeId>>> {
    let mut by_taker: BTreeMap<usize, BTreeSet<&ChangeId>> = BTreeMap::new();
    for (undone_by, change) in wanted {
        by_taker.entry((*undone_by)?).or_default().insert(change);
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
    /// `None` if change sets give the same, or it is unknown. `is_held` tells for which change sets it
    /// still holds what it took.
    fn reverse_step(
        &self,
        store_path: &StorePath,
        changes: &BTreeSet<&ChangeId>,
        is_held: &dyn Fn(&ChangeId) -> bool,
        change_sets: &mut ChangeSetCache<'_>,
    ) -> Result<Option<ReverseStep>> {
        let took = self.undone_change_sets(store_path);
        let (Some(took), Some((left, found))) = (took, self.images_around(store_path)) else {
            return Ok(None);
        };
        if !changes.iter().all(|change| took.iter().any(|part| part.change == **change)) {
            return Ok(None);
        }
        let way = change_sets.undo_links(&self.plan.session, &took, &store_path.1)?;
        // No other change lies between: their change sets hold both sides of the step.
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
            took.iter().copied().filter(|it| is_held(&it.change)).collect();
        let rest: Vec<&PlannedChangeSet> =
            standing.iter().copied().filter(|it| !changes.contains(&it.change)).collect();
        let mut link = ThreeWayStep::new(Some(left), found);
        if standing.len() < took.len() {
            change_sets.ensure_not_expired(&self.plan.session, &standing)?;
            link.base = Some(found);
            link.base_by = change_sets.undo_links(&self.plan.session, &standing, &store_path.1)?;
        }
        change_sets.ensure_not_expired(&self.plan.session, &rest)?;
        link.target_by = change_sets.undo_links(&self.plan.session, &rest, &store_path.1)?;
        Ok(Some(ReverseStep { link, is_guarded: true }))
    }

    /// The change sets of which this operation undid a path; `None` if it redid another one.
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
        let targets = planned.flat_map(|root| root.plan.inverse());
        let TargetState { links, .. } = targets.into_iter().find(|target| target.path == *path)?;
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
                let expired =
                    self.store.read(self.ctx, |r| r.undo_expiry().expired_turns(&name))?;
                self.expired.insert(name.clone(), expired);
            }
            if let Some(at) = self.expired.get(&name).and_then(|expired| expired.get(&turn)) {
                let (at, paths) = (*at, part.paths.clone());
                return Err(EngineError::UndoExpired { session: name, turn, at, paths });
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
