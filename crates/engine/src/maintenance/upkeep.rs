//! Upkeep: what nobody needs any more goes by itself, a little at a time (R41).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_snapshot::{MaintenanceInterval, SnapshotError, StoreRegistry};
use turnstone_store::Context;

use crate::engine::Engine;
use crate::error::Result;
use crate::maintenance::recover::RecoveryReport;

/// About how many bytes are copied at the end of a command: done in less than a second.
const COMMAND_COPY_BYTES: u64 = 16 << 20;
/// The same while nobody waits.
const IDLE_COPY_BYTES: u64 = 1 << 30;
/// The folder of the data directory with the output of commands that was too long for the ledger.
const OUTPUT_FOLDER: &str = "output";

/// What upkeep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Snapshot stores that were collected.
    pub stores: usize,
    /// Files with the output of calls that are gone.
    pub outputs: usize,
    /// Stores of directories that are gone for long.
    pub removed: usize,
}

impl Engine {
    /// What a process that runs for long calls once a minute: recovery, and upkeep once an hour.
    ///
    /// # Errors
    ///
    /// As [`Engine::recover_all`]; do it again a minute later.
    pub fn recover_and_maintain(
        &self,
        ctx: &Context,
    ) -> Result<(RecoveryReport, MaintenanceReport)> {
        let recovered = self.recover_all(ctx)?;
        Ok((recovered, self.run_maintenance(ctx, MaintenanceInterval::Hourly)?))
    }

    /// Upkeep of the stores this process keeps, where it is due: hourly for one that runs on, daily
    /// for a command that is about to end, which takes less than a second for it.
    ///
    /// # Errors
    ///
    /// A store or the ledger refused; nothing is lost, the next upkeep finds the rest.
    pub fn run_maintenance(
        &self,
        ctx: &Context,
        cadence: MaintenanceInterval,
    ) -> Result<MaintenanceReport> {
        let mut tended = MaintenanceReport::default();
        let due: Vec<_> = self
            .list_open_handles()
            .into_iter()
            .filter(|vault| vault.is_maintenance_due(cadence, ctx.now))
            .collect();
        if due.is_empty() {
            return Ok(tended);
        }
        let effort = match cadence {
            MaintenanceInterval::Hourly => IDLE_COPY_BYTES,
            MaintenanceInterval::Daily => COMMAND_COPY_BYTES,
        };
        let sweep = self.gc_request(ctx, effort)?;
        for vault in due {
            tended.stores += usize::from(vault.maintain_if_due(cadence, &sweep)?.is_some());
        }
        tended.outputs = self.remove_orphaned_outputs(ctx)?;
        let registry = StoreRegistry::new(&self.settings.data);
        let removed =
            registry.remove_orphaned_stores(self.settings.retention_millis, ctx.now, false);
        tended.removed = removed.map_err(SnapshotError::from)?.len();
        Ok(tended)
    }

    /// Upkeep after sessions were deleted, of the stores of their directories, due or not.
    ///
    /// # Errors
    ///
    /// As [`Engine::run_maintenance`].
    pub fn run_maintenance_after_delete(
        &self,
        ctx: &Context,
        directories: &BTreeSet<PathBuf>,
    ) -> Result<MaintenanceReport> {
        let mut tended = MaintenanceReport {
            outputs: self.remove_orphaned_outputs(ctx)?,
            ..MaintenanceReport::default()
        };
        let registry = StoreRegistry::new(&self.settings.data);
        let sweep = self.gc_request(ctx, COMMAND_COPY_BYTES)?;
        for directory in directories.iter().filter(|directory| directory.is_dir()) {
            let policy = &self.settings.snapshot_options.policy;
            if let Ok(Some(_)) = registry.find_store(directory, policy) {
                self.open_snapshot_handle(directory, ctx.now)?.collect_garbage(&sweep)?;
                tended.stores += 1;
            }
        }
        Ok(tended)
    }

    /// Removes the output of calls that no session has any more.
    fn remove_orphaned_outputs(&self, ctx: &Context) -> Result<usize> {
        let folder = self.settings.data.join(OUTPUT_FOLDER);
        let mut there = BTreeSet::new();
        match fs_err::read_dir(&folder) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry?.file_name();
                    there.extend(name.to_str().map(str::to_owned));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        }
        let gone = self.store.read(ctx, |r| r.expiry().orphaned_outputs(&there))?;
        for name in &gone {
            remove_if_present(&folder.join(name))?;
        }
        Ok(gone.len())
    }
}

fn remove_if_present(path: &Path) -> std::io::Result<()> {
    match fs_err::remove_file(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
