//! Contention: which other change sets claim the paths of an undo (R3).

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::{ChangeClaim, ChangeRoot, find_contended};
use turnstone_core::id::ChangeId;
use turnstone_core::operation::UndoExtent;
use turnstone_core::rel_path::RelPath;
use turnstone_store::{ChangeSetRow, Context};

use super::selection::SelectedChangeSet;
use super::types::{Claimant, ContendedPath};
use crate::error::Result;
use crate::history::undo::OperationPlanner;

impl OperationPlanner {
    /// Finds the paths that change sets outside of `changes` claim as well (R3).
    pub(crate) fn find_contended_paths(
        &self,
        ctx: &Context,
        changes: &[SelectedChangeSet],
    ) -> Result<Vec<ContendedPath>> {
        let mut by_root: BTreeMap<&ChangeRoot, Vec<&ChangeSetRow>> = BTreeMap::new();
        // A redo needs no check: the paths were told apart by the undo.
        for selected in changes.iter().filter(|selected| selected.wanted != UndoExtent::Nothing) {
            by_root.entry(&selected.row.set.root).or_default().push(&selected.row);
        }
        let mut found = Vec::new();
        for (root, rows) in by_root {
            let (all, claims) = self.changes.list_claims(ctx, &root.store, &rows)?;
            let undone: BTreeSet<ChangeId> = rows.iter().map(|row| row.set.id.clone()).collect();
            let mut shared = find_contended(&undone, &claims);
            let mut meanwhile = self.find_concurrent_writes(ctx, root, &rows)?;
            for path in meanwhile.keys() {
                shared.entry(path.clone()).or_default();
            }
            for (path, claimants) in shared {
                found.push(ContendedPath {
                    root: root.clone(),
                    operations: meanwhile.remove(&path).unwrap_or_default(),
                    path,
                    claimants: to_claimants(&all, &claimants),
                });
            }
        }
        Ok(found)
    }
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
    })
}

fn to_claimants(rows: &[ChangeSetRow], claimants: &BTreeSet<ChangeId>) -> Vec<Claimant> {
    let claimant = |row: &ChangeSetRow| Claimant {
        change: row.set.id.clone(),
        session: row.set.session.clone(),
        turn: row.set.turn.clone(),
    };
    rows.iter().filter(|row| claimants.contains(&row.set.id)).map(claimant).collect()
}
