//! How what was found becomes part of the picture.

use std::collections::HashMap;

use super::node::{Item, Node, Picture, join, split};
use crate::cache::Name;
use crate::hash::Hashed;
use crate::path::RelPath;
use crate::walk::{Found, Glance, Listing, Sight};

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Absorbed {
    /// Files added, changed or removed.
    pub(crate) changed: usize,
    /// Folders that are in the picture no more.
    pub(crate) dropped: Vec<Vec<u8>>,
}

/// What files that had to be read turned out to be.
struct Outcomes(HashMap<RelPath, Item>);

impl Outcomes {
    fn new(hashed: Hashed) -> Self {
        let Hashed { read, skipped, absent: _ } = hashed;
        let read = read.into_iter().map(|(path, cached)| (path, Item::File(cached)));
        let skipped = skipped.into_iter().map(|(path, reason)| (path, Item::Skipped(reason)));
        Self(read.chain(skipped).collect())
    }

    /// What a name is now; nothing if it was gone when it was to be read.
    fn item(&self, folder: &[u8], name: &[u8], sight: Sight, old: Option<&Item>) -> Option<Item> {
        match (sight, old) {
            (Sight::Known(cached), _) => Some(Item::File(cached)),
            (Sight::Skipped(reason), _) => Some(Item::Skipped(reason)),
            // Its tree is still right unless something below is touched.
            (Sight::Folder, Some(Item::Folder(tree))) => Some(Item::Folder(*tree)),
            (Sight::Folder, _) => Some(Item::Folder(None)),
            (Sight::Stale(_), _) => self.0.get(&join(folder, name)[..]).cloned(),
        }
    }
}

impl Picture {
    /// Takes in what was found and what reading it gave.
    ///
    /// After a walk of everything (`whole`), folders that nobody saw are gone.
    pub(crate) fn absorb(&mut self, found: Found, hashed: Hashed, whole: bool) -> Absorbed {
        let Found { glances, mut listings, notes, .. } = found;
        self.unsaved += hashed.read.len();
        let outcomes = Outcomes::new(hashed);
        let mut dropped = Vec::new();
        glances.into_iter().for_each(|it| self.correct(it, &outcomes, &mut dropped));
        // Folders before what is in them.
        listings.sort_by(|one, other| one.folder.cmp(&other.folder));
        listings.into_iter().for_each(|it| self.replace(it, &outcomes, &mut dropped));
        notes.into_iter().for_each(|it| self.correct(it, &outcomes, &mut dropped));
        if whole {
            let unseen = self.nodes.iter().filter(|(_, node)| !node.whole);
            let unseen: Vec<Vec<u8>> = unseen.map(|(folder, _)| folder.clone()).collect();
            unseen.iter().for_each(|folder| self.drop_one(folder, &mut dropped));
        }
        self.unsaved += dropped.len();
        Absorbed { changed: std::mem::take(&mut self.tally.changed), dropped }
    }

    fn replace(&mut self, listing: Listing, outcomes: &Outcomes, dropped: &mut Vec<Vec<u8>>) {
        let Listing { folder, place, is_repo, reserved, names } = listing;
        if !self.is_entered(&folder) {
            dropped.push(folder);
            return;
        }
        let old = self.nodes.remove(&folder).unwrap_or_default();
        let mut items: Vec<(Name, Item)> = Vec::with_capacity(names.len());
        for (name, sight) in names {
            let item = outcomes.item(&folder, &name, sight, old.find(&name));
            items.extend(item.map(|item| (name, item)));
        }
        let node = Node { items, place, is_repo, reserved, whole: true };
        let mut touched = !old.whole;
        for (name, item) in &node.items {
            let before = old.find(name);
            touched |= before.is_none_or(|before| !is_same_line(before, item));
            self.tally.turn(&folder, name, before, Some(item));
        }
        let gone = old.items.iter().filter(|(name, _)| node.find(name).is_none());
        for (name, item) in gone {
            touched = true;
            self.tally.turn(&folder, name, Some(item), None);
        }
        self.tally.turn_node(&folder, &old, &node);
        for (name, item) in &old.items {
            let stays = matches!(node.find(name), Some(Item::Folder(_)));
            if matches!(item, Item::Folder(_)) && !stays {
                self.drop_all(&join(&folder, name), dropped);
            }
        }
        if touched {
            self.touched.insert(folder.clone());
        }
        self.nodes.insert(folder, node);
    }

    fn correct(&mut self, glance: Glance, outcomes: &Outcomes, dropped: &mut Vec<Vec<u8>>) {
        let Glance { folder, name, sight } = glance;
        let Some(node) = self.nodes.get_mut(&folder) else {
            return;
        };
        let at = node.seek(&name);
        let old = at.ok().map(|at| node.items[at].1.clone());
        let new = sight.and_then(|sight| outcomes.item(&folder, &name, sight, old.as_ref()));
        self.tally.turn(&folder, &name, old.as_ref(), new.as_ref());
        let is_same = match (&old, &new) {
            (Some(old), Some(new)) => is_same_line(old, new),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let left = matches!(old, Some(Item::Folder(_))) && !matches!(new, Some(Item::Folder(_)));
        let below = join(&folder, &name);
        match (at, new) {
            (Ok(at), Some(item)) => node.items[at].1 = item,
            (Ok(at), None) => drop(node.items.remove(at)),
            (Err(at), Some(item)) => node.items.insert(at, (name, item)),
            (Err(_), None) => {}
        }
        if !is_same {
            self.touched.insert(folder);
        }
        if left {
            self.drop_all(&below, dropped);
        }
    }

    /// Tells whether the folder above says that this one is one; it may have been seen later.
    fn is_entered(&self, folder: &[u8]) -> bool {
        let Some((above, name)) = split(folder) else {
            return true;
        };
        let item = self.nodes.get(above).and_then(|node| node.find(name));
        matches!(item, Some(Item::Folder(_)))
    }

    /// Forgets a folder and all below it.
    fn drop_all(&mut self, folder: &[u8], dropped: &mut Vec<Vec<u8>>) {
        let below = self.below(folder);
        below.iter().for_each(|folder| self.drop_one(folder, dropped));
        self.drop_one(folder, dropped);
    }

    fn drop_one(&mut self, folder: &[u8], dropped: &mut Vec<Vec<u8>>) {
        if let Some(node) = self.nodes.remove(folder) {
            self.tally.leave(folder, &node);
            self.touched.remove(folder);
            dropped.push(folder.to_vec());
        }
    }
}

/// Tells whether both give the same line of a tree.
fn is_same_line(one: &Item, other: &Item) -> bool {
    match (one, other) {
        (Item::File(one), Item::File(other)) => one.leaf == other.leaf,
        (Item::Folder(one), Item::Folder(other)) => one == other,
        (Item::Skipped(_), Item::Skipped(_)) => true,
        (Item::File(_) | Item::Folder(_) | Item::Skipped(_), _) => false,
    }
}
