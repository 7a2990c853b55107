//! Usage: what takes space in a store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use serde::Serialize;
use turnstone_core::time::EpochMillis;

use crate::object_store::{ObjectError, ObjectRepository, Oid, PackOwner, TreeEntry, loose_bytes};
use crate::path::RelPath;
use crate::reachability::stored_object_sizes;
use crate::snapshot_store::SnapshotStore;

/// What uses space, in a few figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreUsage {
    /// Number of packs.
    pub packs: usize,
    /// Bytes of packs and their indexes, borrowed ones included.
    pub bytes: u64,
    /// Bytes of borrowed packs.
    #[serde(rename = "lent")]
    pub borrowed: u64,
    /// Bytes of objects outside of packs; only git itself makes such.
    pub loose: u64,
    /// Number of pin groups.
    pub groups: usize,
    /// When the store was last collected.
    pub last_gc: Option<EpochMillis>,
}

/// What a pin group keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupUsage {
    /// The name it was given.
    pub group: String,
    /// Its captures.
    pub captures: usize,
    /// When the newest was made.
    pub newest: EpochMillis,
    /// Stored bytes that no other group keeps: what dropping it would free.
    pub unique: u64,
    /// Stored bytes that other groups keep as well.
    pub shared: u64,
}

/// What the versions of a path take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathUsage {
    /// The file, below the root.
    pub path: RelPath,
    /// How many versions are stored.
    pub versions: usize,
    /// Stored bytes of all of them.
    pub bytes: u64,
}

/// What takes space, in detail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskUsageReport {
    /// The summary.
    pub usage: StoreUsage,
    /// Pin groups, the one that would free most first.
    pub groups: Vec<GroupUsage>,
    /// Paths whose versions take most, largest first.
    pub largest: Vec<PathUsage>,
    /// Stored bytes that no group keeps: what a collection would free.
    pub unpinned: u64,
}

/// Who keeps an object: a group by its number, or several.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectHolder {
    One(usize),
    Several,
}

/// What a store holds and whether it is sound. It changes nothing.
pub struct StoreInspection<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl StoreInspection<'_> {
    /// Returns a summary of what uses space in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn usage(&self) -> io::Result<StoreUsage> {
        let packs = self.store.repository.list_packs()?;
        let bytes = |wanted: Option<PackOwner>| {
            let found = packs.iter().filter(|pack| wanted.is_none_or(|owner| owner == pack.owner));
            found.map(|pack| pack.bytes).sum()
        };
        Ok(StoreUsage {
            packs: packs.len(),
            bytes: bytes(None),
            borrowed: bytes(Some(PackOwner::User)),
            loose: loose_bytes(self.store.git_dir())?,
            groups: self.store.repository.refs().list()?.len(),
            last_gc: self.last_gc(),
        })
    }

    /// Returns in detail what uses space, with up to `largest` paths. Every tree is looked at.
    ///
    /// Versions stored as changes of each other are counted as they lie there, so the parts are an
    /// estimate of what would be free if they went.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn disk_usage(&self, largest: usize) -> Result<DiskUsageReport, ObjectError> {
        let _held = self.store.lock_objects_shared();
        let sizes = stored_object_sizes(&self.store.repository)?;
        let size = |oid: &Oid| sizes.get(oid).copied().unwrap_or_default();
        let mut holders = HashMap::<Oid, ObjectHolder>::new();
        let mut paths = BTreeMap::<Vec<u8>, (usize, u64)>::new();
        let mut groups = Vec::new();
        for (number, (name, tip)) in self.store.repository.refs().list()?.into_iter().enumerate() {
            let mut seen = GroupUsageWalk {
                repository: &self.store.repository,
                number,
                holders: &mut holders,
                captures: 0,
            };
            let mine = seen.walk_group(&tip, &mut |path, blob| {
                let entry = paths.entry(path.to_vec()).or_default();
                *entry = (entry.0 + 1, entry.1 + size(blob));
            })?;
            let shared = mine.iter().map(size).sum();
            let commit = self.store.repository.read_commit(&tip)?;
            let group = commit.trailer("Turnstone-Group").unwrap_or(&name).to_owned();
            let (captures, newest) = (seen.captures, crate::capture_chain::capture_time(&commit));
            groups.push(GroupUsage { group, captures, newest, unique: 0, shared });
        }
        for (oid, holder) in &holders {
            if let ObjectHolder::One(number) = holder {
                groups[*number].unique += size(oid);
                groups[*number].shared -= size(oid);
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.unique));
        let unpinned = sizes.iter().filter(|(oid, _)| !holders.contains_key(oid));
        Ok(DiskUsageReport {
            usage: self.usage()?,
            groups,
            largest: largest_paths(paths, largest),
            unpinned: unpinned.map(|(_, bytes)| bytes).sum(),
        })
    }

    /// When the store was last collected, for those who ask whether it is time (R41).
    #[must_use]
    pub fn last_gc(&self) -> Option<EpochMillis> {
        crate::repack::MaintenanceState::load(&self.store.directory).last_gc
    }
}

fn largest_paths(paths: BTreeMap<Vec<u8>, (usize, u64)>, count: usize) -> Vec<PathUsage> {
    let mut all: Vec<PathUsage> = paths
        .into_iter()
        .filter_map(|(path, (versions, bytes))| {
            Some(PathUsage { path: RelPath::new(path).ok()?, versions, bytes })
        })
        .collect();
    all.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.path.cmp(&other.path)));
    all.truncate(count);
    all
}

/// One group's walk over what it keeps.
struct GroupUsageWalk<'s> {
    repository: &'s ObjectRepository,
    number: usize,
    holders: &'s mut HashMap<Oid, ObjectHolder>,
    captures: usize,
}

impl GroupUsageWalk<'_> {
    fn walk_group(
        &mut self,
        tip: &Oid,
        new: &mut dyn FnMut(&[u8], &Oid),
    ) -> Result<HashSet<Oid>, ObjectError> {
        let mut mine = HashSet::new();
        let mut commits = vec![*tip];
        let mut trees = Vec::new();
        while let Some(oid) = commits.pop() {
            if mine.insert(oid) {
                self.record_holder(&oid);
                let commit = self.repository.read_commit(&oid)?;
                self.captures += usize::from(!commit.parents.is_empty());
                // A coverage is not a file of the worktree, so it gets a prefix that no path can have.
                let prefix = if commit.parents.is_empty() { b"\0".to_vec() } else { Vec::new() };
                trees.push((commit.tree, prefix));
                commits.extend(commit.parents);
            }
        }
        while let Some((oid, prefix)) = trees.pop() {
            if !mine.insert(oid) {
                continue;
            }
            self.record_holder(&oid);
            for (name, entry) in self.repository.read_tree(&oid)? {
                let mut path = prefix.clone();
                path.extend_from_slice(&name);
                match entry {
                    TreeEntry::Tree(tree) => {
                        path.push(b'/');
                        trees.push((tree, path));
                    }
                    TreeEntry::Leaf(leaf) if mine.insert(leaf.blob) => {
                        if self.record_holder(&leaf.blob) {
                            new(&path, &leaf.blob);
                        }
                    }
                    TreeEntry::Leaf(_) => {}
                }
            }
        }
        Ok(mine)
    }

    /// Records that this group keeps an object; true if no group did before.
    fn record_holder(&mut self, oid: &Oid) -> bool {
        let before = self.holders.insert(*oid, ObjectHolder::One(self.number));
        if before.is_some() {
            self.holders.insert(*oid, ObjectHolder::Several);
        }
        before.is_none()
    }
}
