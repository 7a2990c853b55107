//! Concurrent writes: what an undo or a redo wrote while another window was open.
//!
//! The window saw the path change, but its call did not do it: Turnstone knows who did. So it is no
//! more the window's than a write some other tool had named (R3).

use std::collections::BTreeMap;

use turnstone_core::change::{ChangeRoot, Evidence};
use turnstone_core::id::OperationId;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_store::{ChangeSetRow, Context, Store};

use super::operation_json::paths_written_in;
use crate::error::Result;

/// Finds the paths of windows on one root that operations wrote while they were open.
pub(crate) fn find_concurrent_writes(
    store: &Store,
    ctx: &Context,
    root: &ChangeRoot,
    rows: &[&ChangeSetRow],
) -> Result<BTreeMap<RelPath, Vec<OperationId>>> {
    let windows: Vec<&&ChangeSetRow> =
        rows.iter().filter(|row| row.set.evidence != Evidence::Named).collect();
    let mut found: BTreeMap<RelPath, Vec<OperationId>> = BTreeMap::new();
    let from = windows.iter().map(|row| row.opened).min();
    let to = windows.iter().filter_map(|row| row.closed).max();
    let (Some(from), Some(to)) = (from, to) else {
        return Ok(found);
    };
    for operation in store.read(ctx, |r| r.operations().between(from, to))? {
        let ended = operation.ended.unwrap_or(LogCursor(i64::MAX));
        let inside = |row: &&&&ChangeSetRow| {
            let closed = row.closed.unwrap_or(LogCursor(i64::MAX));
            operation.planned < closed && row.opened < ended
        };
        let seen: Vec<&RelPath> = windows
            .iter()
            .filter(inside)
            .flat_map(|row| row.set.changes.iter().map(|change| &change.path))
            .collect();
        for path in paths_written_in(&operation, root)? {
            if seen.contains(&&path) {
                found.entry(path).or_default().push(operation.id.clone());
            }
        }
    }
    Ok(found)
}
