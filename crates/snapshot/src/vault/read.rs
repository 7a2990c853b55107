//! Reading: what everybody does by themselves, whoever keeps the store.

use std::path::PathBuf;

use super::error::VaultError;
use super::listing::{ListedCapture, ListedFile};
use super::open::Vault;
use super::verify::Verified;
use crate::capture::Capture;
use crate::diff::{Diff, DiffOptions};
use crate::object::ObjectError;
use crate::restore::Operation;
use crate::usage::{DiskUse, Usage};

impl Vault {
    /// Lists the captures of every group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_captures(&self) -> Result<Vec<ListedCapture>, VaultError> {
        let shadow = self.shadow()?;
        match shadow.list_all() {
            // A collection dropped a group while it was being followed.
            Err(ObjectError::Missing(_)) => Ok(shadow.list_all()?),
            listed => Ok(listed?),
        }
    }

    /// Finds the capture that a tree, a capture's id, or a beginning of either means.
    ///
    /// # Errors
    ///
    /// As [`crate::Shadow::find_capture`].
    pub fn find_capture(&self, text: &str) -> Result<Capture, VaultError> {
        self.shadow()?.find_capture(text)
    }

    /// Lists the files of a capture.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_files(&self, capture: &Capture) -> Result<Vec<ListedFile>, VaultError> {
        Ok(self.shadow()?.list_files(capture)?)
    }

    /// Compares two captures.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn diff(
        &self,
        one: &Capture,
        other: &Capture,
        options: &DiffOptions,
    ) -> Result<Diff, VaultError> {
        Ok(self.shadow()?.diff(one, other, options)?)
    }

    /// Compares a capture with the worktree as it is now.
    ///
    /// # Errors
    ///
    /// The worktree or the store cannot be read.
    pub fn diff_worktree(&self, one: &Capture, options: &DiffOptions) -> Result<Diff, VaultError> {
        Ok(self.shadow()?.diff_worktree(one, options)?)
    }

    /// Lists the operations that were done, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_operations(&self) -> Result<Vec<Operation>, VaultError> {
        Ok(self.shadow()?.list_operations()?)
    }

    /// Finds the operation whose id begins so; the newest one for nothing.
    ///
    /// # Errors
    ///
    /// [`VaultError::NothingToUndo`] and [`VaultError::NoOperation`].
    pub fn find_operation(&self, text: Option<&str>) -> Result<Operation, VaultError> {
        let mut all = self.list_operations()?;
        let Some(text) = text else {
            let none = || VaultError::NothingToUndo(self.place().root.clone());
            return all.into_iter().next().ok_or_else(none);
        };
        all.retain(|operation| operation.id.as_str().starts_with(text));
        match all.len() {
            1 => Ok(all.remove(0)),
            _ => Err(VaultError::NoOperation(text.to_owned())),
        }
    }

    /// Says what takes space in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn usage(&self) -> Result<Usage, VaultError> {
        Ok(self.shadow()?.usage()?)
    }

    /// Says what takes space in detail, with up to `largest` paths.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn disk_use(&self, largest: usize) -> Result<DiskUse, VaultError> {
        Ok(self.shadow()?.disk_use(largest)?)
    }

    /// Reads every object that is pinned and compares it with its name.
    ///
    /// # Errors
    ///
    /// As [`crate::Shadow::verify`].
    pub fn verify(&self) -> Result<Verified, VaultError> {
        Ok(self.shadow()?.verify()?)
    }

    /// The bare repository, for plain git.
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn git_dir(&self) -> Result<PathBuf, VaultError> {
        Ok(self.shadow()?.git_dir().to_owned())
    }
}
