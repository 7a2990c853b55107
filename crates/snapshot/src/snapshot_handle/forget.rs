//! Forgetting through the keeper.

use turnstone_core::time::EpochMillis;

use super::error::SnapshotError;
use super::handle::{SnapshotHandle, unexpected_response};
use super::protocol::{StoreRequest, StoreResponse};
use crate::forget::{ForgettableVersions, Tombstones};
use crate::object_store::Oid;

impl SnapshotHandle {
    /// As [`crate::SnapshotStore::list_forgettable`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_forgettable(
        &self,
        patterns: &[String],
    ) -> Result<ForgettableVersions, SnapshotError> {
        Ok(self.store()?.list_forgettable(patterns)?)
    }

    /// As [`crate::SnapshotStore::read_blob`].
    ///
    /// # Errors
    ///
    /// The bytes are not in the store.
    pub fn read_blob(&self, blob: &Oid) -> Result<Vec<u8>, SnapshotError> {
        Ok(self.store()?.read_blob(blob)?)
    }

    /// As [`crate::SnapshotStore::begin_forget`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn begin_forget(&self, patterns: &[String], now: EpochMillis) -> Result<(), SnapshotError> {
        let request = StoreRequest::BeginForget { patterns: patterns.to_vec() };
        let StoreResponse::Hello = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(())
    }

    /// As [`crate::SnapshotStore::finish_forget`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn finish_forget(&self, now: EpochMillis) -> Result<usize, SnapshotError> {
        let StoreResponse::Forgotten { captures } =
            self.dispatch(&StoreRequest::FinishForget { now }, now)?
        else {
            return Err(unexpected_response());
        };
        Ok(captures)
    }

    /// What the store has forgotten.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn tombstones(&self) -> Result<Tombstones, SnapshotError> {
        Ok(Tombstones::read(&self.location().folder)?)
    }
}
