//! Contention: which other change sets claim the paths of an undo (R3).

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::{ChangeClaim, ChangeRoot, find_contended};
use turnstone_core::id::ChangeId;
use turnstone_core::operation::UndoExtent;
use turnstone_core::rel_path::RelPath;
use turnstone_store::{ChangeSetRow, Context};

use super::concurrent_writes::find_concurrent_writes;
use super::selection::ChangeSetUndoState;
use super::types::{Claimant, ContendedPath};
use crate::error::Result;
use crate::history::undo::OperationPlanner;

impl OperationPlanner {
    /// Finds the paths that change sets outside of `changes` claim as well (R3).
    pub(crate) fn find_contended_paths(
        &self,
        ctx: &Context,
        changes: &[ChangeSetUndoState],
    ) -> Result<Vec<ContendedPath>> {
        let mut by_root: BTreeMap<&ChangeRoot, Vec<&ChangeSetRow>> = BTreeMap::new();
        // A redo needs no check: the undo has already separated the paths.
        for selected in changes.iter().filter(|selected| selected.wanted != UndoExtent::Nothing) {
            by_root.entry(&selected.row.set.root).or_default().push(&selected.row);
        }
        let mut found = Vec::new();
        let undone: BTreeSet<ChangeId> =
            by_root.values().flatten().map(|row| row.set.id.clone()).collect();
        for (root, rows) in by_root {
            let (all, claims) =
                self.changes.list_concurrent_change_sets(ctx, &root.store, &rows)?;
            let mut shared = find_contended(&undone, &claims);
            let mut meanwhile = find_concurrent_writes(&self.store, ctx, root, &rows)?;
            for path in meanwhile.keys() {
                shared.entry(path.clone()).or_default();
            }
            let by_others = |path: &RelPath, claimants: &BTreeSet<ChangeId>| {
                claimants.len() == 1
                    && claims.iter().any(|claim| {
                        claimants.contains(&claim.change) && claim.shared.contains(path)
                    })
            };
            let due = list_due_paths(root, changes);
            shared.retain(|path, _| due.contains(path));
            for (path, claimants) in shared {
                found.push(ContendedPath {
                    root: root.clone(),
                    by_others: by_others(&path, &claimants),
                    operations: meanwhile.remove(&path).unwrap_or_default(),
                    path,
                    claimants: to_claimants(root, &all, &claimants),
                });
            }
        }
        Ok(found)
    }
}

/// The paths of a root that are to be undone now. What stays undone, or is redone, is separated already.
fn list_due_paths<'c>(
    root: &ChangeRoot,
    changes: &'c [ChangeSetUndoState],
) -> BTreeSet<&'c RelPath> {
    let in_root = changes.iter().filter(|selected| selected.row.set.root == *root);
    let due = |selected: &'c ChangeSetUndoState| {
        let paths = selected.row.set.changes.iter().map(|change| &change.path);
        paths.filter(|path| {
            selected.wanted.contains_path(path) && !selected.undone.contains_path(path)
        })
    };
    in_root.flat_map(due).collect()
}

/// What a change set claims.
pub(crate) fn to_claim(row: &ChangeSetRow) -> Option<ChangeClaim> {
    let paths: BTreeSet<RelPath> = row.set.changes.iter().map(|it| it.path.clone()).collect();
    Some(ChangeClaim {
        change: row.set.id.clone(),
        outer: row.set.outer.clone(),
        evidence: row.set.evidence,
        span: (row.span().0.0, row.span().1?.0),
        paths,
        shared: row.set.trace.iter().flat_map(|trace| trace.shared.iter().cloned()).collect(),
    })
}

fn to_claimants(
    root: &ChangeRoot,
    rows: &[ChangeSetRow],
    claimants: &BTreeSet<ChangeId>,
) -> Vec<Claimant> {
    let claimant = |row: &ChangeSetRow| Claimant {
        change: row.set.id.clone(),
        session: row.set.session.clone(),
        turn: row.set.turn.clone(),
        elsewhere: row.set.root.store != root.store,
    };
    rows.iter().filter(|row| claimants.contains(&row.set.id)).map(claimant).collect()
}
