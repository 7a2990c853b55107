//! Applying the result of a scan to the worktree index.

use std::collections::BTreeMap;

use super::index_folder::{IndexEntry, IndexFolder, WorktreeIndex, join_name, split_parent};
use crate::file_hashing::HashedFiles;
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::stat_cache::{CachedFile, EntryName};
use crate::worktree_walk::{EntryKind, FolderListing, NamedEntry, ScanDelta};

/// How a scan changed the index.
#[derive(Debug, Default)]
pub(crate) struct ScanUpdateReport {
    /// Files added, changed or removed.
    pub(crate) changed: usize,
    /// Folders that are no longer in the index.
    pub(crate) dropped: Vec<Vec<u8>>,
}

/// What files that had to be read turned out to be.
struct ReadOutcomes {
    /// Sorted by path: a table would need twice the memory.
    read: Vec<(RelPath, CachedFile)>,
    skipped: BTreeMap<RelPath, UncoveredReason>,
}

impl ReadOutcomes {
    fn new(hashed: HashedFiles) -> Self {
        let HashedFiles { mut read, skipped, absent: _ } = hashed;
        read.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Self { read, skipped }
    }

    fn find(&self, path: &[u8]) -> Option<IndexEntry> {
        match self.read.binary_search_by(|(known, _)| known.as_bytes().cmp(path)) {
            Ok(at) => Some(IndexEntry::File(self.read[at].1)),
            Err(_) => self.skipped.get(path).map(|reason| IndexEntry::Skipped(*reason)),
        }
    }

    /// What a name is now; `None` if it was gone when it was to be read.
    fn resolve_entry(
        &self,
        folder: &[u8],
        name: &[u8],
        kind: EntryKind,
        old: Option<&IndexEntry>,
    ) -> Option<IndexEntry> {
        match (kind, old) {
            (EntryKind::Known(cached), _) => Some(IndexEntry::File(cached)),
            (EntryKind::Skipped(reason), _) => Some(IndexEntry::Skipped(reason)),
            // Its tree is still right unless something below is touched.
            (EntryKind::Folder, Some(IndexEntry::Folder(tree))) => Some(IndexEntry::Folder(*tree)),
            (EntryKind::Folder, _) => Some(IndexEntry::Folder(None)),
            (EntryKind::Stale(_), _) => self.find(&join_name(folder, name)),
        }
    }
}

impl WorktreeIndex {
    /// Takes in what was found and what reading it gave.
    ///
    /// After a complete walk (`whole`), folders that were not seen are removed.
    pub(crate) fn apply_scan(
        &mut self,
        found: ScanDelta,
        hashed: HashedFiles,
        whole: bool,
    ) -> ScanUpdateReport {
        let ScanDelta { entries, mut listings, corrections: notes, .. } = found;
        self.unsaved += hashed.read.len();
        let outcomes = ReadOutcomes::new(hashed);
        let mut dropped = Vec::new();
        entries.into_iter().for_each(|it| self.correct_entry(it, &outcomes, &mut dropped));
        // Folders before what is in them.
        listings.sort_by(|one, other| one.folder.cmp(&other.folder));
        listings.into_iter().for_each(|it| self.replace_folder(it, &outcomes, &mut dropped));
        notes.into_iter().for_each(|it| self.correct_entry(it, &outcomes, &mut dropped));
        if whole {
            let unseen = self.folders.iter().filter(|(_, node)| !node.is_complete);
            let unseen: Vec<Vec<u8>> = unseen.map(|(folder, _)| folder.clone()).collect();
            unseen.iter().for_each(|folder| self.remove_folder(folder, &mut dropped));
        }
        self.unsaved += dropped.len();
        ScanUpdateReport { changed: std::mem::take(&mut self.totals.changed), dropped }
    }

    fn replace_folder(
        &mut self,
        listing: FolderListing,
        outcomes: &ReadOutcomes,
        dropped: &mut Vec<Vec<u8>>,
    ) {
        let FolderListing { folder, rules: place, is_repo, reserved, perm, entries: names } =
            listing;
        if !self.is_listed_as_folder(&folder) {
            dropped.push(folder);
            return;
        }
        let old = self.folders.remove(&folder).unwrap_or_default();
        let mut items: Vec<(EntryName, IndexEntry)> = Vec::with_capacity(names.len());
        for (name, kind) in names {
            let item = outcomes.resolve_entry(&folder, &name, kind, old.find(&name));
            items.extend(item.map(|item| (name, item)));
        }
        let node = IndexFolder {
            entries: items,
            rules: place,
            is_repo,
            reserved,
            perm: Some(perm),
            is_complete: true,
        };
        let mut touched = !old.is_complete;
        for (name, item) in &node.entries {
            let before = old.find(name);
            touched |= before.is_none_or(|before| !is_same_tree_line(before, item));
            self.totals.update_entry(&folder, name, before, Some(item));
        }
        let gone = old.entries.iter().filter(|(name, _)| node.find(name).is_none());
        for (name, item) in gone {
            touched = true;
            self.totals.update_entry(&folder, name, Some(item), None);
        }
        self.totals.update_folder(&folder, &old, &node);
        for (name, item) in &old.entries {
            let stays = matches!(node.find(name), Some(IndexEntry::Folder(_)));
            if matches!(item, IndexEntry::Folder(_)) && !stays {
                self.remove_folder_tree(&join_name(&folder, name), dropped);
            }
        }
        if touched {
            self.dirty_folders.insert(folder.clone());
        }
        self.folders.insert(folder, node);
    }

    fn correct_entry(
        &mut self,
        entry: NamedEntry,
        outcomes: &ReadOutcomes,
        dropped: &mut Vec<Vec<u8>>,
    ) {
        let NamedEntry { folder, name, kind } = entry;
        let Some(node) = self.folders.get_mut(&folder) else {
            return;
        };
        let at = node.position(&name);
        let old = at.ok().map(|at| node.entries[at].1.clone());
        let new = kind.and_then(|kind| outcomes.resolve_entry(&folder, &name, kind, old.as_ref()));
        self.totals.update_entry(&folder, &name, old.as_ref(), new.as_ref());
        let is_same = match (&old, &new) {
            (Some(old), Some(new)) => is_same_tree_line(old, new),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let left = matches!(old, Some(IndexEntry::Folder(_)))
            && !matches!(new, Some(IndexEntry::Folder(_)));
        let below = join_name(&folder, &name);
        match (at, new) {
            (Ok(at), Some(item)) => node.entries[at].1 = item,
            (Ok(at), None) => drop(node.entries.remove(at)),
            (Err(at), Some(item)) => node.entries.insert(at, (name, item)),
            (Err(_), None) => {}
        }
        if !is_same {
            self.dirty_folders.insert(folder);
        }
        if left {
            self.remove_folder_tree(&below, dropped);
        }
    }

    /// True if the entry in the parent is a folder; it may have been seen later.
    fn is_listed_as_folder(&self, folder: &[u8]) -> bool {
        let Some((above, name)) = split_parent(folder) else {
            return true;
        };
        let item = self.folders.get(above).and_then(|node| node.find(name));
        matches!(item, Some(IndexEntry::Folder(_)))
    }

    /// Forgets a folder and all below it.
    fn remove_folder_tree(&mut self, folder: &[u8], dropped: &mut Vec<Vec<u8>>) {
        let below = self.folders_below(folder);
        below.iter().for_each(|folder| self.remove_folder(folder, dropped));
        self.remove_folder(folder, dropped);
    }

    fn remove_folder(&mut self, folder: &[u8], dropped: &mut Vec<Vec<u8>>) {
        if let Some(node) = self.folders.remove(folder) {
            self.totals.remove_folder(folder, &node);
            self.totals.update_bare_folder(folder, true);
            self.dirty_folders.remove(folder);
            dropped.push(folder.to_vec());
        }
    }
}

/// True if both give the same line of a tree.
fn is_same_tree_line(one: &IndexEntry, other: &IndexEntry) -> bool {
    match (one, other) {
        (IndexEntry::File(one), IndexEntry::File(other)) => one.leaf == other.leaf,
        (IndexEntry::Folder(one), IndexEntry::Folder(other)) => one == other,
        (IndexEntry::Skipped(_), IndexEntry::Skipped(_)) => true,
        (IndexEntry::File(_) | IndexEntry::Folder(_) | IndexEntry::Skipped(_), _) => false,
    }
}
