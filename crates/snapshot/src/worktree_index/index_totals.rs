//! The running account: counts and lists over all folders, kept up to date name by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::index_folder::{IndexEntry, IndexFolder};
use crate::coverage::DEFAULT_DIRECTORY_BITS;
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::stat_cache::CachedFile;
use crate::user_git::UserRepository;
use crate::worktree::FileKind;

/// Sums over a worktree index.
#[derive(Clone)]
pub(super) struct IndexTotals {
    pub(super) files: usize,
    /// Files added, changed or removed since it was last asked.
    pub(super) changed: usize,
    pub(super) skipped: BTreeMap<RelPath, UncoveredReason>,
    pub(super) repos: BTreeMap<Vec<u8>, Arc<UserRepository>>,
    pub(super) reserved: usize,
    /// How many regular files have these permission bits.
    permission_counts: BTreeMap<u32, usize>,
    /// The bits that files without and with the right to run were last found to have usually.
    pub(super) usual_permissions: [u32; 2],
    /// The files that have others.
    pub(super) unusual_permissions: BTreeMap<RelPath, u32>,
    /// How many directories have these permission bits; the root does not count.
    directory_counts: BTreeMap<u32, usize>,
    /// The bits that directories were last found to have usually.
    pub(super) usual_directory: u32,
    /// The directories that have others.
    pub(super) unusual_directories: BTreeMap<RelPath, u32>,
    /// The directories that hold no captured file.
    pub(super) bare_directories: BTreeSet<RelPath>,
    /// Paths that every scan must visit, whatever the journal says: their content is unknown, or
    /// by which other name they may change.
    pub(super) always_rescanned: BTreeSet<RelPath>,
    /// Files that have another name, through which they may change unseen.
    pub(super) hard_linked_files: BTreeSet<RelPath>,
    /// True if a list of the coverage may have changed since it was last made.
    pub(super) is_coverage_stale: bool,
    /// True if a name came, went, or became something else.
    pub(super) has_kind_changes: bool,
}

impl Default for IndexTotals {
    fn default() -> Self {
        Self {
            files: 0,
            changed: 0,
            skipped: BTreeMap::new(),
            repos: BTreeMap::new(),
            reserved: 0,
            permission_counts: BTreeMap::new(),
            usual_permissions: [0o644, 0o755],
            unusual_permissions: BTreeMap::new(),
            directory_counts: BTreeMap::new(),
            usual_directory: DEFAULT_DIRECTORY_BITS,
            unusual_directories: BTreeMap::new(),
            bare_directories: BTreeSet::new(),
            always_rescanned: BTreeSet::new(),
            hard_linked_files: BTreeSet::new(),
            is_coverage_stale: true,
            has_kind_changes: true,
        }
    }
}

impl IndexTotals {
    /// Counts a folder in.
    pub(super) fn add_folder(&mut self, folder: &[u8], node: &IndexFolder) {
        node.entries
            .iter()
            .for_each(|(name, item)| self.update_entry(folder, name, None, Some(item)));
        self.update_folder(folder, &IndexFolder::default(), node);
    }

    /// Counts a folder out.
    pub(super) fn remove_folder(&mut self, folder: &[u8], node: &IndexFolder) {
        node.entries
            .iter()
            .for_each(|(name, item)| self.update_entry(folder, name, Some(item), None));
        self.update_folder(folder, node, &IndexFolder::default());
    }

    /// Counts what a folder is besides its names.
    pub(super) fn update_folder(&mut self, folder: &[u8], old: &IndexFolder, new: &IndexFolder) {
        if old.reserved != new.reserved {
            self.reserved = self.reserved + new.reserved - old.reserved;
            self.is_coverage_stale = true;
        }
        if old.perm != new.perm
            && let Ok(path) = RelPath::new(folder)
        {
            self.update_directory_bits(path, old.perm, new.perm);
        }
        let repo = |node: &IndexFolder| node.rules.repo.clone().filter(|_| node.is_repo);
        let (old, new) = (repo(old), repo(new));
        self.is_coverage_stale |= old.is_some() != new.is_some();
        match new {
            Some(repo) => drop(self.repos.insert(folder.to_vec(), repo)),
            None => drop(self.repos.remove(folder)),
        }
    }

    fn update_directory_bits(&mut self, path: RelPath, old: Option<u32>, new: Option<u32>) {
        if let Some(perm) = old {
            if let Some(count) = self.directory_counts.get_mut(&perm) {
                *count -= 1;
            }
            self.is_coverage_stale |= self.unusual_directories.remove(&path).is_some();
        }
        if let Some(perm) = new {
            *self.directory_counts.entry(perm).or_default() += 1;
            if perm != self.usual_directory {
                self.unusual_directories.insert(path, perm);
                self.is_coverage_stale = true;
            }
        }
    }

    /// Notes whether a folder holds a captured file.
    pub(super) fn update_bare_folder(&mut self, folder: &[u8], has_tree: bool) {
        if has_tree && self.bare_directories.is_empty() {
            return;
        }
        let Ok(path) = RelPath::new(folder) else { return };
        self.is_coverage_stale |= match has_tree {
            true => self.bare_directories.remove(&path),
            false => self.bare_directories.insert(path),
        };
    }

    /// The bits most directories have.
    pub(super) fn most_common_directory(&self) -> u32 {
        let used = self.directory_counts.iter().filter(|(_, count)| **count > 0);
        used.max_by_key(|(_, count)| **count).map_or(DEFAULT_DIRECTORY_BITS, |(perm, _)| *perm)
    }

    /// Counts one name from what it was to what it is.
    pub(super) fn update_entry(
        &mut self,
        folder: &[u8],
        name: &[u8],
        old: Option<&IndexEntry>,
        new: Option<&IndexEntry>,
    ) {
        let leaf = |item: Option<&IndexEntry>| match item {
            Some(IndexEntry::File(cached)) => Some(cached.leaf),
            Some(IndexEntry::Skipped(_) | IndexEntry::Folder(_)) | None => None,
        };
        let (before, after) = (leaf(old), leaf(new));
        self.changed += usize::from(before != after);
        self.files = self.files + usize::from(after.is_some()) - usize::from(before.is_some());
        let class = |item: Option<&IndexEntry>| item.map(std::mem::discriminant);
        self.has_kind_changes |= class(old) != class(new);
        if let (Some(IndexEntry::File(one)), Some(IndexEntry::File(other))) = (old, new)
            && one.stat.perm == other.stat.perm
            && one.stat.kind == other.stat.kind
            && (one.stat.nlink > 1) == (other.stat.nlink > 1)
        {
            return;
        }
        // A name that came from a listing is a name.
        let Ok(path) = RelPath::in_folder(folder, name) else {
            return;
        };
        if let Some(item) = old {
            self.remove_entry(&path, item);
        }
        if let Some(item) = new {
            self.add_entry(path, item);
        }
    }

    fn remove_entry(&mut self, path: &RelPath, item: &IndexEntry) {
        match item {
            IndexEntry::File(cached) => {
                self.hard_linked_files.remove(path);
                if let Some(perm) = permission_bits(cached) {
                    if let Some(count) = self.permission_counts.get_mut(&perm) {
                        *count -= 1;
                    }
                    self.is_coverage_stale |= self.unusual_permissions.remove(path).is_some();
                }
            }
            IndexEntry::Skipped(_) => {
                self.is_coverage_stale |= self.skipped.remove(path).is_some();
                self.always_rescanned.remove(path);
            }
            IndexEntry::Folder(_) => {}
        }
    }

    fn add_entry(&mut self, path: RelPath, item: &IndexEntry) {
        match item {
            IndexEntry::File(cached) => {
                if cached.stat.nlink > 1 {
                    self.hard_linked_files.insert(path.clone());
                }
                if let Some(perm) = permission_bits(cached) {
                    *self.permission_counts.entry(perm).or_default() += 1;
                    if !self.is_usual_permission(perm) {
                        self.unusual_permissions.insert(path, perm);
                        self.is_coverage_stale = true;
                    }
                }
            }
            IndexEntry::Skipped(reason) => {
                self.is_coverage_stale = true;
                if matches!(
                    reason,
                    UncoveredReason::Unreadable
                        | UncoveredReason::Changing
                        | UncoveredReason::TooLarge
                ) {
                    self.always_rescanned.insert(path.clone());
                }
                self.skipped.insert(path, *reason);
            }
            IndexEntry::Folder(_) => {}
        }
    }

    pub(super) fn is_usual_permission(&self, perm: u32) -> bool {
        self.usual_permissions[usize::from(perm & 0o100 != 0)] == perm
    }

    /// The bits most files have: those that may not be run, and those that may.
    pub(super) fn most_common_permissions(&self) -> [u32; 2] {
        [(false, 0o644), (true, 0o755)].map(|(executable, default)| {
            let of_kind =
                |(perm, count): &(&u32, &usize)| **count > 0 && (**perm & 0o100 != 0) == executable;
            let all = self.permission_counts.iter().filter(of_kind);
            all.max_by_key(|(_, count)| **count).map_or(default, |(perm, _)| *perm)
        })
    }
}

/// The permission bits of a file; links have none of their own.
pub(super) fn permission_bits(cached: &CachedFile) -> Option<u32> {
    (cached.stat.kind == FileKind::File).then_some(cached.stat.perm)
}
