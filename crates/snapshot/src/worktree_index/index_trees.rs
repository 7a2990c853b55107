//! Trees from a picture: only of folders in which something changed, and of those above.

use std::cmp::Ordering;
use std::io;

use gix::objs::Kind;

use super::index_folder::{IndexEntry, IndexFolder, WorktreeIndex, split_parent};
use crate::object_store::{Oid, PackedObject};
use crate::stat_cache::EntryName;

/// How git writes the mode of a directory.
const FOLDER_MODE: &str = "40000";

/// Mode, name and object of one line of a tree.
type TreeLine<'a> = (&'static str, &'a EntryName, Oid);

impl WorktreeIndex {
    /// Builds what trees are missing; `made` gets each that `is_known` denies.
    pub(crate) fn build_trees(
        &mut self,
        is_known: &dyn Fn(&Oid) -> bool,
        made: &mut Vec<PackedObject>,
    ) -> io::Result<Oid> {
        // A folder sorts before all that is in it, so the last one has nothing left below.
        while let Some(folder) = self.dirty_folders.pop_last() {
            let Some(node) = self.folders.get(&folder) else {
                continue;
            };
            let data = encode_tree_lines(node);
            let tree = match (data.is_empty(), split_parent(&folder)) {
                (true, Some(_)) => None,
                (true, None) | (false, _) => Some(add_tree(&data, is_known, made)?),
            };
            match split_parent(&folder) {
                None => self.root_tree = tree,
                Some((above, name)) => self.set_folder_tree(above, name, tree),
            }
        }
        match self.root_tree {
            Some(tree) => Ok(tree),
            None => add_tree(&[], is_known, made),
        }
    }

    /// Notes the tree of a folder in the folder above.
    fn set_folder_tree(&mut self, above: &[u8], name: &[u8], tree: Option<Oid>) {
        let Some(node) = self.folders.get_mut(above) else {
            return;
        };
        let Ok(at) = node.position(name) else {
            return;
        };
        if let IndexEntry::Folder(known) = &mut node.entries[at].1
            && *known != tree
        {
            *known = tree;
            self.dirty_folders.insert(above.to_vec());
        }
    }
}

fn add_tree(
    data: &[u8],
    is_known: &dyn Fn(&Oid) -> bool,
    made: &mut Vec<PackedObject>,
) -> io::Result<Oid> {
    let oid = Oid::hash_of(Kind::Tree, data)?;
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
