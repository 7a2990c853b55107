//! Single files: looked at by everybody, written by the keeper.

use turnstone_core::time::EpochMillis;

use super::error::SnapshotError;
use super::handle::{SnapshotHandle, unexpected_response};
use super::protocol::{StoreRequest, StoreResponse};
use crate::capture::{Capture, has_baseline};
use crate::path::RelPath;
use crate::restore::{ConditionalWrite, PathState, RestoreReport};

impl SnapshotHandle {
    /// Looks at one path of the worktree, following no link (R16).
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn read_path(&self, path: &RelPath) -> Result<PathState, SnapshotError> {
        Ok(self.store()?.read_path(path))
    }

    /// Writes files that still hold what their writer believes; the others are conflicts (R15).
    ///
    /// `guard` is a capture of these paths: nothing is written whose present bytes are not in it.
    ///
    /// # Errors
    ///
    /// As [`crate::SnapshotStore::write_files`].
    pub fn write_files(
        &self,
        writes: &[ConditionalWrite],
        guard: &Capture,
        now: EpochMillis,
    ) -> Result<RestoreReport, SnapshotError> {
        let request = StoreRequest::Write { writes: writes.to_vec(), guard: guard.id };
        let StoreResponse::Applied(report) = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(*report)
    }

    /// True once the whole worktree was captured: later captures look only at what changed (R42).
    #[must_use]
    pub fn has_baseline(&self) -> bool {
        has_baseline(&self.location().folder)
    }
}
