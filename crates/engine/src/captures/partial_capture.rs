//! Captures after a call that do not fit: path by path, so that small edits next to a huge file can
//! be undone (R13).

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::{FileChange, PathImage, UncoveredReason};
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{Capture, PinGroup, SizedFileChange, SnapshotError, SnapshotHandle};
use turnstone_store::Context;

use crate::captures::budgeted_capture::BudgetedCapture;
use crate::error::{EngineError, Result};

/// After so many paths that do not fit, the larger ones are not tried.
const MAX_MISSES: usize = 3;

/// The capture after a call, with the paths that fit.
pub(crate) enum ClosingCapture {
    /// Everything was captured.
    Complete(Capture),
    /// Some paths do not fit; what changed is known all the same.
    Partial(PartialCapture),
    /// The disk is full: what the call changed can only be captured later.
    NoRoom,
}

/// What a call changed, of which not everything could be captured.
pub(crate) struct PartialCapture {
    /// The capture of the paths that fit; nothing if none does.
    pub(crate) after: Option<Capture>,
    /// What changed; the paths that did not fit are uncovered.
    pub(crate) changes: Vec<FileChange>,
    /// True if a path could be captured once other files have made room on the disk.
    pub(crate) may_fit_later: bool,
}

impl BudgetedCapture {
    /// Captures what a call left, after `before`; evicts first, and then takes what fits.
    pub(crate) fn capture_after(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        group: &PinGroup,
        before: &Capture,
        named: Option<&BTreeSet<RelPath>>,
    ) -> Result<ClosingCapture> {
        if let Some(captured) = self.try_capture(ctx, handle, group, named)? {
            return Ok(ClosingCapture::Complete(captured.capture));
        }
        match capture_fitting_paths(ctx, handle, group, before) {
            Err(error) if error.is_full() => Ok(ClosingCapture::NoRoom),
            taken => taken,
        }
    }
}

/// Captures the paths that differ from `before`, the small ones first, as long as they fit.
fn capture_fitting_paths(
    ctx: &Context,
    handle: &SnapshotHandle,
    group: &PinGroup,
    before: &Capture,
) -> Result<ClosingCapture> {
    let mut seen = handle.reader().list_worktree_changes(before)?;
    seen.sort_by_key(|found| found.size);
    let mut fitting = FittingPaths {
        ctx,
        handle,
        group,
        paths: BTreeSet::new(),
        after: None,
        reason: None,
        misses: 0,
    };
    fitting.add(&seen)?;
    let FittingPaths { paths, after, reason, .. } = fitting;
    let reason = reason.unwrap_or(UncoveredReason::NoSpace);
    if after.is_none() && !seen.is_empty() && reason == UncoveredReason::NoSpace {
        return Ok(ClosingCapture::NoRoom);
    }
    let capacity = handle.maintenance().disk_capacity().map_err(SnapshotError::from)?;
    let may_fit_later = reason == UncoveredReason::NoSpace
        && seen.iter().any(|it| !paths.contains(&it.change.path) && it.size < capacity);
    let changes = merge_changes(handle, before, after.as_ref(), &paths, seen, reason)?;
    Ok(ClosingCapture::Partial(PartialCapture { after, changes, may_fit_later }))
}

/// What changed: captured paths with both images, the others uncovered.
fn merge_changes(
    handle: &SnapshotHandle,
    before: &Capture,
    after: Option<&Capture>,
    captured: &BTreeSet<RelPath>,
    seen: Vec<SizedFileChange>,
    reason: UncoveredReason,
) -> Result<Vec<FileChange>> {
    let stored = match after {
        Some(after) => handle.reader().list_changes(before, after)?,
        None => Vec::new(),
    };
    let mut stored: BTreeMap<RelPath, FileChange> =
        stored.into_iter().map(|change| (change.path.clone(), change)).collect();
    let mut changes = Vec::new();
    for SizedFileChange { change, .. } in seen {
        if !captured.contains(&change.path) {
            changes.push(FileChange { after: PathImage::Uncovered { reason }, ..change });
        } else if let Some(stored) = stored.remove(&change.path) {
            changes.push(stored);
        } else if !change.is_covered() {
            changes.push(change);
        }
        // Otherwise the path has become again what it was before the call.
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changes)
}

/// Paths that fit together, and their capture.
struct FittingPaths<'c> {
    ctx: &'c Context,
    handle: &'c SnapshotHandle,
    group: &'c PinGroup,
    paths: BTreeSet<RelPath>,
    after: Option<Capture>,
    /// Why the last path did not fit.
    reason: Option<UncoveredReason>,
    misses: usize,
}

impl FittingPaths<'_> {
    /// Adds what fits of `more`, which is sorted by size: all of it, or what fits of its halves.
    fn add(&mut self, more: &[SizedFileChange]) -> Result<()> {
        if more.is_empty() || self.misses >= MAX_MISSES {
            return Ok(());
        }
        let mut paths = self.paths.clone();
        paths.extend(more.iter().map(|found| found.change.path.clone()));
        match self.handle.capture_named(self.group, &paths, false, self.ctx.now) {
            Ok(captured) => {
                (self.paths, self.after, self.misses) = (paths, Some(captured.capture), 0);
                Ok(())
            }
            Err(error) => {
                let is_over_budget = error.over_budget().is_some();
                let error = EngineError::from(error);
                if !error.is_full() {
                    return Err(error);
                }
                if more.len() == 1 {
                    self.misses += 1;
                    self.reason = Some(match is_over_budget {
                        true => UncoveredReason::OverBudget,
                        false => UncoveredReason::NoSpace,
                    });
                    return Ok(());
                }
                let (small, large) = more.split_at(more.len() / 2);
                self.add(small)?;
                self.add(large)
            }
        }
    }
}
