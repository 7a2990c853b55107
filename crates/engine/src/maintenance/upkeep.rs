//! Maintenance: removes what no session needs any more, a little at a time (R41).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_snapshot::{MaintenanceInterval, SnapshotError};
use turnstone_store::{Context, Store};

use crate::captures::eviction::Eviction;
use crate::captures::operation_guard::CaptureRetention;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::fork::SessionCopies;
use crate::history::session_recovery::SessionRecovery;
use crate::history::undo::OperationRunner;
use crate::maintenance::forget::Forgets;
use crate::maintenance::recover::RecoveryReport;

/// About how many bytes are copied at the end of a command: done in less than a second.
const COMMAND_COPY_BYTES: u64 = 16 << 20;
/// The same in the background.
const IDLE_COPY_BYTES: u64 = 1 << 30;

/// What maintenance did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// Snapshot stores that were collected.
    pub stores: usize,
    /// Files with the output of calls that are gone.
    pub outputs: usize,
    /// Stores of directories that are gone for long.
    pub removed: usize,
}

/// Recovery after a crash, garbage collection and baselines; forgetting through its part.
#[derive(Clone)]
pub struct Maintenance {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) pins: CaptureRetention,
    pub(crate) eviction: Eviction,
    pub(crate) recovery: SessionRecovery,
    pub(crate) operations: OperationRunner,
    pub(crate) copies: SessionCopies,
    pub(crate) forgets: Forgets,
    pub(crate) output_folder: PathBuf,
}

impl Maintenance {
    /// Forgetting: removes the bytes of paths from captures, ledger and output.
    #[must_use]
    pub fn forgets(&self) -> &Forgets {
        &self.forgets
    }
}

impl Maintenance {
    /// Recovery, and maintenance once an hour; a long-running process calls it once a minute.
    ///
    /// # Errors
    ///
    /// As [`Self::recover_all`]; do it again a minute later.
    pub fn recover_and_maintain(
        &self,
        ctx: &Context,
    ) -> Result<(RecoveryReport, MaintenanceReport)> {
        let recovered = self.recover_all(ctx)?;
        Ok((recovered, self.run(ctx, MaintenanceInterval::Hourly)?))
    }

    /// Maintains the stores this process owns, where it is due: hourly in a long-running process, daily
    /// at the end of a command, which spends less than a second on it.
    ///
    /// # Errors
    ///
    /// A store or the ledger refused; nothing is lost, the next maintenance finds the rest.
    pub fn run(&self, ctx: &Context, cadence: MaintenanceInterval) -> Result<MaintenanceReport> {
        let mut tended = MaintenanceReport::default();
        let due: Vec<_> = self
            .snapshots
            .list_open()
            .into_iter()
            .filter(|handle| handle.maintenance().is_maintenance_due(cadence, ctx.now))
            .collect();
        if due.is_empty() {
            return Ok(tended);
        }
        let effort = match cadence {
            MaintenanceInterval::Hourly => IDLE_COPY_BYTES,
            MaintenanceInterval::Daily => COMMAND_COPY_BYTES,
        };
        let sweep = self.pins.gc_request(ctx, effort)?;
        for handle in due {
            tended.stores +=
                usize::from(handle.maintenance().maintain_if_due(cadence, &sweep)?.is_some());
        }
        tended.outputs = self.remove_orphaned_outputs(ctx)?;
        let registry = self.snapshots.registry();
        let removed = registry.remove_orphaned_stores(self.pins.retention_millis, ctx.now, false);
        tended.removed = removed.map_err(SnapshotError::from)?.len();
        Ok(tended)
    }

    /// Maintains the stores of the directories of deleted sessions, due or not.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_after_delete(
        &self,
        ctx: &Context,
        directories: &BTreeSet<PathBuf>,
    ) -> Result<MaintenanceReport> {
        let mut tended = MaintenanceReport {
            outputs: self.remove_orphaned_outputs(ctx)?,
            ..MaintenanceReport::default()
        };
        let registry = self.snapshots.registry();
        let sweep = self.pins.gc_request(ctx, COMMAND_COPY_BYTES)?;
        for directory in directories.iter().filter(|directory| directory.is_dir()) {
            let policy = self.snapshots.policy();
            if let Ok(Some(_)) = registry.find_store(directory, policy) {
                self.snapshots.open(directory, ctx.now)?.maintenance().collect_garbage(&sweep)?;
                tended.stores += 1;
            }
        }
        Ok(tended)
    }

    /// Removes the output of calls that no session has any more.
    fn remove_orphaned_outputs(&self, ctx: &Context) -> Result<usize> {
        let folder = &self.output_folder;
        let mut there = BTreeSet::new();
        match fs_err::read_dir(folder) {
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
        // Another process was faster.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
