//! Images of paths as captures describe them (R1).

pub use turnstone_core::change::{PathImage, UncoveredReason};

use crate::capture::Capture;
use crate::object_store::{FileMode, TreeLeaf};
use crate::path::RelPath;

/// The image of a file in a capture's tree.
pub(crate) fn present_image(capture: &Capture, path: &RelPath, leaf: TreeLeaf) -> PathImage {
    let perm = match leaf.mode {
        FileMode::Link => 0,
        FileMode::File => capture.coverage.permission_bits(path, false),
        FileMode::Exec => capture.coverage.permission_bits(path, true),
    };
    PathImage::Present { leaf, perm }
}

/// The image of a path that a capture's tree has as a directory. Where directories were not recorded,
/// all that is known is that there was no file.
pub(crate) fn folder_image(capture: &Capture, path: &RelPath) -> PathImage {
    capture.coverage.tree_directory(path).unwrap_or(PathImage::Absent)
}

/// The image of a path that is not in a capture's tree.
pub(crate) fn missing_image(capture: &Capture, path: &RelPath) -> PathImage {
    if let Some(directory) = capture.coverage.bare_directory(path) {
        return directory;
    }
    match capture.coverage.uncovered_reason(path) {
        Some(reason) => PathImage::Uncovered { reason },
        None => PathImage::Absent,
    }
}
