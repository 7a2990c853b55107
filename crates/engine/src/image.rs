//! Between the words of captures and those of change sets.

use turnstone_core::change::{FileImage, FileMode};
use turnstone_snapshot::{Image, Leaf, LeafMode, OidError, Reason};

/// An image as change sets keep it.
pub(crate) fn written(image: &Image) -> FileImage {
    match image {
        Image::Present { leaf, perm } => FileImage::Present {
            blob: leaf.blob.to_string(),
            mode: match leaf.mode {
                LeafMode::File => FileMode::File,
                LeafMode::Exec => FileMode::Exec,
                LeafMode::Link => FileMode::Link,
            },
            perm: *perm,
        },
        Image::Absent => FileImage::Absent,
        Image::Uncovered { reason } => FileImage::Uncovered { reason: word(*reason) },
    }
}

/// An image as captures have it; whatever cannot be read as one is uncovered, never absent.
pub(crate) fn read(image: &FileImage) -> Image {
    let present = |blob: &str, mode: FileMode, perm: u32| -> Result<Image, OidError> {
        let mode = match mode {
            FileMode::File => LeafMode::File,
            FileMode::Exec => LeafMode::Exec,
            FileMode::Link => LeafMode::Link,
        };
        Ok(Image::Present { leaf: Leaf { blob: blob.parse()?, mode }, perm })
    };
    let unknown = Image::Uncovered { reason: Reason::Unreadable };
    match image {
        FileImage::Present { blob, mode, perm } => present(blob, *mode, *perm).unwrap_or(unknown),
        FileImage::Absent => Image::Absent,
        FileImage::Uncovered { reason } => {
            let reason = serde_json::from_value(serde_json::Value::from(reason.as_str()));
            reason.map_or(unknown, |reason| Image::Uncovered { reason })
        }
    }
}

/// A reason in one word.
pub(crate) fn word(reason: Reason) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_comes_back_as_it_was_and_a_strange_one_is_uncovered_r1() {
        let blob = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".parse().expect("a name");
        let images = [
            Image::Present { leaf: Leaf { blob, mode: LeafMode::Exec }, perm: 0o750 },
            Image::Absent,
            Image::Uncovered { reason: Reason::TooLarge },
        ];
        for image in images {
            assert_eq!(read(&written(&image)), image);
        }
        let strange =
            FileImage::Present { blob: "x".to_owned(), mode: FileMode::File, perm: 0o644 };
        assert_eq!(read(&strange), Image::Uncovered { reason: Reason::Unreadable });
    }
}
