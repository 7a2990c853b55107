//! Meanwhile: what an undo or a redo wrote while a window of somebody else was open.
//!
//! The window saw the path change, but its call did not do it: Turnstone knows who did. So it is no
//! more the window's than a write some other tool had named (R3).

use std::collections::BTreeMap;

use turnstone_core::change::{Evidence, Root};
use turnstone_core::id::OperationId;
use turnstone_core::path::RelPath;
use turnstone_core::time::Cursor;
use turnstone_store::{ChangeRow, Context, OperationRow};

use super::words::{OperationReport, UndoPlan};
use crate::engine::Engine;
use crate::error::Result;

impl Engine {
    /// Finds the paths of windows on one root that operations wrote while they were open.
    pub(super) fn written_meanwhile(
        &self,
        ctx: &Context,
        root: &Root,
        rows: &[&ChangeRow],
    ) -> Result<BTreeMap<RelPath, Vec<OperationId>>> {
        let windows: Vec<&&ChangeRow> =
            rows.iter().filter(|row| row.set.evidence != Evidence::Named).collect();
        let mut found: BTreeMap<RelPath, Vec<OperationId>> = BTreeMap::new();
        let from = windows.iter().map(|row| row.opened).min();
        let to = windows.iter().filter_map(|row| row.closed).max();
        let (Some(from), Some(to)) = (from, to) else {
            return Ok(found);
        };
        for operation in self.store.read(ctx, |r| r.operations_between(from, to))? {
            let ended = operation.ended.unwrap_or(Cursor(i64::MAX));
            let inside = |row: &&&&ChangeRow| {
                let closed = row.closed.unwrap_or(Cursor(i64::MAX));
                operation.planned < closed && row.opened < ended
            };
            let seen: Vec<&RelPath> = windows
                .iter()
                .filter(inside)
                .flat_map(|row| row.set.changes.iter().map(|change| &change.path))
                .collect();
            for path in written(&operation, root) {
                if seen.contains(&&path) {
                    found.entry(path).or_default().push(operation.id.clone());
                }
            }
        }
        Ok(found)
    }
}

/// What an operation wrote in a root; of one that is not over, what it may have written.
fn written(operation: &OperationRow, root: &Root) -> Vec<RelPath> {
    let whole = |value: &serde_json::Value| {
        value.get("whole").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let report = operation.done.as_ref().map(|done| whole(&done.report));
    if let Some(Ok(report)) = report.map(|text| serde_json::from_str::<OperationReport>(&text)) {
        let here = report.roots.into_iter().filter(|it| it.root.store == root.store);
        return here
            .flat_map(|it| [it.report.restored, it.report.removed, it.report.merged])
            .flatten()
            .collect();
    }
    let Ok(plan) = serde_json::from_str::<UndoPlan>(&whole(&operation.plan)) else {
        return Vec::new();
    };
    let here = plan.roots.into_iter().filter(|it| it.root.store == root.store);
    here.flat_map(|it| it.plan.steps).map(|step| step.path).collect()
}
