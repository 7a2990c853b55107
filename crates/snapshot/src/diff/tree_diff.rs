//! Two trees, side by side.

use std::collections::{BTreeMap, HashMap};

use crate::capture::Capture;
use crate::object_store::{ObjectError, Oid, TreeEntry, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::snapshot_store::SnapshotStore;

/// A path at which two trees differ.
#[derive(Clone, Debug)]
pub(crate) struct ImageChange {
    pub(crate) path: RelPath,
    pub(crate) before: PathImage,
    pub(crate) after: PathImage,
}

/// A path at which two trees differ, and the file each has there.
pub(super) type LeafChange = (RelPath, Option<TreeLeaf>, Option<TreeLeaf>);

/// Says of each path what both captures know of it, in git's order.
pub(super) fn to_image_changes(
    one: &Capture,
    other: &Capture,
    mut leaves: Vec<LeafChange>,
) -> Vec<ImageChange> {
    leaves.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let image = |capture: &Capture, path: &RelPath, leaf: Option<TreeLeaf>| match leaf {
        Some(leaf) => PathImage::present(capture, path, leaf),
        None => PathImage::missing(capture, path),
    };
    let change = |(path, before, after): LeafChange| ImageChange {
        before: image(one, &path, before),
        after: image(other, &path, after),
        path,
    };
    leaves.into_iter().map(change).collect()
}

impl SnapshotStore {
    /// Lists the paths at which two captures differ, in git's order.
    pub(crate) fn capture_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<ImageChange>, ObjectError> {
        let mut leaves = Vec::new();
        self.compare_trees(None, Some(&one.tree), Some(&other.tree), &mut leaves)?;
        Ok(to_image_changes(one, other, leaves))
    }

    /// Lists all files of a tree.
    pub(crate) fn list_tree_leaves(
        &self,
        tree: &Oid,
    ) -> Result<BTreeMap<RelPath, TreeLeaf>, ObjectError> {
        let mut found = Vec::new();
        self.compare_trees(None, None, Some(tree), &mut found)?;
        Ok(found.into_iter().filter_map(|(path, _, leaf)| Some((path, leaf?))).collect())
    }

    /// Finds the files that differ below two trees; equal trees are not opened.
    pub(super) fn compare_trees(
        &self,
        path: Option<&RelPath>,
        before: Option<&Oid>,
        after: Option<&Oid>,
        found: &mut Vec<LeafChange>,
    ) -> Result<(), ObjectError> {
        if before == after {
            return Ok(());
        }
        let read = |tree: Option<&Oid>| match tree {
            Some(tree) => self.repository.read_tree(tree),
            None => Ok(Vec::new()),
        };
        let mut old: HashMap<Vec<u8>, TreeEntry> = read(before)?.into_iter().collect();
        let new = read(after)?;
        let mut pairs: Vec<(Vec<u8>, Option<TreeEntry>, Option<TreeEntry>)> = Vec::new();
        for (name, entry) in new {
            let before = old.remove(&name);
            pairs.push((name, before, Some(entry)));
        }
        pairs.extend(old.into_iter().map(|(name, entry)| (name, Some(entry), None)));
        let broken = || ObjectError::Corrupt(*before.or(after).unwrap_or(&Oid([0; 20])));
        for (name, before, after) in pairs {
            if before == after {
                continue;
            }
            let child = match path {
                Some(path) => path.join(&name),
                None => RelPath::new(name),
            };
            let child = child.map_err(|_| broken())?;
            let leaves = (as_leaf(before.as_ref()), as_leaf(after.as_ref()));
            if leaves != (None, None) {
                found.push((child.clone(), leaves.0, leaves.1));
            }
            self.compare_trees(
                Some(&child),
                as_tree(before.as_ref()),
                as_tree(after.as_ref()),
                found,
            )?;
        }
        Ok(())
    }
}

fn as_leaf(entry: Option<&TreeEntry>) -> Option<TreeLeaf> {
    match entry {
        Some(TreeEntry::Leaf(leaf)) => Some(*leaf),
        Some(TreeEntry::Tree(_)) | None => None,
    }
}

fn as_tree(entry: Option<&TreeEntry>) -> Option<&Oid> {
    match entry {
        Some(TreeEntry::Tree(tree)) => Some(tree),
        Some(TreeEntry::Leaf(_)) | None => None,
    }
}
