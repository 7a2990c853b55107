//! Images: what a path holds at one moment, and why that may be unknown (R1).

use serde::{Deserialize, Serialize};

use super::Oid;

/// What git remembers of a file besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileMode {
    /// A file.
    File,
    /// An executable file.
    Exec,
    /// A symbolic link; its bytes are its target.
    Link,
}

impl FileMode {
    /// The mode as git writes it: `100644`, `100755` or `120000`.
    #[must_use]
    pub const fn octal(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Exec => "100755",
            Self::Link => "120000",
        }
    }
}

/// A file of a tree: its bytes and its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeLeaf {
    /// The name of its bytes.
    pub blob: Oid,
    /// Its mode.
    pub mode: FileMode,
}

/// Why a path is not in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncoveredReason {
    /// An ignore rule names it; a directory stands for everything below.
    Ignored,
    /// An ignore rule names it, and whether the user tracks it all the same is unknown: the
    /// repository's index is damaged or may not be read.
    IndexUnreadable,
    /// A generated directory outside of any repository; it stands for everything below.
    Generated,
    /// It has more bytes than the limit.
    TooLarge,
    /// It may not be read.
    Unreadable,
    /// A pipe, a socket or a device.
    Special,
    /// It changed each time it was read.
    Changing,
    /// It is Turnstone's own data.
    OwnData,
    /// It can only be reached through a link.
    BehindLink,
    /// The capture looked at other paths only.
    NotNamed,
    /// It was there, and its bytes were removed on request.
    Forgotten,
    /// Its present bytes could not be kept before they were to be overwritten.
    NoGuard,
    /// The call was not captured, because no room could be made within the budget.
    OverBudget,
    /// A repository's git directory: it is never captured.
    GitDirectory,
    /// It was there after the call, and the disk had no space for its bytes.
    NoSpace,
    /// It was captured, and its bytes are not in the store any more, or are damaged.
    Missing,
    /// A later version stored a reason that this one does not know.
    #[serde(other)]
    Unknown,
}

impl UncoveredReason {
    /// The reason in one word, as it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ignored => "ignored",
            Self::IndexUnreadable => "index_unreadable",
            Self::Generated => "generated",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
            Self::Special => "special",
            Self::Changing => "changing",
            Self::OwnData => "own_data",
            Self::BehindLink => "behind_link",
            Self::NotNamed => "not_named",
            Self::Forgotten => "forgotten",
            Self::NoGuard => "no_guard",
            Self::OverBudget => "over_budget",
            Self::GitDirectory => "git_directory",
            Self::NoSpace => "no_space",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// What a path holds at one moment. The cases must never be mistaken for each other (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", try_from = "StoredImage")]
pub enum PathImage {
    /// A file or a link with these bytes.
    Present {
        /// Its bytes and mode.
        #[serde(flatten)]
        leaf: TreeLeaf,
        /// Its permission bits; zero for a link.
        perm: u32,
    },
    /// A directory; what is in it has paths of its own.
    Directory {
        /// Its permission bits.
        perm: u32,
    },
    /// Neither a file nor, where directories are recorded, a directory: the kernel said so at the time.
    Absent,
    /// Not observed: the path must not be written or removed because of this image.
    Uncovered {
        /// Why it was not observed.
        reason: UncoveredReason,
    },
}

impl PathImage {
    /// The bytes and mode, if there are any.
    #[must_use]
    pub const fn leaf(&self) -> Option<TreeLeaf> {
        match self {
            Self::Present { leaf, .. } => Some(*leaf),
            Self::Directory { .. } | Self::Absent | Self::Uncovered { .. } => None,
        }
    }

    /// True for a directory.
    #[must_use]
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// True for a directory, or for nothing at all: no file, no link, nothing unknown.
    pub(super) const fn has_no_file(&self) -> bool {
        matches!(self, Self::Directory { .. } | Self::Absent)
    }

    /// True if the path was observed.
    #[must_use]
    pub const fn is_covered(&self) -> bool {
        !matches!(self, Self::Uncovered { .. })
    }

    /// Why the path was not observed, if it was not.
    #[must_use]
    pub const fn uncovered_reason(&self) -> Option<UncoveredReason> {
        match self {
            Self::Uncovered { reason } => Some(*reason),
            Self::Present { .. } | Self::Directory { .. } | Self::Absent => None,
        }
    }
}

/// An image as it is stored. An object name that cannot be read makes the path uncovered, not absent.
#[derive(Deserialize)]
struct StoredImage {
    is: String,
    blob: Option<String>,
    mode: Option<FileMode>,
    perm: Option<u32>,
    reason: Option<UncoveredReason>,
}

impl TryFrom<StoredImage> for PathImage {
    type Error = String;

    fn try_from(stored: StoredImage) -> Result<Self, String> {
        let unreadable = Self::Uncovered { reason: UncoveredReason::Unreadable };
        let blob = stored.blob.as_deref().and_then(|text| text.parse().ok());
        match (stored.is.as_str(), blob, stored.mode, stored.perm) {
            ("present", Some(blob), Some(mode), Some(perm)) => {
                Ok(Self::Present { leaf: TreeLeaf { blob, mode }, perm })
            }
            ("present", ..) => Ok(unreadable),
            ("directory", _, _, Some(perm)) => Ok(Self::Directory { perm }),
            ("directory", ..) => Ok(unreadable),
            ("absent", ..) => Ok(Self::Absent),
            ("uncovered", ..) => {
                Ok(stored.reason.map_or(unreadable, |reason| Self::Uncovered { reason }))
            }
            (other, ..) => Err(format!("{other:?} is not a kind of image")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R1.
    #[test]
    fn images_round_trip_and_invalid_ones_become_uncovered() {
        let blob = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".parse().unwrap();
        let images = [
            PathImage::Present { leaf: TreeLeaf { blob, mode: FileMode::Exec }, perm: 0o750 },
            PathImage::Directory { perm: 0o700 },
            PathImage::Absent,
            PathImage::Uncovered { reason: UncoveredReason::TooLarge },
        ];
        for image in images {
            let text = serde_json::to_string(&image).unwrap();
            assert_eq!(serde_json::from_str::<PathImage>(&text).unwrap(), image);
        }
        let read = |text: &str| serde_json::from_str::<PathImage>(text);
        let strange = read(r#"{"is":"present","blob":"x","mode":"file","perm":420}"#).unwrap();
        assert_eq!(strange, PathImage::Uncovered { reason: UncoveredReason::Unreadable });
        assert_eq!(read(r#"{"is":"directory"}"#).unwrap(), strange);
        let later = read(r#"{"is":"uncovered","reason":"on_the_moon"}"#).unwrap();
        assert_eq!(later, PathImage::Uncovered { reason: UncoveredReason::Unknown });
        assert!(read(r#"{"is":"perhaps"}"#).is_err());
    }

    /// Proves R1.
    #[test]
    fn reasons_are_stored_as_one_word() {
        for reason in [UncoveredReason::IndexUnreadable, UncoveredReason::NoSpace] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
