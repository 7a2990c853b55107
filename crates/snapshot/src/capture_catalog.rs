//! The captures a store holds: how they are found by id or group, and what they hold at a path.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnstone_core::change::FileChange;

use crate::capture::Capture;
use crate::capture_chain::{COVERAGE_FILE, capture_id, capture_time};
use crate::coverage::CaptureCoverage;
use crate::diff::{coverage_changes, find_image, list_path_changes};
use crate::object_store::{Commit, ObjectError, ObjectRepository, Oid, TreeEntry};
use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason};
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
        let about = commit.parents.last().ok_or(ObjectError::Corrupt(*id))?;
        let coverage = Arc::new(self.read_coverage(about)?);
        Ok(Capture { id: *id, tree: commit.tree, coverage, time: capture_time(&commit) })
    }

    /// Reads the coverage that a coverage commit holds.
    pub(crate) fn read_coverage(&self, about: &Oid) -> Result<CaptureCoverage, ObjectError> {
        let corrupt = || ObjectError::Corrupt(*about);
        let lines = self.repository.read_tree(&self.repository.read_commit(about)?.tree)?;
        let blob = lines.iter().find_map(|(name, entry)| match entry {
            TreeEntry::Leaf(leaf) if name == COVERAGE_FILE.as_bytes() => Some(leaf.blob),
            TreeEntry::Leaf(_) | TreeEntry::Tree(_) => None,
        });
        let (_, text) = self.repository.read(&blob.ok_or_else(corrupt)?)?;
        serde_json::from_slice(&text).map_err(|_| corrupt())
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

    /// Returns what `capture` holds at `path`.
    ///
    /// # Errors
    ///
    /// The tree cannot be read: that is never an absence.
    pub fn path_image(&self, capture: &Capture, path: &RelPath) -> Result<PathImage, ObjectError> {
        find_image(self.repository, capture, path)
    }

    /// Lists the paths at which two captures differ, sorted: bytes, kinds, modes,
    /// permission bits and directories. Where one of them does not cover a path, its side is uncovered (R1).
    ///
    /// A file that another program may have been saving at the first capture, and that differs now, was unfinished
    /// then: what it held before is not known.
    ///
    /// # Errors
    ///
    /// A tree cannot be read; there is no list then, not a short one.
    pub fn list_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<FileChange>, ObjectError> {
        // These come first: what one side does not cover cannot be restored.
        let mut changes = coverage_changes(self.repository, one, other)?;
        changes.extend(list_path_changes(self.repository, one, other)?);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes.dedup_by(|one, other| one.path == other.path);
        mask_unfinished(one, &mut changes);
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

/// Takes the content before as unknown for files that may have been unfinished at the first capture and
/// were completed or changed since.
fn mask_unfinished(one: &Capture, changes: &mut [FileChange]) {
    let unfinished = &one.coverage.unfinished;
    for change in changes.iter_mut() {
        let is_rewritten = change.before.leaf().is_some() && change.after.leaf().is_some();
        if is_rewritten && unfinished.binary_search(&change.path).is_ok() {
            change.before = PathImage::Uncovered { reason: UncoveredReason::Changing };
        }
    }
}
