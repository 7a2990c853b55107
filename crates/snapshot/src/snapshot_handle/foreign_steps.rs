//! Steps of another program, copied by the owner of the store.

use std::path::PathBuf;

use turnstone_core::time::EpochMillis;

use super::error::SnapshotError;
use super::handle::{SnapshotHandle, unexpected_response};
use super::protocol::{StoreRequest, StoreResponse};
use crate::foreign_snapshots::{AdoptedStep, RecordedStep};
use crate::pin_group::PinGroup;

impl SnapshotHandle {
    /// Copies what steps of another program recorded into `group`: the files that each found and left.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; nothing is copied then. Nothing is evicted to make room.
    pub fn adopt_steps(
        &self,
        repositories: &[PathBuf],
        steps: &[RecordedStep],
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<Vec<AdoptedStep>, SnapshotError> {
        let request = StoreRequest::Adopt {
            repositories: repositories.to_vec(),
            steps: steps.to_vec(),
            group: group.name().to_owned(),
            now,
        };
        let StoreResponse::Adopted { steps } = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(steps)
    }
}
