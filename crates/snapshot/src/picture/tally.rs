//! The running account: counts and lists over all folders, kept up to date name by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::node::{Item, Node};
use crate::cache::Cached;
use crate::coverage::Reason;
use crate::path::{RelPath, below};
use crate::vcs::Repo;
use crate::worktree::Kind;

/// Sums over a picture.
#[derive(Clone)]
pub(super) struct Tally {
    pub(super) files: usize,
    /// Files added, changed or removed since it was last asked.
    pub(super) changed: usize,
    pub(super) skipped: BTreeMap<RelPath, Reason>,
    pub(super) repos: BTreeMap<Vec<u8>, Arc<Repo>>,
    pub(super) reserved: usize,
    /// How many regular files have these permission bits.
    perms: BTreeMap<u32, usize>,
    /// The bits that files without and with the right to run were last found to have usually.
    pub(super) usual: [u32; 2],
    /// The files that have others.
    pub(super) odd: BTreeMap<RelPath, u32>,
    /// Paths that must be looked at again whatever the journal says: nobody knows what they hold, or
    /// by which other name they may change.
    pub(super) restless: BTreeSet<RelPath>,
    /// Files that have another name, through which they may change unseen.
    pub(super) linked: BTreeSet<RelPath>,
    /// True if a list of the coverage may have changed since it was last made.
    pub(super) stale: bool,
    /// True if a name came, went, or became something else.
    pub(super) moved: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            files: 0,
            changed: 0,
            skipped: BTreeMap::new(),
            repos: BTreeMap::new(),
            reserved: 0,
            perms: BTreeMap::new(),
            usual: [0o644, 0o755],
            odd: BTreeMap::new(),
            restless: BTreeSet::new(),
            linked: BTreeSet::new(),
            stale: true,
            moved: true,
        }
    }
}

impl Tally {
    /// Counts a folder in.
    pub(super) fn enter(&mut self, folder: &[u8], node: &Node) {
        node.items.iter().for_each(|(name, item)| self.turn(folder, name, None, Some(item)));
        self.turn_node(folder, &Node::default(), node);
    }

    /// Counts a folder out.
    pub(super) fn leave(&mut self, folder: &[u8], node: &Node) {
        node.items.iter().for_each(|(name, item)| self.turn(folder, name, Some(item), None));
        self.turn_node(folder, node, &Node::default());
    }

    /// Counts what a folder is besides its names.
    pub(super) fn turn_node(&mut self, folder: &[u8], old: &Node, new: &Node) {
        if old.reserved != new.reserved {
            self.reserved = self.reserved + new.reserved - old.reserved;
            self.stale = true;
        }
        let repo = |node: &Node| node.place.repo.clone().filter(|_| node.is_repo);
        let (old, new) = (repo(old), repo(new));
        self.stale |= old.is_some() != new.is_some();
        match new {
            Some(repo) => drop(self.repos.insert(folder.to_vec(), repo)),
            None => drop(self.repos.remove(folder)),
        }
    }

    /// Counts one name from what it was to what it is.
    pub(super) fn turn(
        &mut self,
        folder: &[u8],
        name: &[u8],
        old: Option<&Item>,
        new: Option<&Item>,
    ) {
        let leaf = |item: Option<&Item>| match item {
            Some(Item::File(cached)) => Some(cached.leaf),
            Some(Item::Skipped(_) | Item::Folder(_)) | None => None,
        };
        let (before, after) = (leaf(old), leaf(new));
        self.changed += usize::from(before != after);
        self.files = self.files + usize::from(after.is_some()) - usize::from(before.is_some());
        let class = |item: Option<&Item>| item.map(std::mem::discriminant);
        self.moved |= class(old) != class(new);
        if let (Some(Item::File(one)), Some(Item::File(other))) = (old, new)
            && one.stat.perm == other.stat.perm
            && one.stat.kind == other.stat.kind
            && (one.stat.nlink > 1) == (other.stat.nlink > 1)
        {
            return;
        }
        // A name that came from a listing is a name.
        let Ok(path) = below(folder, name) else {
            return;
        };
        if let Some(item) = old {
            self.take_out(&path, item);
        }
        if let Some(item) = new {
            self.put_in(path, item);
        }
    }

    fn take_out(&mut self, path: &RelPath, item: &Item) {
        match item {
            Item::File(cached) => {
                self.linked.remove(path);
                if let Some(perm) = perm(cached) {
                    if let Some(count) = self.perms.get_mut(&perm) {
                        *count -= 1;
                    }
                    self.stale |= self.odd.remove(path).is_some();
                }
            }
            Item::Skipped(_) => {
                self.stale |= self.skipped.remove(path).is_some();
                self.restless.remove(path);
            }
            Item::Folder(_) => {}
        }
    }

    fn put_in(&mut self, path: RelPath, item: &Item) {
        match item {
            Item::File(cached) => {
                if cached.stat.nlink > 1 {
                    self.linked.insert(path.clone());
                }
                if let Some(perm) = perm(cached) {
                    *self.perms.entry(perm).or_default() += 1;
                    if !self.is_usual(perm) {
                        self.odd.insert(path, perm);
                        self.stale = true;
                    }
                }
            }
            Item::Skipped(reason) => {
                self.stale = true;
                if matches!(reason, Reason::Unreadable | Reason::Changing | Reason::TooLarge) {
                    self.restless.insert(path.clone());
                }
                self.skipped.insert(path, *reason);
            }
            Item::Folder(_) => {}
        }
    }

    pub(super) fn is_usual(&self, perm: u32) -> bool {
        self.usual[usize::from(perm & 0o100 != 0)] == perm
    }

    /// The bits most files have: those that may not be run, and those that may.
    pub(super) fn most(&self) -> [u32; 2] {
        [(false, 0o644), (true, 0o755)].map(|(executable, default)| {
            let of_kind =
                |(perm, count): &(&u32, &usize)| **count > 0 && (**perm & 0o100 != 0) == executable;
            let all = self.perms.iter().filter(of_kind);
            all.max_by_key(|(_, count)| **count).map_or(default, |(perm, _)| *perm)
        })
    }
}

/// The permission bits of a file; links have none of their own.
pub(super) fn perm(cached: &Cached) -> Option<u32> {
    (cached.stat.kind == Kind::File).then_some(cached.stat.perm)
}
