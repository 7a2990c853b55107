//! Retracing: what an undo took comes back as the undo wrote it down, not from change sets again.
//!
//! A change set says what a turn did. What an undo took of it may be less: a person had put a part
//! back before, and that part is theirs. So a path goes from what the undo left to what it found,
//! and whatever was changed since is merged around as always.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::id::ChangeId;
use turnstone_core::operation::Extent;
use turnstone_core::path::RelPath;
use turnstone_snapshot::{Wish, WishLink};
use turnstone_store::OperationRow;

use super::words::{OperationReport, Part, UndoPlan};
use super::written::{plan_of, report_of, written};
use crate::error::Result;

/// A path of a store.
pub(super) type Spot = (String, RelPath);

/// The steps that bring paths back to what they held before they were taken back.
pub(super) type Retraced = BTreeMap<Spot, Vec<WishLink>>;

/// An operation that took something back, as it is stored.
struct Taker {
    plan: UndoPlan,
    report: OperationReport,
}

/// Finds, for what is to be brought back, the steps that undo what took it.
///
/// A path is left out where operations took more than is brought back now, brought something else
/// back in the same step, or belong to another session: then its change sets tell the way.
pub(super) fn retrace(parts: &[Part], operations: &[OperationRow]) -> Result<Retraced> {
    let mut spots: BTreeMap<Spot, Vec<(Option<usize>, &ChangeId)>> = BTreeMap::new();
    for part in parts {
        for path in part.taken.iter().filter(|path| !part.wanted.has(path)) {
            let spot = (part.store.clone(), path.clone());
            let taker = find_taker(operations, &part.change, path);
            spots.entry(spot).or_default().push((taker, &part.change));
        }
    }
    let mut takers: BTreeMap<usize, Taker> = BTreeMap::new();
    let mut found = Retraced::new();
    for (spot, wanted) in spots {
        let Some(by_taker) = sorted(&wanted) else { continue };
        let mut links = Vec::new();
        // What was taken last comes back first.
        for (nth, changes) in by_taker.iter().rev() {
            if !takers.contains_key(nth) {
                let operation = &operations[*nth];
                let Some(report) = report_of(operation)? else { continue };
                takers.insert(*nth, Taker { plan: plan_of(operation)?, report });
            }
            links.push(takers.get(nth).and_then(|taker| taker.step_back(&spot, changes)));
        }
        if let Some(links) = links.into_iter().collect::<Option<Vec<_>>>() {
            found.insert(spot, joined(links));
        }
    }
    Ok(found)
}

/// The operation that took a path of a change set back and has not let go of it since.
fn find_taker(operations: &[OperationRow], change: &ChangeId, path: &RelPath) -> Option<usize> {
    let mut taker = None;
    for (nth, operation) in operations.iter().enumerate() {
        let taken = operation.done.iter().flat_map(|done| &done.taken);
        for one in taken.filter(|one| one.change == *change) {
            taker = match one.extent.has(path) {
                true => taker.or(Some(nth)),
                false => None,
            };
        }
    }
    taker
}

/// The change sets by who took them; nothing if that is not known of one.
fn sorted<'c>(
    wanted: &[(Option<usize>, &'c ChangeId)],
) -> Option<BTreeMap<usize, BTreeSet<&'c ChangeId>>> {
    let mut by_taker: BTreeMap<usize, BTreeSet<&ChangeId>> = BTreeMap::new();
    for (taker, change) in wanted {
        by_taker.entry((*taker)?).or_default().insert(change);
    }
    Some(by_taker)
}

/// Steps of which one begins where the other ended are one step.
fn joined(links: Vec<WishLink>) -> Vec<WishLink> {
    let mut joined: Vec<WishLink> = Vec::new();
    for link in links {
        match joined.last_mut() {
            Some(last) if link.base.as_ref() == Some(&last.target) => last.target = link.target,
            _ => joined.push(link),
        }
    }
    joined
}

impl Taker {
    /// The step from what this operation left to what it found, if it took just these change sets.
    fn step_back(&self, (store, path): &Spot, changes: &BTreeSet<&ChangeId>) -> Option<WishLink> {
        let parts = || self.plan.changes.iter().filter(|part| part.store == *store);
        let is_in = |extent: &Extent, part: &Part| part.paths.contains(path) && extent.has(path);
        let took: BTreeSet<&ChangeId> = parts()
            .filter(|part| is_in(&part.wanted, part) && !part.taken.contains(path))
            .map(|part| &part.change)
            .collect();
        let brought = parts().any(|part| part.taken.contains(path) && !is_in(&part.wanted, part));
        let mut roots = self.report.roots.iter().filter(|root| root.root.store == *store);
        if brought || took != *changes || !roots.any(|root| written(root).any(|it| it == path)) {
            return None;
        }
        let planned = self.plan.roots.iter().filter(|root| root.root.store == *store);
        let wishes = planned.flat_map(|root| root.plan.inverse());
        let Wish { links, .. } = wishes.into_iter().find(|wish| wish.path == *path)?;
        links.into_iter().next()
    }
}
