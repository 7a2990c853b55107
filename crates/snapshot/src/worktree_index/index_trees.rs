//! Trees of a worktree index: built only for changed folders and those above them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io;

use gix::objs::Kind;

use super::index_folder::{IndexEntry, IndexFolder, IndexFolders, split_parent};
use super::index_totals::IndexTotals;
use crate::object_store::{Oid, PackedObject, hash_object};
use crate::stat_cache::EntryName;

/// How git writes the mode of a directory.
const FOLDER_MODE: &str = "40000";

/// Mode, name and object of one line of a tree.
type TreeLine<'a> = (&'static str, &'a EntryName, Oid);

/// Builds the trees of `dirty` folders and of those above them; returns the tree of the root.
///
/// `made` gets each tree that `is_known` denies. A folder's tree is noted in the folder above; one
/// without a captured file has none, which is noted in `totals`.
pub(super) fn build_folder_trees(
    folders: &mut IndexFolders,
    dirty: &mut BTreeSet<Vec<u8>>,
    totals: &mut IndexTotals,
    root: &mut Option<Oid>,
    is_known: &dyn Fn(&Oid) -> bool,
    made: &mut Vec<PackedObject>,
) -> io::Result<Oid> {
    // A folder sorts before all that is in it, so the last one has nothing left below.
    while let Some(folder) = dirty.pop_last() {
        let Some(node) = folders.get(&folder) else {
            continue;
        };
        let data = encode_tree_lines(node);
        let tree = match (data.is_empty(), split_parent(&folder)) {
            (true, Some(_)) => None,
            (true, None) | (false, _) => Some(add_tree(&data, is_known, made)?),
        };
        match split_parent(&folder) {
            None => *root = tree,
            Some((above, name)) => {
                totals.update_bare_folder(&folder, tree.is_some());
                if set_folder_tree(folders, above, name, tree) {
                    dirty.insert(above.to_vec());
                }
            }
        }
    }
    match root {
        Some(tree) => Ok(*tree),
        None => add_tree(&[], is_known, made),
    }
}

/// Notes the tree of a folder in the folder above; true if it is another one than before.
fn set_folder_tree(
    folders: &mut IndexFolders,
    above: &[u8],
    name: &[u8],
    tree: Option<Oid>,
) -> bool {
    let Some(node) = folders.get_mut(above) else {
        return false;
    };
    let Ok(at) = node.position(name) else {
        return false;
    };
    match &mut node.entries[at].1 {
        IndexEntry::Folder(known) if *known != tree => {
            *known = tree;
            true
        }
        IndexEntry::Folder(_) | IndexEntry::File(_) | IndexEntry::Skipped(_) => false,
    }
}

fn add_tree(
    data: &[u8],
    is_known: &dyn Fn(&Oid) -> bool,
    made: &mut Vec<PackedObject>,
) -> io::Result<Oid> {
    let oid = hash_object(Kind::Tree, data)?;
    if !is_known(&oid) {
        made.push(PackedObject::with_oid(oid, Kind::Tree, data)?);
    }
    Ok(oid)
}

/// The lines of a tree, in git's order: a directory sorts as if its name ended with a slash.
fn encode_tree_lines(node: &IndexFolder) -> Vec<u8> {
    let mut lines: Vec<TreeLine<'_>> = Vec::with_capacity(node.entries.len());
    for (name, item) in &node.entries {
        match item {
            IndexEntry::File(cached) => {
                lines.push((cached.leaf.mode.octal(), name, cached.leaf.blob))
            }
            IndexEntry::Folder(Some(tree)) => lines.push((FOLDER_MODE, name, *tree)),
            IndexEntry::Folder(None) | IndexEntry::Skipped(_) => {}
        }
    }
    // Names are sorted; only a folder can be out of place, among names that begin with its own.
    lines.sort_by(compare_tree_lines);
    let mut data = Vec::with_capacity(lines.len() * 48);
    for (mode, name, oid) in lines {
        data.extend_from_slice(mode.as_bytes());
        data.push(b' ');
        data.extend_from_slice(name);
        data.push(0);
        data.extend_from_slice(&oid.0);
    }
    data
}

fn compare_tree_lines(one: &TreeLine<'_>, other: &TreeLine<'_>) -> Ordering {
    let common = one.1.len().min(other.1.len());
    let end = |line: &TreeLine<'_>| {
        let slash = (line.0 == FOLDER_MODE).then_some(b'/');
        line.1.get(common).copied().or(slash)
    };
    one.1[..common].cmp(&other.1[..common]).then_with(|| end(one).cmp(&end(other)))
}
