//! Images: what a capture says of one path (R1).

use serde::{Deserialize, Serialize};

use crate::capture::Capture;
use crate::coverage::UncoveredReason;
use crate::object_store::{LeafMode, ObjectError, Oid, TreeEntry, TreeLeaf};
use crate::path::RelPath;
use crate::snapshot_store::SnapshotStore;

/// What a capture says of one path. Whoever acts on it must not take one for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PathImage {
    /// A file or a link with these bytes.
    Present {
        /// Its bytes and mode.
        #[serde(flatten)]
        leaf: TreeLeaf,
        /// Its permission bits; zero for a link.
        perm: u32,
    },
    /// There was no such file: the kernel said so at the time.
    Absent,
    /// Nobody looked, or nobody could: it must not be written or removed on this account.
    Uncovered {
        /// Why.
        reason: UncoveredReason,
    },
}

impl PathImage {
    /// The image of a file in a capture's tree.
    pub(crate) fn present(capture: &Capture, path: &RelPath, leaf: TreeLeaf) -> Self {
        let perm = match leaf.mode {
            LeafMode::Link => 0,
            LeafMode::File => capture.coverage.permission_bits(path, false),
            LeafMode::Exec => capture.coverage.permission_bits(path, true),
        };
        Self::Present { leaf, perm }
    }

    /// The image of a path that is not in a capture's tree.
    pub(crate) fn missing(capture: &Capture, path: &RelPath) -> Self {
        match capture.coverage.uncovered_reason(path) {
            Some(reason) => Self::Uncovered { reason },
            None => Self::Absent,
        }
    }

    /// The bytes and mode, if there are any.
    #[must_use]
    pub fn leaf(&self) -> Option<TreeLeaf> {
        match self {
            Self::Present { leaf, .. } => Some(*leaf),
            Self::Absent | Self::Uncovered { .. } => None,
        }
    }
}

impl SnapshotStore {
    /// Says what `capture` holds of `path`.
    ///
    /// # Errors
    ///
    /// The tree cannot be read: that is never an absence.
    pub fn path_image(&self, capture: &Capture, path: &RelPath) -> Result<PathImage, ObjectError> {
        Ok(match self.find_leaf(&capture.tree, path)? {
            Some(leaf) => PathImage::present(capture, path, leaf),
            None => PathImage::missing(capture, path),
        })
    }

    fn find_leaf(&self, tree: &Oid, path: &RelPath) -> Result<Option<TreeLeaf>, ObjectError> {
        let mut at = *tree;
        let mut parts = path.parts().peekable();
        while let Some(part) = parts.next() {
            let entries = self.repository.read_tree(&at)?;
            let found = entries.into_iter().find(|(name, _)| name == part).map(|(_, entry)| entry);
            match found {
                Some(TreeEntry::Leaf(leaf)) if parts.peek().is_none() => return Ok(Some(leaf)),
                Some(TreeEntry::Tree(below)) if parts.peek().is_some() => at = below,
                Some(TreeEntry::Leaf(_) | TreeEntry::Tree(_)) | None => return Ok(None),
            }
        }
        Ok(None)
    }
}
