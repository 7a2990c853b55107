//! Differences between two trees: which paths, and what each side holds there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnstone_core::change::FileChange;

use crate::capture::Capture;
use crate::object_store::{ObjectError, ObjectRepository, Oid, TreeEntry, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::{PathImage, folder_image, missing_image, present_image};

/// A path at which two trees differ, and the file each has there.
pub(super) type LeafChange = (RelPath, Option<TreeLeaf>, Option<TreeLeaf>);

/// Where two trees differ.
#[derive(Default)]
pub(super) struct TreeDifference {
    pub(super) leaves: Vec<LeafChange>,
    /// Directories that only one of them has.
    pub(super) folders: Vec<RelPath>,
}

/// Compares what two captures hold at each path, in git's order.
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
    let found = compare_captures(repository, one, other)?;
    Ok(to_path_changes(one, other, found.leaves))
}

fn compare_captures(
    repository: &ObjectRepository,
    one: &Capture,
    other: &Capture,
) -> Result<TreeDifference, ObjectError> {
    let mut found = TreeDifference::default();
    compare_trees(repository, None, (Some(&one.tree), Some(&other.tree)), &mut found)?;
    Ok(found)
}

/// Lists the paths at which two captures differ, sorted: bytes, kinds, modes,
/// permission bits, and directories where both record them.
pub(crate) fn list_path_changes(
    repository: &ObjectRepository,
    one: &Capture,
    other: &Capture,
) -> Result<Vec<FileChange>, ObjectError> {
    let found = compare_captures(repository, one, other)?;
    // These come first: where a file became a directory, or the reverse, they show both sides.
    let mut changes = directory_changes(repository, one, other, found.folders)?;
    changes.extend(to_path_changes(one, other, found.leaves));
    changes.extend(permission_changes(repository, one, other)?);
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes.dedup_by(|one, other| one.path == other.path);
    Ok(changes)
}

/// Lists the directories that were added or removed, changed their bits, or are something else on one side.
///
/// `folders` are those that only one of the trees has. Captures that do not record directories, and paths
/// that one side does not cover, have no changes.
fn directory_changes(
    repository: &ObjectRepository,
    one: &Capture,
    other: &Capture,
    folders: Vec<RelPath>,
) -> Result<Vec<FileChange>, ObjectError> {
    let (Some(before), Some(after)) = (&one.coverage.directories, &other.coverage.directories)
    else {
        return Ok(Vec::new());
    };
    let mut paths: BTreeSet<RelPath> = folders.into_iter().collect();
    let bare = |list: &[RelPath]| list.iter().cloned().collect::<BTreeSet<RelPath>>();
    if before.bare != after.bare {
        paths.extend(bare(&before.bare).symmetric_difference(&bare(&after.bare)).cloned());
    }
    if before.usual == after.usual {
        let listed: BTreeSet<&(RelPath, u32)> = before.other.iter().collect();
        let relisted: BTreeSet<&(RelPath, u32)> = after.other.iter().collect();
        paths.extend(listed.symmetric_difference(&relisted).map(|(path, _)| path.clone()));
    } else {
        // The usual bits differ, so the bits of any directory may differ.
        for capture in [one, other] {
            let mut all = TreeDifference::default();
            compare_trees(repository, None, (None, Some(&capture.tree)), &mut all)?;
            paths.extend(all.folders);
        }
        paths.extend(before.bare.iter().chain(&after.bare).cloned());
    }
    let mut changes = Vec::new();
    for path in paths {
        let before = find_image(repository, one, &path)?;
        let after = find_image(repository, other, &path)?;
        if before != after && before.is_covered() && after.is_covered() {
            changes.push(FileChange { path, before, after });
        }
    }
    Ok(changes)
}

/// Returns what a capture holds at a path.
pub(crate) fn find_image(
    repository: &ObjectRepository,
    capture: &Capture,
    path: &RelPath,
) -> Result<PathImage, ObjectError> {
    Ok(match find_entry(repository, &capture.tree, path)? {
        Some(TreeEntry::Leaf(leaf)) => present_image(capture, path, leaf),
        Some(TreeEntry::Tree(_)) => folder_image(capture, path),
        None => missing_image(capture, path),
    })
}

/// Lists files whose bytes are the same and whose permission bits are not (R18).
fn permission_changes(
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
    let mut found = TreeDifference::default();
    compare_trees(repository, None, (None, Some(tree)), &mut found)?;
    Ok(found.leaves.into_iter().filter_map(|(path, _, leaf)| Some((path, leaf?))).collect())
}

/// Finds one file of a tree.
fn find_leaf(
    repository: &ObjectRepository,
    tree: &Oid,
    path: &RelPath,
) -> Result<Option<TreeLeaf>, ObjectError> {
    Ok(as_leaf(find_entry(repository, tree, path)?.as_ref()))
}

/// Finds one file or directory of a tree.
fn find_entry(
    repository: &ObjectRepository,
    tree: &Oid,
    path: &RelPath,
) -> Result<Option<TreeEntry>, ObjectError> {
    let mut at = *tree;
    let mut parts = path.parts().peekable();
    while let Some(part) = parts.next() {
        let entries = repository.read_tree(&at)?;
        let found = entries.into_iter().find(|(name, _)| name == part).map(|(_, entry)| entry);
        match found {
            found if parts.peek().is_none() => return Ok(found),
            Some(TreeEntry::Tree(below)) => at = below,
            Some(TreeEntry::Leaf(_)) | None => return Ok(None),
        }
    }
    Ok(None)
}

/// True if a tree has a file or a directory at a path.
pub(super) fn has_tree_entry(
    repository: &ObjectRepository,
    tree: &Oid,
    path: &RelPath,
) -> Result<bool, ObjectError> {
    let mut at = Some(*tree);
    for part in path.parts() {
        let Some(tree) = at else { return Ok(false) };
        let entries = repository.read_tree(&tree)?;
        at = match entries.into_iter().find(|(name, _)| name == part).map(|(_, entry)| entry) {
            Some(TreeEntry::Tree(below)) => Some(below),
            Some(TreeEntry::Leaf(_)) => None,
            None => return Ok(false),
        };
    }
    Ok(true)
}

/// Finds the files that differ below two trees, before and after; equal trees are not opened.
pub(super) fn compare_trees(
    repository: &ObjectRepository,
    path: Option<&RelPath>,
    (before, after): (Option<&Oid>, Option<&Oid>),
    found: &mut TreeDifference,
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
            found.leaves.push((child.clone(), leaves.0, leaves.1));
        }
        let below = (as_tree(before.as_ref()), as_tree(after.as_ref()));
        if below.0.is_some() != below.1.is_some() {
            found.folders.push(child.clone());
        }
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
