//! Directories that are gone and that a restored file needs: they get the permission bits they had.

use std::collections::BTreeSet;

use turnstone_core::change::PathImage;
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::{SnapshotError, SnapshotHandle, TargetState};

use crate::error::Result;

/// Returns targets for the missing directories that one of the captures knows, in that order.
///
/// A directory that none of them knows gets no target: it is created with the bits of any new one.
pub(super) fn find_directory_targets(
    handle: &SnapshotHandle,
    missing: &[RelPath],
    captures: &[String],
) -> Result<Vec<TargetState>> {
    let mut unknown: BTreeSet<&RelPath> = missing.iter().collect();
    let mut targets = Vec::new();
    for id in captures {
        if unknown.is_empty() {
            break;
        }
        let capture = match handle.reader().find_capture(id) {
            // Its undo data was evicted; another one may know.
            Err(SnapshotError::NoCapture { .. }) => continue,
            found => found?,
        };
        for path in unknown.clone() {
            let image = match handle.reader().path_image(&capture, path) {
                // Its content is not in the store any more.
                Err(SnapshotError::Object(_)) => continue,
                found => found?,
            };
            if image.is_directory() {
                targets.push(TargetState::new(path.clone(), Some(PathImage::Absent), image));
                unknown.remove(path);
            }
        }
    }
    Ok(targets)
}
