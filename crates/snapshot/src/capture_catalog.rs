//! The captures a store holds: how they are found by id or group, and what they say of a path.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnstone_core::change::FileChange;

use crate::capture::Capture;
use crate::capture_chain::{COVERAGE_FILE, capture_id, capture_time};
use crate::diff::{capture_changes, find_leaf, permission_changes};
use crate::object_store::{Commit, ObjectError, ObjectRepository, Oid, TreeEntry};
use crate::path::RelPath;
use crate::path_image::{PathImage, missing_image, present_image};
use crate::pin_group::PinGroup;
use crate::snapshot_store::StoreState;

/// The captures of one store, for reading. It writes nothing.
#[derive(Clone, Copy)]
pub struct CaptureCatalog<'s> {
    pub(crate) repository: &'s ObjectRepository,
    pub(crate) state: &'s Mutex<StoreState>,
    /// The root of the worktree; for messages only.
    pub(crate) root: &'s Path,
}

impl CaptureCatalog<'_> {
    /// Finds a capture by its id.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Missing`] if this store has none of that id.
    pub fn get(&self, id: &Oid) -> Result<Capture, ObjectError> {
        let commit = self.read_commit(id)?;
        let corrupt = || ObjectError::Corrupt(*id);
        let about = self.repository.read_commit(commit.parents.last().ok_or_else(corrupt)?)?;
        let lines = self.repository.read_tree(&about.tree)?;
        let blob = lines.iter().find_map(|(name, entry)| match entry {
            TreeEntry::Leaf(leaf) if name == COVERAGE_FILE.as_bytes() => Some(leaf.blob),
            TreeEntry::Leaf(_) | TreeEntry::Tree(_) => None,
        });
        let (_, text) = self.repository.read(&blob.ok_or_else(corrupt)?)?;
        let coverage = Arc::new(serde_json::from_slice(&text).map_err(|_| corrupt())?);
        Ok(Capture { id: *id, tree: commit.tree, coverage, time: capture_time(&commit) })
    }

    /// Lists the captures of a pin group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list(&self, group: &PinGroup) -> Result<Vec<Oid>, ObjectError> {
        let commits = self.read_chain(group)?;
        Ok(commits.iter().map(|(oid, commit)| capture_id(oid, commit)).collect())
    }

    /// The commits of a group, newest first.
    pub(crate) fn read_chain(&self, group: &PinGroup) -> Result<Vec<(Oid, Commit)>, ObjectError> {
        match self.repository.refs().find(group.reference())? {
            Some(tip) => self.read_chain_from(tip),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) fn read_chain_from(&self, tip: Oid) -> Result<Vec<(Oid, Commit)>, ObjectError> {
        let mut found = Vec::new();
        let mut at = Some(tip);
        while let Some(oid) = at {
            let commit = self.repository.read_commit(&oid)?;
            at = (commit.parents.len() > 1).then(|| commit.parents[0]);
            found.push((oid, commit));
        }
        Ok(found)
    }

    /// Reads the commit of a capture, which may have been rewritten under its old id.
    pub(crate) fn read_commit(&self, id: &Oid) -> Result<Commit, ObjectError> {
        match self.repository.read_commit(id) {
            Err(ObjectError::Missing(_)) => {}
            found => return found,
        }
        let is_it = |oid: &Oid, commit: &Commit| capture_id(oid, commit) == *id;
        let hint = self.lock_state().rewritten.get(id).copied();
        if let Some(oid) = hint
            && let Ok(commit) = self.repository.read_commit(&oid)
            && is_it(&oid, &commit)
        {
            return Ok(commit);
        }
        let (mut rewritten, mut found) = (HashMap::new(), None);
        for tip in self.repository.refs().list()?.into_values() {
            for (oid, commit) in self.read_chain_from(tip)? {
                rewritten.insert(capture_id(&oid, &commit), oid);
                if is_it(&oid, &commit) {
                    found = Some(commit);
                }
            }
        }
        rewritten.retain(|id, oid| id != oid);
        self.lock_state().rewritten = rewritten;
        if let Some(commit) = found {
            return Ok(commit);
        }
        Err(ObjectError::Missing(*id))
    }

    /// Returns what `capture` says of `path`.
    ///
    /// # Errors
    ///
    /// The tree cannot be read: that is never an absence.
    pub fn path_image(&self, capture: &Capture, path: &RelPath) -> Result<PathImage, ObjectError> {
        Ok(match find_leaf(self.repository, &capture.tree, path)? {
            Some(leaf) => present_image(capture, path, leaf),
            None => missing_image(capture, path),
        })
    }

    /// Lists the paths of which two captures say different things, sorted: bytes, kinds, modes and
    /// permission bits. Where one of them does not cover a path, its side says so (R1).
    ///
    /// # Errors
    ///
    /// A tree cannot be read; there is no list then, not a short one.
    pub fn list_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<FileChange>, ObjectError> {
        let mut changes = capture_changes(self.repository, one, other)?;
        changes.extend(permission_changes(self.repository, one, other)?);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes.dedup_by(|one, other| one.path == other.path);
        Ok(changes)
    }

    /// Reads the bytes of a version.
    ///
    /// # Errors
    ///
    /// They are not in the store.
    pub fn read_blob(&self, blob: &Oid) -> Result<Vec<u8>, ObjectError> {
        Ok(self.repository.read(blob)?.1)
    }

    fn lock_state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
