//! The baseline: the first capture of a worktree, made while others already work (R6).

use std::path::Path;
use std::thread::JoinHandle;

use turnstone_snapshot::{CaptureOutcome, PinGroup, SnapshotError};
use turnstone_store::Context;

use crate::error::Result;
use crate::maintenance::upkeep::Maintenance;

/// The pin group of captures that belong to no session.
const BASELINE_GROUP: &str = "baseline";

impl Maintenance {
    /// Starts the journal of a directory and its first capture, in the background.
    ///
    /// A long-running process calls it when a project is opened. Until the capture exists, steps
    /// have no snapshot; afterwards each costs only what changed (R42). Nothing waits for it: named
    /// writes are captured at the same time. Returns `None` for a root that is not captured.
    ///
    /// # Errors
    ///
    /// The store of the directory cannot be opened.
    pub fn begin_baseline(
        &self,
        ctx: &Context,
        directory: &Path,
    ) -> Result<Option<JoinHandle<Result<CaptureOutcome, SnapshotError>>>> {
        let handle = match self.snapshots.open(directory, ctx.now) {
            Ok(handle) => handle,
            Err(error) if error.is_refused_root() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let now = ctx.now;
        let thread = std::thread::Builder::new().name("turnstone-baseline".to_owned());
        let running = thread.spawn(move || {
            // Only the owner of a store has a journal; another process that owns it has its own.
            let _journal = handle.maintenance().start_journal();
            handle.capture(&PinGroup::new(BASELINE_GROUP), now)
        })?;
        Ok(Some(running))
    }
}
