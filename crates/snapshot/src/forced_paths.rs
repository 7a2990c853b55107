//! Forced paths: what tools named before they wrote it, which every later capture of the store selects (R1).
//!
//! The list holds names of files. It loses those that only deleted sessions needed (R23).

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Write};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

use crate::coverage::CaptureScope;
use crate::object_store::{ObjectError, ObjectRepository, Oid, TreeEntry};
use crate::path::RelPath;
use crate::snapshot_store::SnapshotStore;

const FORCED_FILE: &str = "forced.json";

/// Adds paths to those that every later capture selects, durably.
pub(crate) fn persist_forced_paths(
    store: &SnapshotStore,
    paths: &BTreeSet<RelPath>,
) -> io::Result<()> {
    let mut state = store.lock_state();
    if paths.is_subset(&state.forced) {
        return Ok(());
    }
    let all: BTreeSet<RelPath> = state.forced.union(paths).cloned().collect();
    write_forced_paths(store, &all)?;
    state.forced = Arc::new(all);
    Ok(())
}

/// Drops the forced paths that no remaining capture holds and no remaining capture of named paths looked for.
///
/// That a capture of the whole worktree noted one as absent does not count: it did so only because it was forced.
pub(crate) fn drop_unneeded_forced_paths(store: &SnapshotStore) -> Result<(), ObjectError> {
    let forced = store.lock_state().forced.clone();
    if forced.is_empty() {
        return Ok(());
    }
    let unneeded = find_unneeded(store, (*forced).clone())?;
    if unneeded.is_empty() {
        return Ok(());
    }
    let mut state = store.lock_state();
    // Others may have been added meanwhile.
    let left: BTreeSet<RelPath> = state.forced.difference(&unneeded).cloned().collect();
    write_forced_paths(store, &left)?;
    state.forced = Arc::new(left);
    Ok(())
}

fn write_forced_paths(store: &SnapshotStore, paths: &BTreeSet<RelPath>) -> io::Result<()> {
    let temp = store.directory.join("forced.tmp");
    let mut file = fs_err::File::create(&temp)?;
    file.write_all(&serde_json::to_vec(paths)?)?;
    file.sync_all()?;
    fs_err::rename(&temp, store.directory.join(FORCED_FILE))
}

/// Which of the paths no capture needs.
fn find_unneeded(
    store: &SnapshotStore,
    paths: BTreeSet<RelPath>,
) -> Result<BTreeSet<RelPath>, ObjectError> {
    let _held = store.lock_objects_shared();
    let chain = store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
    let tips = store.repository.refs().list()?;
    drop(chain);
    let mut search =
        PathSearch { repository: &store.repository, missing: paths, seen: HashSet::new() };
    let mut coverages = HashSet::new();
    for tip in tips.into_values() {
        for (_, commit) in store.captures().read_chain_from(tip)? {
            if search.missing.is_empty() {
                return Ok(search.missing);
            }
            search.remove_paths_in(&commit.tree, b"")?;
            if let Some(about) = commit.parents.last()
                && coverages.insert(*about)
            {
                let coverage = store.captures().read_coverage(about)?;
                if coverage.scope == CaptureScope::Named {
                    search.missing.retain(|path| coverage.absent.binary_search(path).is_err());
                }
            }
        }
    }
    Ok(search.missing)
}

/// A search for paths in many trees; what these share is looked at once.
struct PathSearch<'s> {
    repository: &'s ObjectRepository,
    /// The paths that no tree held so far.
    missing: BTreeSet<RelPath>,
    seen: HashSet<(Oid, Vec<u8>)>,
}

impl PathSearch<'_> {
    fn remove_paths_in(&mut self, tree: &Oid, prefix: &[u8]) -> Result<(), ObjectError> {
        if !self.has_missing_below(prefix) || !self.seen.insert((*tree, prefix.to_vec())) {
            return Ok(());
        }
        for (name, entry) in self.repository.read_tree(tree)? {
            let mut path = [prefix, &name[..]].concat();
            match entry {
                TreeEntry::Leaf(_) => {
                    self.missing.remove(&path[..]);
                }
                TreeEntry::Tree(below) => {
                    path.push(b'/');
                    self.remove_paths_in(&below, &path)?;
                }
            }
        }
        Ok(())
    }

    fn has_missing_below(&self, prefix: &[u8]) -> bool {
        let mut after = self.missing.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        after.next().is_some_and(|path| path.as_bytes().starts_with(prefix))
    }
}
