//! Single files: looked at by everybody, written by the keeper.

use turnstone_core::time::Millis;

use super::error::VaultError;
use super::open::{Vault, strange};
use super::request::{Answer, Request};
use crate::capture::{Capture, has_baseline};
use crate::path::RelPath;
use crate::restore::{FileWrite, Report, Seen};

impl Vault {
    /// Looks at one path of the worktree, following no link (R16).
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn see(&self, path: &RelPath) -> Result<Seen, VaultError> {
        Ok(self.shadow()?.see(path))
    }

    /// Writes files that still hold what their writer believes; the others are conflicts (R15).
    ///
    /// `guard` is a capture of these paths: nothing is written whose present bytes are not in it.
    ///
    /// # Errors
    ///
    /// As [`crate::Shadow::write_files`].
    pub fn write(
        &self,
        writes: &[FileWrite],
        guard: &Capture,
        now: Millis,
    ) -> Result<Report, VaultError> {
        let request = Request::Write { writes: writes.to_vec(), guard: guard.id };
        let Answer::Applied(report) = self.ask(&request, now)? else {
            return Err(strange());
        };
        Ok(*report)
    }

    /// True once the whole worktree was captured: later captures look only at what changed (R42).
    #[must_use]
    pub fn has_baseline(&self) -> bool {
        has_baseline(&self.place().folder)
    }
}
