//! Reading: what everybody does by themselves, whoever keeps the store.

use std::path::PathBuf;

use super::capture_listing::{ListedCapture, ListedFile};
use super::error::SnapshotError;
use super::handle::SnapshotHandle;
use super::verify::VerifyReport;
use crate::capture::Capture;
use crate::diff::{CaptureDiff, DiffOptions};
use crate::disk_usage::{DiskUsageReport, StoreUsage};
use crate::object_store::ObjectError;
use crate::restore::LoggedOperation;

impl SnapshotHandle {
    /// Lists the captures of every group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_captures(&self) -> Result<Vec<ListedCapture>, SnapshotError> {
        let shadow = self.store()?;
        match shadow.list_all_captures() {
            // A collection dropped a group while it was being followed.
            Err(ObjectError::Missing(_)) => Ok(shadow.list_all_captures()?),
            listed => Ok(listed?),
        }
    }

    /// Finds the capture that a tree, a capture's id, or a beginning of either means.
    ///
    /// # Errors
    ///
    /// As [`crate::SnapshotStore::find_capture`].
    pub fn find_capture(&self, text: &str) -> Result<Capture, SnapshotError> {
        self.store()?.find_capture(text)
    }

    /// Lists the files of a capture.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_files(&self, capture: &Capture) -> Result<Vec<ListedFile>, SnapshotError> {
        Ok(self.store()?.list_files(capture)?)
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
        Ok(self.store()?.diff_captures(one, other, options)?)
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
        Ok(self.store()?.diff_worktree(one, options)?)
    }

    /// Lists the operations that were done, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_operations(&self) -> Result<Vec<LoggedOperation>, SnapshotError> {
        Ok(self.store()?.list_operations()?)
    }

    /// Finds the operation whose id begins so; the newest one for nothing.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NothingToUndo`] and [`SnapshotError::NoOperation`].
    pub fn find_operation(&self, text: Option<&str>) -> Result<LoggedOperation, SnapshotError> {
        let mut all = self.list_operations()?;
        let Some(text) = text else {
            let none = || SnapshotError::NothingToUndo(self.location().root.clone());
            return all.into_iter().next().ok_or_else(none);
        };
        all.retain(|operation| operation.id.as_str().starts_with(text));
        match all.len() {
            1 => Ok(all.remove(0)),
            _ => Err(SnapshotError::NoOperation(text.to_owned())),
        }
    }

    /// Says what takes space in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn usage(&self) -> Result<StoreUsage, SnapshotError> {
        Ok(self.store()?.usage()?)
    }

    /// Says what takes space in detail, with up to `largest` paths.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn disk_usage(&self, largest: usize) -> Result<DiskUsageReport, SnapshotError> {
        Ok(self.store()?.disk_usage(largest)?)
    }

    /// Reads every object that is pinned and compares it with its name.
    ///
    /// # Errors
    ///
    /// As [`crate::SnapshotStore::verify_objects`].
    pub fn verify_objects(&self) -> Result<VerifyReport, SnapshotError> {
        Ok(self.store()?.verify_objects()?)
    }

    /// The bare repository, for plain git.
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn git_dir(&self) -> Result<PathBuf, SnapshotError> {
        Ok(self.store()?.git_dir().to_owned())
    }
}
