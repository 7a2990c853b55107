//! Differences between two trees: which paths, and what each side holds there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnstone_core::change::FileChange;

use crate::capture::Capture;
use crate::object_store::{ObjectError, ObjectRepository, Oid, TreeEntry, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::{missing_image, present_image};

/// A path at which two trees differ, and the file each has there.
pub(super) type LeafChange = (RelPath, Option<TreeLeaf>, Option<TreeLeaf>);

/// Says of each path what both captures know of it, in git's order.
pub(super) fn to_path_changes(
    one: &Capture,
    other: &Capture,
    mut leaves: Vec<LeafChange>,
) -> Vec<FileChange> {
    leaves.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let image = |capture: &Capture, path: &RelPath, leaf: Option<TreeLeaf>| match leaf {
        Some(leaf) => present_image(capture, path, leaf),
        None => missing_image(capture, path),
    };
    let change = |(path, before, after): LeafChange| FileChange {
        before: image(one, &path, before),
        after: image(other, &path, after),
        path,
    };
    leaves.into_iter().map(change).collect()
}

/// Lists the paths whose content differs between two captures, in git's order.
pub(crate) fn capture_changes(
    repository: &ObjectRepository,
    one: &Capture,
    other: &Capture,
) -> Result<Vec<FileChange>, ObjectError> {
    let mut leaves = Vec::new();
    compare_trees(repository, None, (Some(&one.tree), Some(&other.tree)), &mut leaves)?;
    Ok(to_path_changes(one, other, leaves))
}

/// Lists files whose bytes are the same and whose permission bits are not (R18).
pub(crate) fn permission_changes(
    repository: &ObjectRepository,
    one: &Capture,
    other: &Capture,
) -> Result<Vec<FileChange>, ObjectError> {
    let (before, after) = (&one.coverage.permissions, &other.coverage.permissions);
    if before == after {
        return Ok(Vec::new());
    }
    let images = |(path, leaf): (RelPath, TreeLeaf), also: Option<TreeLeaf>| {
        let before = present_image(one, &path, leaf);
        let after = present_image(other, &path, leaf);
        (also == Some(leaf) && before != after).then_some(FileChange { path, before, after })
    };
    if (before.file, before.exec) != (after.file, after.exec) {
        // The usual bits differ, so the bits of any file may differ.
        let mut also = list_tree_leaves(repository, &other.tree)?;
        let leaves = list_tree_leaves(repository, &one.tree)?.into_iter();
        let change = |found: (RelPath, TreeLeaf)| {
            let also = also.remove(&found.0);
            images(found, also)
        };
        return Ok(leaves.filter_map(change).collect());
    }
    let listed: BTreeSet<&(RelPath, u32)> = before.other.iter().collect();
    let relisted: BTreeSet<&(RelPath, u32)> = after.other.iter().collect();
    let paths: BTreeSet<&RelPath> =
        listed.symmetric_difference(&relisted).map(|(path, _)| path).collect();
    let mut found = Vec::new();
    for path in paths {
        if let Some(leaf) = find_leaf(repository, &one.tree, path)? {
            let also = find_leaf(repository, &other.tree, path)?;
            found.extend(images((path.clone(), leaf), also));
        }
    }
    Ok(found)
}

/// Lists all files of a tree.
pub(crate) fn list_tree_leaves(
    repository: &ObjectRepository,
    tree: &Oid,
) -> Result<BTreeMap<RelPath, TreeLeaf>, ObjectError> {
    let mut found = Vec::new();
    compare_trees(repository, None, (None, Some(tree)), &mut found)?;
    Ok(found.into_iter().filter_map(|(path, _, leaf)| Some((path, leaf?))).collect())
}

/// Finds one file of a tree.
pub(crate) fn find_leaf(
    repository: &ObjectRepository,
    tree: &Oid,
    path: &RelPath,
) -> Result<Option<TreeLeaf>, ObjectError> {
    let mut at = *tree;
    let mut parts = path.parts().peekable();
    while let Some(part) = parts.next() {
        let entries = repository.read_tree(&at)?;
        let found = entries.into_iter().find(|(name, _)| name == part).map(|(_, entry)| entry);
        match found {
            Some(TreeEntry::Leaf(leaf)) if parts.peek().is_none() => return Ok(Some(leaf)),
            Some(TreeEntry::Tree(below)) if parts.peek().is_some() => at = below,
            Some(TreeEntry::Leaf(_) | TreeEntry::Tree(_)) | None => return Ok(None),
        }
    }
    Ok(None)
}

/// Finds the files that differ below two trees, before and after; equal trees are not opened.
pub(super) fn compare_trees(
    repository: &ObjectRepository,
    path: Option<&RelPath>,
    (before, after): (Option<&Oid>, Option<&Oid>),
    found: &mut Vec<LeafChange>,
) -> Result<(), ObjectError> {
    if before == after {
        return Ok(());
    }
    let read = |tree: Option<&Oid>| match tree {
        Some(tree) => repository.read_tree(tree),
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
        let below = (as_tree(before.as_ref()), as_tree(after.as_ref()));
        compare_trees(repository, Some(&child), below, found)?;
    }
    Ok(())
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
