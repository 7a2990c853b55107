//! Folders and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::index_coverage::DescribedCoverage;
use super::index_totals::IndexTotals;
use super::index_trees::build_folder_trees;
use crate::file_watch::NamesByFolder;
use crate::ignore_rules::IgnoreRules;
use crate::object_store::{Oid, PackedObject, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::stat_cache::{self, CachedFile, EntryName, StatCacheWriter};
use crate::user_git::UserRepository;

/// What a name in a folder is.
#[derive(Clone, Debug)]
pub(crate) enum IndexEntry {
    /// A file or a link, captured.
    File(CachedFile),
    /// Not captured.
    Skipped(UncoveredReason),
    /// A folder that was entered; its tree, unless no file is below it or it is not known yet.
    Folder(Option<Oid>),
}

/// Which rules apply to the names in a folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct FolderRules {
    /// The rules that come from above.
    pub(crate) inherited: IgnoreRules,
    /// The text of its own `.gitignore`.
    pub(crate) gitignore: Option<Arc<[u8]>>,
    /// The inherited rules and those of its own `.gitignore`.
    pub(crate) rules: IgnoreRules,
    pub(crate) repo: Option<Arc<UserRepository>>,
    /// Set in a folder that is entered only for files that are tracked or forced.
    pub(crate) hidden_because: Option<UncoveredReason>,
}

impl FolderRules {
    /// True if the same names are selected in both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let repo = match (&self.repo, &other.repo) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        repo && self.rules.is_same_chain(&other.rules)
            && self.hidden_because == other.hidden_because
    }
}

/// One folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexFolder {
    /// Sorted by name.
    pub(crate) entries: Vec<(EntryName, IndexEntry)>,
    pub(crate) rules: FolderRules,
    /// True if a repository begins here.
    pub(crate) is_repo: bool,
    /// Names that are a git directory's where case does not matter.
    pub(crate) reserved: usize,
    /// Its permission bits; unknown if it comes from the stat cache.
    pub(crate) perm: Option<u32>,
    /// False if it comes from the stat cache: then only its files are known, and they may be gone.
    pub(crate) is_complete: bool,
}

impl IndexFolder {
    pub(crate) fn find(&self, name: &[u8]) -> Option<&IndexEntry> {
        self.position(name).ok().map(|at| &self.entries[at].1)
    }

    /// Where a name is, or where it would be.
    pub(crate) fn position(&self, name: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|(found, _)| found[..].cmp(name))
    }
}

/// The folders of a worktree by their path.
pub(super) type IndexFolders = BTreeMap<Vec<u8>, IndexFolder>;

/// Everything known of one worktree. Folders are named by their path; the root is empty.
#[derive(Clone, Default)]
pub(crate) struct WorktreeIndex {
    pub(super) folders: IndexFolders,
    pub(super) totals: IndexTotals,
    /// Folders whose tree must be built again.
    pub(super) dirty_folders: BTreeSet<Vec<u8>>,
    /// The tree of the root.
    pub(super) root_tree: Option<Oid>,
    pub(super) described: Option<DescribedCoverage>,
    /// Files read since the stat cache was saved.
    pub(super) unsaved: usize,
}

impl WorktreeIndex {
    /// Begins with what an earlier process remembered of the files.
    pub(crate) fn load(path: &Path) -> Self {
        let mut worktree_index = Self::default();
        for (folder, files) in stat_cache::load_stat_cache(path) {
            let items = files.into_iter().map(|(name, cached)| (name, IndexEntry::File(cached)));
            let node = IndexFolder { entries: items.collect(), ..IndexFolder::default() };
            worktree_index.totals.add_folder(&folder, &node);
            worktree_index.folders.insert(folder, node);
        }
        // What was known before is not what changed.
        worktree_index.totals.changed = 0;
        worktree_index
    }

    /// Writes the stat cache if `always`, or if so much was read that losing it would hurt.
    pub(crate) fn save(&mut self, path: &Path, always: bool) -> io::Result<()> {
        let much = 1000.max(self.totals.files / 4);
        if self.unsaved == 0 || !always && self.unsaved < much {
            return Ok(());
        }
        let mut saver = StatCacheWriter::new(self.totals.files);
        for (folder, node) in &self.folders {
            saver.add(folder, node.entries.iter().filter_map(as_file_entry));
        }
        self.unsaved = 0;
        saver.finish(path)
    }

    /// True if a capture of the whole worktree made it, so that changes can be added to it.
    pub(crate) fn is_complete(&self) -> bool {
        self.folders.get(&b""[..]).is_some_and(|root| root.is_complete)
    }

    pub(crate) fn folder(&self, folder: &[u8]) -> Option<&IndexFolder> {
        self.folders.get(folder)
    }

    /// Every name that is known, with the folder it is in.
    pub(crate) fn entry_names(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.folders.iter().flat_map(|(folder, node)| {
            node.entries.iter().map(move |(name, _)| (&folder[..], &name[..]))
        })
    }

    /// Every file that is known, sorted by path.
    pub(crate) fn list_leaves(&self) -> Vec<(RelPath, TreeLeaf)> {
        let mut found = Vec::with_capacity(self.totals.files);
        for (folder, node) in &self.folders {
            for (name, cached) in node.entries.iter().filter_map(as_file_entry) {
                found.extend(RelPath::in_folder(folder, name).ok().map(|path| (path, cached.leaf)));
            }
        }
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        found
    }

    /// Every directory below the root that was entered, and its permission bits.
    pub(crate) fn list_folders(&self) -> BTreeMap<RelPath, u32> {
        let known = self
            .folders
            .iter()
            .filter_map(|(folder, node)| Some((RelPath::new(&folder[..]).ok()?, node.perm?)));
        known.collect()
    }

    /// How many files there are.
    /// About how many bytes of memory it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entry = size_of::<(EntryName, IndexEntry)>();
        let folder = size_of::<(Vec<u8>, IndexFolder)>();
        let of_folder = |(path, node): (&Vec<u8>, &IndexFolder)| {
            let names: usize = node.entries.iter().map(|(name, _)| name.len()).sum();
            folder + path.len() + names + node.entries.capacity() * entry
        };
        self.folders.iter().map(|folder| of_folder(folder) as u64).sum()
    }

    pub(crate) fn file_count(&self) -> usize {
        self.totals.files
    }

    /// Drops everything except what may save reading files again; `keep` selects these files.
    ///
    /// Whatever was made from the rest, trees and descriptions, may not be in the store.
    pub(crate) fn retain_stat_cache(&mut self, keep: impl Fn(&[u8], &[u8], &CachedFile) -> bool) {
        let nodes = std::mem::take(&mut self.folders);
        let unsaved = self.unsaved + 1;
        *self = Self { unsaved, ..Self::default() };
        for (folder, mut node) in nodes {
            node.entries.retain(|(name, item)| match item {
                IndexEntry::File(cached) => keep(&folder, name, cached),
                IndexEntry::Skipped(_) | IndexEntry::Folder(_) => false,
            });
            let node = IndexFolder { entries: node.entries, ..IndexFolder::default() };
            self.totals.add_folder(&folder, &node);
            self.folders.insert(folder, node);
        }
    }

    /// True if all objects that the index relies on are kept.
    pub(crate) fn are_objects_kept(&self, kept: &dyn Fn(&Oid) -> bool) -> bool {
        let described = self.described.as_ref().and_then(|it| it.commit);
        let is_kept = |item: &IndexEntry| match item {
            IndexEntry::File(cached) => kept(&cached.leaf.blob),
            IndexEntry::Folder(tree) => tree.is_none_or(|tree| kept(&tree)),
            IndexEntry::Skipped(_) => true,
        };
        self.root_tree.into_iter().chain(described).all(|oid| kept(&oid))
            && self.folders.values().flat_map(|node| &node.entries).all(|(_, item)| is_kept(item))
    }

    /// Builds the trees that changed; `made` gets each that `is_known` denies. Returns the root's.
    pub(crate) fn build_trees(
        &mut self,
        is_known: &dyn Fn(&Oid) -> bool,
        made: &mut Vec<PackedObject>,
    ) -> io::Result<Oid> {
        let Self { folders, dirty_folders, root_tree, totals, .. } = self;
        build_folder_trees(folders, dirty_folders, totals, root_tree, is_known, made)
    }

    /// The repositories in it, by the folder they begin in.
    pub(crate) fn repositories(&self) -> impl Iterator<Item = (&[u8], &Arc<UserRepository>)> {
        self.totals.repos.iter().map(|(folder, repo)| (&folder[..], repo))
    }

    /// Paths that must be looked at whatever the journal says: they could not be read.
    pub(crate) fn always_rescanned(&self) -> &BTreeSet<RelPath> {
        &self.totals.always_rescanned
    }

    /// Files that have another name, through which they may change unseen.
    pub(crate) fn hard_linked_files(&self) -> &BTreeSet<RelPath> {
        &self.totals.hard_linked_files
    }

    /// The names of files by device and inode; each may have changed through another.
    ///
    /// Searches the whole index, but only after a change to a file with several names.
    pub(crate) fn names_of_inodes(&self, inodes: &BTreeSet<(u64, u64)>) -> NamesByFolder {
        let mut names = NamesByFolder::new();
        if inodes.is_empty() {
            return names;
        }
        for (folder, node) in &self.folders {
            for (name, cached) in node.entries.iter().filter_map(as_file_entry) {
                if inodes.contains(&(cached.stat.dev, cached.stat.ino)) {
                    names.entry(folder.clone()).or_default().insert(name.clone());
                }
            }
        }
        names
    }

    /// True if a folder is entered only for files that are tracked or forced.
    pub(crate) fn is_hidden_folder(&self, folder: &[u8]) -> bool {
        self.folders.get(folder).is_none_or(|node| node.rules.hidden_because.is_some())
    }

    /// The paths of all folders below `folder`.
    pub(super) fn folders_below(&self, folder: &[u8]) -> Vec<Vec<u8>> {
        let (from, to) = ([folder, b"/"].concat(), [folder, b"0"].concat());
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        self.folders.range::<[u8], _>(range).map(|(folder, _)| folder.clone()).collect()
    }
}

fn as_file_entry((name, item): &(EntryName, IndexEntry)) -> Option<(&EntryName, &CachedFile)> {
    match item {
        IndexEntry::File(cached) => Some((name, cached)),
        IndexEntry::Skipped(_) | IndexEntry::Folder(_) => None,
    }
}

/// The folder a path lies in, and its name there; nothing for the root.
pub(crate) fn split_parent(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    Some(match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    })
}

/// The path of a name in a folder.
pub(crate) fn join_name(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}
