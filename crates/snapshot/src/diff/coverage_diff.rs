//! What two captures skipped, compared: changes of paths that no tree holds.

use turnstone_core::change::{FileChange, PathImage};

use super::tree_diff::has_tree_entry;
use crate::capture::Capture;
use crate::coverage::CaptureScope;
use crate::object_store::{ObjectError, ObjectRepository};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;

/// Lists the paths that both or one of two captures skipped and that are known to have changed: skipped
/// paths that are gone, files over the size limit that came or changed, and git directories that are gone.
///
/// Their content is unknown, so none of them can be restored; but they must not look unchanged.
pub(crate) fn coverage_changes(
    repository: &ObjectRepository,
    one: &Capture,
    other: &Capture,
) -> Result<Vec<FileChange>, ObjectError> {
    let (before, after) = (&one.coverage, &other.coverage);
    if before.scope != CaptureScope::Whole || after.scope != CaptureScope::Whole {
        return Ok(Vec::new());
    }
    let mut changes = Vec::new();
    for (path, reason) in &before.skipped {
        let is_known =
            after.uncovered_reason(path).is_some() || *reason == UncoveredReason::OwnData;
        if !is_known && !has_tree_entry(repository, &other.tree, path)? {
            changes.push(change(path, uncovered(*reason), PathImage::Absent));
        }
    }
    let is_large = |entry: &&(RelPath, UncoveredReason)| entry.1 == UncoveredReason::TooLarge;
    for (path, reason) in after.skipped.iter().filter(is_large) {
        let is_known = before.uncovered_reason(path).is_some();
        if !is_known && !has_tree_entry(repository, &one.tree, path)? {
            changes.push(change(path, PathImage::Absent, uncovered(*reason)));
        }
    }
    for (path, stat) in &before.large {
        if after.large.iter().any(|(same, now)| same == path && now != stat) {
            let image = uncovered(UncoveredReason::TooLarge);
            changes.push(change(path, image, image));
        }
    }
    for path in before.nested.iter().filter(|path| !after.nested.contains(path)) {
        let image = uncovered(UncoveredReason::GitDirectory);
        changes.push(change(path, image, image));
    }
    Ok(changes)
}

const fn uncovered(reason: UncoveredReason) -> PathImage {
    PathImage::Uncovered { reason }
}

fn change(path: &RelPath, before: PathImage, after: PathImage) -> FileChange {
    FileChange { path: path.clone(), before, after }
}
