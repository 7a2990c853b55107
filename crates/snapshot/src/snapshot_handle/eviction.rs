//! Room in a store: what nobody needs goes, what may expire is measured, and what expired goes (R13).
//!
//! In three requests, because whoever knows turns writes down which ones expire before anything goes.

use std::collections::BTreeMap;

use turnstone_core::time::EpochMillis;

use super::capture_listing::ListedCapture;
use super::error::SnapshotError;
use super::handle::{SnapshotHandle, unexpected_response};
use super::protocol::{EvictionRequest, StoreRequest, StoreResponse};
use crate::capture_expiry::ExpiryStep;
use crate::object_store::ObjectError;
use crate::storage_budget::EvictionReport;

impl SnapshotHandle {
    /// Makes room without letting anything expire: drops what nobody pins, then repacks.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing that is pinned is lost.
    pub fn reclaim_unpinned(
        &self,
        need: &EvictionRequest,
    ) -> Result<EvictionReport, SnapshotError> {
        self.request_eviction(&StoreRequest::Relieve(need.clone()), need.now)
    }

    /// How many bytes each of `steps` frees, taken in order. Nothing is changed.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn measure_expiry(
        &self,
        steps: &[ExpiryStep],
        now: EpochMillis,
    ) -> Result<Vec<u64>, SnapshotError> {
        let request = StoreRequest::Measure { steps: steps.to_vec() };
        let StoreResponse::Measured { freed } = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(freed)
    }

    /// Lets captures expire and frees what they took. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; do it again.
    pub fn expire_captures(
        &self,
        steps: &[ExpiryStep],
        need: &EvictionRequest,
    ) -> Result<EvictionReport, SnapshotError> {
        let request = StoreRequest::Expire { steps: steps.to_vec(), need: need.clone() };
        self.request_eviction(&request, need.now)
    }

    fn request_eviction(
        &self,
        request: &StoreRequest,
        now: EpochMillis,
    ) -> Result<EvictionReport, SnapshotError> {
        let StoreResponse::Relieved(relief) = self.dispatch(request, now)? else {
            return Err(unexpected_response());
        };
        Ok(*relief)
    }

    /// Lists the captures of every group by the name of the group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_chains(&self) -> Result<BTreeMap<String, Vec<ListedCapture>>, SnapshotError> {
        let shadow = self.store()?;
        match shadow.list_chains() {
            // A collection dropped a group while it was being followed.
            Err(ObjectError::Missing(_)) => Ok(shadow.list_chains()?),
            listed => Ok(listed?),
        }
    }
}
