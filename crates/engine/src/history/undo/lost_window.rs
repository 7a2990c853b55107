//! Changes that no change set names: of commands whose captures are missing, and of files that no capture
//! covers.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::{BoundedPaths, ChangeRoot, Evidence, UncoveredReason};
use turnstone_core::operation::UndoExtent;
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::SnapshotError;
use turnstone_store::Context;

use super::selection::ChangeSetUndoState;
use super::types::{LostWindow, MissingCapture, UndoPlan, UnobservedRoot};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};

/// A command that is to be undone and whose changes were not recorded.
///
/// Its change set counts more paths as not covered than it names: the rest are unknown.
pub(super) fn find_lost_window(selected: &ChangeSetUndoState) -> Option<LostWindow> {
    let (row, set) = (&selected.row, &selected.row.set);
    let named = set.changes.iter().filter(|change| !change.is_covered()).count() as u64;
    let is_lost =
        set.evidence != Evidence::Named && !set.root.store.is_empty() && row.not_covered > named;
    is_lost.then(|| LostWindow {
        root: set.root.clone(),
        session: set.session.clone(),
        turn: set.turn.clone(),
        change: set.id.clone(),
        missing: match row.before {
            None => MissingCapture::Before,
            Some(_) => MissingCapture::After,
        },
    })
}

/// Finds roots in which the commands of a plan may have changed files unseen.
///
/// What captures skip is looked up only if the plan changes no file: then it would be wrong to say
/// that no file had to change.
pub(super) fn find_unobserved(
    snapshots: &SnapshotHandles,
    ctx: &Context,
    plan: &UndoPlan,
    changes: &[ChangeSetUndoState],
) -> Result<Vec<UnobservedRoot>> {
    let changes_files = plan.roots.iter().any(|root| !root.plan.steps.is_empty());
    let mut found: BTreeMap<&ChangeRoot, (Option<u64>, BTreeSet<String>)> = BTreeMap::new();
    let mut written: BTreeMap<&ChangeRoot, Vec<BoundedPaths>> = BTreeMap::new();
    let windows = changes.iter().filter(|it| it.row.set.evidence != Evidence::Named);
    for selected in windows.filter(|it| it.wanted != UndoExtent::Nothing) {
        let root = &selected.row.set.root;
        if selected.row.set.evidence == Evidence::Traced {
            let paths = selected.row.set.trace.as_ref().map(|trace| trace.uncovered.clone());
            written.entry(root).or_default().extend(paths.filter(|paths| !paths.is_empty()));
        } else if root.store.is_empty() {
            found.insert(root, (None, BTreeSet::new()));
        } else if !changes_files && let Some(after) = &selected.row.after {
            let handle = match snapshots.of_root(root, ctx.now) {
                // The store is gone, and the paths are named as missing.
                Err(EngineError::Snapshot(SnapshotError::Untracked(_))) => continue,
                handle => handle?,
            };
            // Without the capture it is unknown what it skipped; the plan does not depend on it.
            let Ok(capture) = handle.reader().find_capture(after) else { continue };
            let skipped = capture.coverage.skipped.iter().map(|(_, why)| *why);
            let skipped: Vec<UncoveredReason> =
                skipped.filter(|why| *why != UncoveredReason::OwnData).collect();
            if !skipped.is_empty() {
                let (most, reasons) = found.entry(root).or_insert((Some(0), BTreeSet::new()));
                *most = most.map(|count| count.max(skipped.len() as u64));
                reasons.extend(skipped.iter().map(|why| why.as_str().to_owned()));
            }
        }
    }
    let traced = written.into_iter().filter(|(root, lists)| {
        // Where one command was not traced, it is not known what all of them wrote.
        !lists.is_empty() && !found.contains_key(root)
    });
    let traced = traced.map(|(root, lists)| {
        let written = merge_lists(lists);
        UnobservedRoot {
            root: root.clone(),
            skipped: Some(written.count()),
            reasons: Vec::new(),
            written,
        }
    });
    let traced: Vec<UnobservedRoot> = traced.collect();
    let unknown = found.into_iter().map(|(root, (skipped, reasons))| UnobservedRoot {
        root: root.clone(),
        skipped,
        reasons: reasons.into_iter().collect(),
        written: BoundedPaths::default(),
    });
    Ok(unknown.chain(traced).collect())
}

/// The paths of several lists, each once; what a list left out is added up.
fn merge_lists(lists: Vec<BoundedPaths>) -> BoundedPaths {
    let more: u64 = lists.iter().map(|list| list.more).sum();
    let paths: BTreeSet<RelPath> = lists.into_iter().flat_map(|list| list.paths).collect();
    let mut merged = BoundedPaths::new(paths.into_iter().collect());
    merged.more += more;
    merged
}
