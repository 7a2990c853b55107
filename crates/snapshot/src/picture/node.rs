//! Folders and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::cover::Described;
use super::tally::Tally;
use crate::cache::{self, Cached, Name, Saver};
use crate::coverage::Reason;
use crate::ignore::Rules;
use crate::object::{Leaf, Oid};
use crate::path::RelPath;
use crate::vcs::Repo;
use crate::watch::Names;

/// What a name in a folder is.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A file or a link, captured.
    File(Cached),
    /// Not captured.
    Skipped(Reason),
    /// A folder that was entered; its tree, unless no file is below it or it is not known yet.
    Folder(Option<Oid>),
}

/// Which rules apply to the names in a folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// The rules that come from above.
    pub(crate) above: Rules,
    /// The text of its own `.gitignore`.
    pub(crate) own: Option<Arc<[u8]>>,
    /// Both.
    pub(crate) rules: Rules,
    pub(crate) repo: Option<Arc<Repo>>,
    /// Set in a folder that is entered only for files that are tracked or forced.
    pub(crate) hidden: Option<Reason>,
}

impl Place {
    /// Tells whether the same names are selected in both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let repo = match (&self.repo, &other.repo) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        repo && self.rules.is_same(&other.rules) && self.hidden == other.hidden
    }
}

/// One folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Sorted by name.
    pub(crate) items: Vec<(Name, Item)>,
    pub(crate) place: Place,
    /// True if a repository begins here.
    pub(crate) is_repo: bool,
    /// Names that are a git directory's where case does not matter.
    pub(crate) reserved: usize,
    /// False if it comes from the stat cache: then only its files are known, and they may be gone.
    pub(crate) whole: bool,
}

impl Node {
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Item> {
        self.seek(name).ok().map(|at| &self.items[at].1)
    }

    /// Where a name is, or where it would be.
    pub(crate) fn seek(&self, name: &[u8]) -> Result<usize, usize> {
        self.items.binary_search_by(|(found, _)| found[..].cmp(name))
    }
}

/// Everything known of one worktree. Folders are named by their path; the root is empty.
#[derive(Clone, Default)]
pub(crate) struct Picture {
    pub(super) nodes: BTreeMap<Vec<u8>, Node>,
    pub(super) tally: Tally,
    /// Folders whose tree must be built again.
    pub(super) touched: BTreeSet<Vec<u8>>,
    /// The tree of the root.
    pub(super) tree: Option<Oid>,
    pub(super) described: Option<Described>,
    /// Files read since the stat cache was saved.
    pub(super) unsaved: usize,
}

impl Picture {
    /// Begins with what an earlier process remembered of the files.
    pub(crate) fn load(path: &Path) -> Self {
        let mut picture = Self::default();
        for (folder, files) in cache::load(path) {
            let items = files.into_iter().map(|(name, cached)| (name, Item::File(cached)));
            let node = Node { items: items.collect(), ..Node::default() };
            picture.tally.enter(&folder, &node);
            picture.nodes.insert(folder, node);
        }
        // What was known before is not what changed.
        picture.tally.changed = 0;
        picture
    }

    /// Writes the stat cache if `always`, or if so much was read that losing it would hurt.
    pub(crate) fn save(&mut self, path: &Path, always: bool) -> io::Result<()> {
        let much = 1000.max(self.tally.files / 4);
        if self.unsaved == 0 || !always && self.unsaved < much {
            return Ok(());
        }
        let mut saver = Saver::new(self.tally.files);
        for (folder, node) in &self.nodes {
            saver.add(folder, node.items.iter().filter_map(file));
        }
        self.unsaved = 0;
        saver.finish(path)
    }

    /// Tells whether a capture of the whole worktree made it, so that changes can be added to it.
    pub(crate) fn is_whole(&self) -> bool {
        self.nodes.get(&b""[..]).is_some_and(|root| root.whole)
    }

    pub(crate) fn node(&self, folder: &[u8]) -> Option<&Node> {
        self.nodes.get(folder)
    }

    /// Every name that is known, with the folder it is in.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.nodes.iter().flat_map(|(folder, node)| {
            node.items.iter().map(move |(name, _)| (&folder[..], &name[..]))
        })
    }

    /// Every file that is known, sorted by path.
    pub(crate) fn leaves(&self) -> Vec<(RelPath, Leaf)> {
        let mut found = Vec::with_capacity(self.tally.files);
        for (folder, node) in &self.nodes {
            for (name, cached) in node.items.iter().filter_map(file) {
                found.extend(RelPath::below(folder, name).ok().map(|path| (path, cached.leaf)));
            }
        }
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        found
    }

    /// How many files there are.
    pub(crate) fn files(&self) -> usize {
        self.tally.files
    }

    /// Forgets everything but what may spare reading files again; `keep` says which files may.
    ///
    /// Whatever was made from the rest, trees and descriptions, may not be in the store.
    pub(crate) fn shrink(&mut self, keep: impl Fn(&[u8], &[u8], &Cached) -> bool) {
        let nodes = std::mem::take(&mut self.nodes);
        let unsaved = self.unsaved + 1;
        *self = Self { unsaved, ..Self::default() };
        for (folder, mut node) in nodes {
            node.items.retain(|(name, item)| match item {
                Item::File(cached) => keep(&folder, name, cached),
                Item::Skipped(_) | Item::Folder(_) => false,
            });
            let node = Node { items: node.items, ..Node::default() };
            self.tally.enter(&folder, &node);
            self.nodes.insert(folder, node);
        }
    }

    /// Tells whether all objects the picture relies on are kept.
    pub(crate) fn is_kept(&self, kept: &dyn Fn(&Oid) -> bool) -> bool {
        let described = self.described.as_ref().and_then(|it| it.commit);
        let is_kept = |item: &Item| match item {
            Item::File(cached) => kept(&cached.leaf.blob),
            Item::Folder(tree) => tree.is_none_or(|tree| kept(&tree)),
            Item::Skipped(_) => true,
        };
        self.tree.into_iter().chain(described).all(|oid| kept(&oid))
            && self.nodes.values().flat_map(|node| &node.items).all(|(_, item)| is_kept(item))
    }

    /// The repositories in it, by the folder they begin in.
    pub(crate) fn repos(&self) -> impl Iterator<Item = (&[u8], &Arc<Repo>)> {
        self.tally.repos.iter().map(|(folder, repo)| (&folder[..], repo))
    }

    /// Paths that must be looked at whatever the journal says: they could not be read.
    pub(crate) fn restless(&self) -> &BTreeSet<RelPath> {
        &self.tally.restless
    }

    /// Files that have another name, through which they may change unseen.
    pub(crate) fn linked(&self) -> &BTreeSet<RelPath> {
        &self.tally.linked
    }

    /// The names of files by device and inode; each may have changed through another.
    ///
    /// Looks at everything in memory, but only when something happened to a file of several names.
    pub(crate) fn names_of(&self, inodes: &BTreeSet<(u64, u64)>) -> Names {
        let mut names = Names::new();
        if inodes.is_empty() {
            return names;
        }
        for (folder, node) in &self.nodes {
            for (name, cached) in node.items.iter().filter_map(file) {
                if inodes.contains(&(cached.stat.dev, cached.stat.ino)) {
                    names.entry(folder.clone()).or_default().insert(name.clone());
                }
            }
        }
        names
    }

    /// Tells whether a folder is entered only for files that are tracked or forced.
    pub(crate) fn is_hidden(&self, folder: &[u8]) -> bool {
        self.nodes.get(folder).is_none_or(|node| node.place.hidden.is_some())
    }

    /// The paths of all folders below `folder`.
    pub(super) fn below(&self, folder: &[u8]) -> Vec<Vec<u8>> {
        let (from, to) = ([folder, b"/"].concat(), [folder, b"0"].concat());
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        self.nodes.range::<[u8], _>(range).map(|(folder, _)| folder.clone()).collect()
    }
}

fn file((name, item): &(Name, Item)) -> Option<(&Name, &Cached)> {
    match item {
        Item::File(cached) => Some((name, cached)),
        Item::Skipped(_) | Item::Folder(_) => None,
    }
}

/// The folder a path lies in, and its name there; nothing for the root.
pub(crate) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    Some(match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    })
}

/// The path of a name in a folder.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}
