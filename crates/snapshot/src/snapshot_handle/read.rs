//! Reading: every process reads the store itself, also when another process owns it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use turnstone_core::change::{FileChange, PathImage};

use super::error::SnapshotError;
use super::handle::SnapshotHandle;
use crate::capture::{Capture, has_baseline};
use crate::capture_listing::{ListedCapture, ListedFile};
use crate::diff::{CaptureDiff, DiffOptions, SizedFileChange};
use crate::disk_usage::{DiskUsageReport, StoreUsage};
use crate::forget::ForgettableVersions;
use crate::object_store::{ObjectError, Oid};
use crate::path::RelPath;
use crate::restore::{LoggedOperation, PathState, read_path_state};
use crate::verify::VerifyReport;

/// What can be read of a store and its worktree.
pub struct SnapshotReader<'h> {
    pub(super) handle: &'h SnapshotHandle,
}

impl SnapshotReader<'_> {
    /// Lists the captures of every group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_captures(&self) -> Result<Vec<ListedCapture>, SnapshotError> {
        let store = self.handle.store()?;
        match store.captures().list_all() {
            // A collection dropped a group while it was being followed.
            Err(ObjectError::Missing(_)) => Ok(store.captures().list_all()?),
            listed => Ok(listed?),
        }
    }

    /// Finds the capture that a tree, a capture's id, or a unique prefix of either names.
    ///
    /// # Errors
    ///
    /// As [`crate::CaptureCatalog::find`].
    pub fn find_capture(&self, text: &str) -> Result<Capture, SnapshotError> {
        self.handle.store()?.captures().find(text)
    }

    /// Lists the files of a capture.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_files(&self, capture: &Capture) -> Result<Vec<ListedFile>, SnapshotError> {
        Ok(self.handle.store()?.captures().list_files(capture)?)
    }

    /// Compares two captures.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn diff_captures(
        &self,
        one: &Capture,
        other: &Capture,
        options: &DiffOptions,
    ) -> Result<CaptureDiff, SnapshotError> {
        Ok(self.handle.store()?.diffs().between(one, other, options)?)
    }

    /// Compares a capture with the worktree as it is now.
    ///
    /// # Errors
    ///
    /// The worktree or the store cannot be read.
    pub fn diff_worktree(
        &self,
        one: &Capture,
        options: &DiffOptions,
    ) -> Result<CaptureDiff, SnapshotError> {
        Ok(self.handle.store()?.diffs().with_worktree(one, options)?)
    }

    /// Lists the paths whose file or permission bits on disk differ from a capture; stores nothing.
    ///
    /// # Errors
    ///
    /// The worktree or the store cannot be read.
    pub fn list_worktree_changes(
        &self,
        one: &Capture,
    ) -> Result<Vec<SizedFileChange>, SnapshotError> {
        Ok(self.handle.store()?.diffs().list_worktree_changes(one)?)
    }

    /// Lists the operations that were done, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_operations(&self) -> Result<Vec<LoggedOperation>, SnapshotError> {
        Ok(self.handle.store()?.operations().list()?)
    }

    /// Finds the operation whose id has this prefix; the newest one without a prefix.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NothingToUndo`] and [`SnapshotError::NoOperation`].
    pub fn find_operation(&self, text: Option<&str>) -> Result<LoggedOperation, SnapshotError> {
        let mut all = self.list_operations()?;
        let Some(text) = text else {
            let none = || SnapshotError::NothingToUndo(self.handle.location().root.clone());
            return all.into_iter().next().ok_or_else(none);
        };
        all.retain(|operation| operation.id.as_str().starts_with(text));
        match all.len() {
            1 => Ok(all.remove(0)),
            _ => Err(SnapshotError::NoOperation(text.to_owned())),
        }
    }

    /// Returns a summary of what uses space in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn usage(&self) -> Result<StoreUsage, SnapshotError> {
        Ok(self.handle.store()?.inspection().usage()?)
    }

    /// Returns in detail what uses space, with up to `largest` paths.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn disk_usage(&self, largest: usize) -> Result<DiskUsageReport, SnapshotError> {
        Ok(self.handle.store()?.inspection().disk_usage(largest)?)
    }

    /// Reads every object that is pinned and compares it with its name.
    ///
    /// # Errors
    ///
    /// As [`crate::StoreInspection::verify_objects`].
    pub fn verify_objects(&self) -> Result<VerifyReport, SnapshotError> {
        Ok(self.handle.store()?.inspection().verify_objects()?)
    }

    /// The bare repository, for plain git.
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn git_dir(&self) -> Result<PathBuf, SnapshotError> {
        Ok(self.handle.store()?.git_dir().to_owned())
    }

    /// Lists the captures of every group by the name of the group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_chains(&self) -> Result<BTreeMap<String, Vec<ListedCapture>>, SnapshotError> {
        let store = self.handle.store()?;
        match store.captures().list_chains() {
            // A collection dropped a group while it was being followed.
            Err(ObjectError::Missing(_)) => Ok(store.captures().list_chains()?),
            listed => Ok(listed?),
        }
    }

    /// As `CaptureCatalog::list_changes`.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<FileChange>, SnapshotError> {
        Ok(self.handle.store()?.captures().list_changes(one, other)?)
    }

    /// As [`crate::CaptureCatalog::path_image`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn path_image(
        &self,
        capture: &Capture,
        path: &RelPath,
    ) -> Result<PathImage, SnapshotError> {
        Ok(self.handle.store()?.captures().path_image(capture, path)?)
    }

    /// As `CaptureDiffs::of_changes`.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn diff_changes(
        &self,
        changes: &[FileChange],
        options: &DiffOptions,
    ) -> Result<CaptureDiff, SnapshotError> {
        Ok(self.handle.store()?.diffs().of_changes(changes, options)?)
    }

    /// As [`crate::PathForgetter::list`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_forgettable(
        &self,
        patterns: &[String],
    ) -> Result<ForgettableVersions, SnapshotError> {
        Ok(self.handle.store()?.forgetter().list(patterns)?)
    }

    /// As [`crate::CaptureCatalog::read_blob`].
    ///
    /// # Errors
    ///
    /// The bytes are not in the store.
    pub fn read_blob(&self, blob: &Oid) -> Result<Vec<u8>, SnapshotError> {
        Ok(self.handle.store()?.captures().read_blob(blob)?)
    }

    /// Reads one path of the worktree, following no link (R16).
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn read_path(&self, path: &RelPath) -> Result<PathState, SnapshotError> {
        Ok(read_path_state(self.handle.store()?.worktree(), path))
    }

    /// True once the whole worktree was captured: later captures look only at what changed (R42).
    #[must_use]
    pub fn has_baseline(&self) -> bool {
        has_baseline(&self.handle.location().folder)
    }
}
