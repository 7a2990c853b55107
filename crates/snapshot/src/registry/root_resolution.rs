//! Roots of stores: which root a directory belongs to, and whether the root of a store is still the directory
//! that was captured in it.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD};
use turnstone_core::model::FileIdentity;
use turnstone_core::time::EpochMillis;

use super::root_identity::enclosing_checkout;
use super::store_lookup::{StoreRootState, closest_known_root};
use super::store_record::{
    RECORD_FILE, RegistryError, RegistryIndex, StoreId, StoreRecord, write_json,
};
use super::store_registry::StoreRoots;
use super::{RootIdentity, StoreLocation, StoreRegistry, read_directory_identity};
use crate::path::RelPath;
use crate::worktree::{RootError, RootPolicy, Worktree, birth_time_of};

/// Where a store records roots that a directory at their path succeeds.
const FORMER_ROOTS_FILE: &str = "former-roots.json";
/// A file that is older than its own creation by more than this was restored from a copy.
const RESTORED_NANOS: i64 = 2_000_000_000;

/// The root a directory belongs to, open, and where in it the directory is.
pub(super) struct ScopedWorktree {
    pub(super) worktree: Worktree,
    pub(super) scope: Option<RelPath>,
}

impl StoreLocation {
    /// True if the root of the store is where it was when the store was last linked to it.
    #[must_use]
    pub fn is_root_in_place(&self) -> bool {
        let found = read_directory_identity(&self.root);
        matches!(found, Ok(Some(found)) if self.identity.is_same_at_path(found))
    }

    /// Opens the root.
    ///
    /// # Errors
    ///
    /// [`RootError::Replaced`] if another directory is at its path.
    pub(crate) fn open_worktree(&self) -> Result<Worktree, RootError> {
        // That it may be a root was decided when its store was found.
        let worktree = Worktree::open(&self.root, &RootPolicy { by_name: true, home: None })?;
        match self.identity.is_same_at_path(worktree.file_identity()) {
            true => Ok(worktree),
            false => Err(RootError::Replaced(self.root.clone())),
        }
    }
}

impl StoreRegistry {
    /// Links stores whose directory is not where it was to the directory `root`, on request of a person. It may have
    /// a store already: then what these captured is found by their ids.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`]; run it again.
    pub fn relink_stores(
        &self,
        stores: &BTreeSet<StoreId>,
        root: &Path,
        now: EpochMillis,
    ) -> Result<(), RegistryError> {
        let policy = RootPolicy { by_name: true, ..RootPolicy::default() };
        let facts = RootIdentity::read_from(&Worktree::open(root, &policy)?);
        if stores.is_empty() || !self.stores.try_exists()? {
            return Ok(());
        }
        let lock = self.lock_registry()?;
        let mut known = self.read_records()?;
        for (id, linked) in known.iter_mut().filter(|(id, _)| stores.contains(*id)) {
            if !linked.is_in_place() {
                self.write_record(id, &facts, now)?;
                linked.clone_from(&facts);
            }
        }
        RegistryIndex::new(known).write(&self.stores)?;
        drop(lock);
        Ok(())
    }

    /// Lists the roots that a directory at their path succeeds: they were deleted while their stores were open,
    /// or restored from a backup together with the data directory.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn list_superseded_roots(&self) -> Result<Vec<FileIdentity>, RegistryError> {
        let mut found = Vec::new();
        for (id, facts) in self.load_roots()? {
            found.extend(read_former_roots(&self.stores.join(id.as_str())));
            if self.root_state(&id, &facts) == StoreRootState::Superseded {
                found.push(facts.file_identity());
            }
        }
        Ok(found)
    }

    /// Records that a root of a store does not exist any more, and that a directory at its path succeeds it.
    pub(crate) fn record_former_root(folder: &Path, root: FileIdentity) -> io::Result<()> {
        let mut former = read_former_roots(folder);
        if !former.contains(&root) {
            former.push(root);
        }
        write_json(&folder.join(FORMER_ROOTS_FILE), &former)
    }

    /// Writes the record of a store, linked to the directory of `facts` from now on.
    pub(super) fn write_record(
        &self,
        id: &StoreId,
        facts: &RootIdentity,
        now: EpochMillis,
    ) -> io::Result<()> {
        let made = StoreRecord::read(&self.stores, id).map_or(now, |record| record.made);
        StoreRecord::new(id.clone(), facts.clone(), made).write(&self.stores.join(id.as_str()))
    }

    /// True if the directory of a store, or one that succeeds it, is at its path.
    pub(super) fn has_directory(&self, id: &StoreId, facts: &RootIdentity) -> bool {
        facts.path.is_dir() && self.root_state(id, facts) != StoreRootState::Missing
    }

    pub(super) fn root_state(&self, id: &StoreId, facts: &RootIdentity) -> StoreRootState {
        match facts.is_in_place() {
            true => StoreRootState::InPlace,
            false if self.is_superseded(id, facts) => StoreRootState::Superseded,
            false => StoreRootState::Missing,
        }
    }

    /// True if the very directory a store is linked to was deleted, or if the record of the store was restored
    /// from a backup: then the identity in it is that of another file system. False if that is not known.
    fn is_superseded(&self, id: &StoreId, facts: &RootIdentity) -> bool {
        let folder = self.stores.join(id.as_str());
        read_former_roots(&folder).contains(&facts.file_identity())
            || is_restored_copy(&folder.join(RECORD_FILE))
    }

    pub(super) fn resolve_root(
        &self,
        directory: &Path,
        policy: &RootPolicy,
        known: &StoreRoots,
    ) -> Result<ScopedWorktree, RegistryError> {
        let unusable = |source| RootError::Unusable { path: directory.to_owned(), source };
        let real = fs_err::canonicalize(directory).map_err(unusable)?;
        // A home that is itself a checkout is no reason to capture all of it for one folder in it.
        let usable = |root: &&Path| **root == *real || !policy.refuses(root);
        let state = |id: &StoreId, facts: &RootIdentity| self.root_state(id, facts);
        let root = enclosing_checkout(&real).filter(usable);
        let root = root.or_else(|| closest_known_root(&real, known, state).filter(usable));
        let root = root.unwrap_or(&real);
        // A root that was once confirmed by name need not be confirmed again.
        let by_name = policy.by_name || known.values().any(|facts| facts.path == root);
        let worktree = Worktree::open(root, &RootPolicy { by_name, ..policy.clone() })?;
        let below = real.strip_prefix(root).unwrap_or(Path::new("")).as_os_str().as_bytes();
        let inside = |_| RegistryError::InsideGit(real.clone());
        let scope = match below.is_empty() {
            true => None,
            false => Some(RelPath::new(below).map_err(inside)?),
        };
        Ok(ScopedWorktree { worktree, scope })
    }
}

/// The roots of the store in `folder` that were superseded, if that is known.
fn read_former_roots(folder: &Path) -> Vec<FileIdentity> {
    let recorded = fs_err::read(folder.join(FORMER_ROOTS_FILE)).ok();
    recorded.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// True if a file of the store was last written before it was created: a program restored it with its times.
fn is_restored_copy(path: &Path) -> bool {
    let Ok(stat) = rustix::fs::stat(path) else { return false };
    let written = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
    let written = stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(written);
    let created = birth_time_of(CWD, path, AtFlags::empty());
    created.is_some_and(|created| created.saturating_sub(written) > RESTORED_NANOS)
}
