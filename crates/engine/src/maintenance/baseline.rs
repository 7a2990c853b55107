//! The baseline: the first capture of a worktree, made while others already work (R6).

use std::path::Path;
use std::thread::JoinHandle;

use turnstone_snapshot::{CaptureOutcome, PinGroup, SnapshotError};
use turnstone_store::Context;

use crate::error::Result;
use crate::maintenance::upkeep::Maintenance;

/// The pin group of captures that were made for nobody in particular.
const BASELINE_GROUP: &str = "baseline";

impl Maintenance {
    /// Starts the journal of a directory and its first capture, in the background.
    ///
    /// Whoever runs for long calls it when a project is opened. Until the capture is there, steps
    /// have no snapshot; afterwards each costs what changed (R42). Nothing waits for it: named
    /// writes are captured meanwhile. Returns nothing for a root that is not captured.
    ///
    /// # Errors
    ///
    /// The store of the directory cannot be opened.
    pub fn begin_baseline(
        &self,
        ctx: &Context,
        directory: &Path,
    ) -> Result<Option<JoinHandle<Result<CaptureOutcome, SnapshotError>>>> {
        let vault = match self.snapshots.open(directory, ctx.now) {
            Ok(vault) => vault,
            Err(error) if error.is_refused_root() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let now = ctx.now;
        let thread = std::thread::Builder::new().name("turnstone-baseline".to_owned());
        let running = thread.spawn(move || {
            // Only a keeper has a journal; whoever keeps the store for us has its own.
            let _journal = vault.maintenance().start_journal();
            vault.capture(&PinGroup::new(BASELINE_GROUP), now)
        })?;
        Ok(Some(running))
    }
}
