//! Trees from a picture: only of folders in which something changed, and of those above.

use std::cmp::Ordering;
use std::io;

use gix::objs::Kind;

use super::node::{Item, Node, Picture, split};
use crate::cache::Name;
use crate::object::{Oid, Packed};

/// How git writes the mode of a directory.
const FOLDER: &str = "40000";

/// Mode, name and object of one line of a tree.
type Line<'a> = (&'static str, &'a Name, Oid);

impl Picture {
    /// Builds what trees are missing; `made` gets each that `is_known` denies.
    pub(crate) fn build(
        &mut self,
        is_known: &dyn Fn(&Oid) -> bool,
        made: &mut Vec<Packed>,
    ) -> io::Result<Oid> {
        // A folder sorts before all that is in it, so the last one has nothing left below.
        while let Some(folder) = self.touched.pop_last() {
            let Some(node) = self.nodes.get(&folder) else {
                continue;
            };
            let data = lines(node);
            let tree = match (data.is_empty(), split(&folder)) {
                (true, Some(_)) => None,
                (true, None) | (false, _) => Some(store(&data, is_known, made)?),
            };
            match split(&folder) {
                None => self.tree = tree,
                Some((above, name)) => self.hang(above, name, tree),
            }
        }
        match self.tree {
            Some(tree) => Ok(tree),
            None => store(&[], is_known, made),
        }
    }

    /// Notes the tree of a folder in the folder above.
    fn hang(&mut self, above: &[u8], name: &[u8], tree: Option<Oid>) {
        let Some(node) = self.nodes.get_mut(above) else {
            return;
        };
        let Ok(at) = node.seek(name) else {
            return;
        };
        if let Item::Folder(known) = &mut node.items[at].1
            && *known != tree
        {
            *known = tree;
            self.touched.insert(above.to_vec());
        }
    }
}

fn store(data: &[u8], is_known: &dyn Fn(&Oid) -> bool, made: &mut Vec<Packed>) -> io::Result<Oid> {
    let oid = Oid::of(Kind::Tree, data)?;
    if !is_known(&oid) {
        made.push(Packed::named(oid, Kind::Tree, data)?);
    }
    Ok(oid)
}

/// The lines of a tree, in git's order: a directory sorts as if its name ended with a slash.
fn lines(node: &Node) -> Vec<u8> {
    let mut lines: Vec<Line<'_>> = Vec::with_capacity(node.items.len());
    for (name, item) in &node.items {
        match item {
            Item::File(cached) => lines.push((cached.leaf.mode.octal(), name, cached.leaf.blob)),
            Item::Folder(Some(tree)) => lines.push((FOLDER, name, *tree)),
            Item::Folder(None) | Item::Skipped(_) => {}
        }
    }
    // Names are sorted; only a folder can be out of place, among names that begin with its own.
    lines.sort_by(order);
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

fn order(one: &Line<'_>, other: &Line<'_>) -> Ordering {
    let common = one.1.len().min(other.1.len());
    let end = |line: &Line<'_>| {
        let slash = (line.0 == FOLDER).then_some(b'/');
        line.1.get(common).copied().or(slash)
    };
    one.1[..common].cmp(&other.1[..common]).then_with(|| end(one).cmp(&end(other)))
}
