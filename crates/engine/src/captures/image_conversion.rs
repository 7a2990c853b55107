//! Between the words of captures and those of change sets.

use turnstone_core::change::{FileImage, FileMode};
use turnstone_snapshot::{LeafMode, OidError, PathImage, TreeLeaf, UncoveredReason};

/// An image as change sets keep it.
pub(crate) fn to_file_image(image: &PathImage) -> FileImage {
    match image {
        PathImage::Present { leaf, perm } => FileImage::Present {
            blob: leaf.blob.to_string(),
            mode: match leaf.mode {
                LeafMode::File => FileMode::File,
                LeafMode::Exec => FileMode::Exec,
                LeafMode::Link => FileMode::Link,
            },
            perm: *perm,
        },
        PathImage::Absent => FileImage::Absent,
        PathImage::Uncovered { reason } => FileImage::Uncovered { reason: reason_code(*reason) },
    }
}

/// An image as captures have it; whatever cannot be read as one is uncovered, never absent.
pub(crate) fn to_path_image(image: &FileImage) -> PathImage {
    let present = |blob: &str, mode: FileMode, perm: u32| -> Result<PathImage, OidError> {
        let mode = match mode {
            FileMode::File => LeafMode::File,
            FileMode::Exec => LeafMode::Exec,
            FileMode::Link => LeafMode::Link,
        };
        Ok(PathImage::Present { leaf: TreeLeaf { blob: blob.parse()?, mode }, perm })
    };
    let unknown = PathImage::Uncovered { reason: UncoveredReason::Unreadable };
    match image {
        FileImage::Present { blob, mode, perm } => present(blob, *mode, *perm).unwrap_or(unknown),
        FileImage::Absent => PathImage::Absent,
        FileImage::Uncovered { reason } => {
            let reason = serde_json::from_value(serde_json::Value::from(reason.as_str()));
            reason.map_or(unknown, |reason| PathImage::Uncovered { reason })
        }
    }
}

/// A reason in one word.
pub(crate) fn reason_code(reason: UncoveredReason) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R1.
    #[test]
    fn images_round_trip_and_invalid_ones_become_uncovered() {
        let blob = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".parse().expect("a name");
        let images = [
            PathImage::Present { leaf: TreeLeaf { blob, mode: LeafMode::Exec }, perm: 0o750 },
            PathImage::Absent,
            PathImage::Uncovered { reason: UncoveredReason::TooLarge },
        ];
        for image in images {
            assert_eq!(to_path_image(&to_file_image(&image)), image);
        }
        let strange =
            FileImage::Present { blob: "x".to_owned(), mode: FileMode::File, perm: 0o644 };
        assert_eq!(
            to_path_image(&strange),
            PathImage::Uncovered { reason: UncoveredReason::Unreadable }
        );
    }
}
