//! Maintenance: removes what no session needs any more, a little at a time (R41).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{MaintenanceInterval, SnapshotError};
use turnstone_store::{
    Context, DataLayout, DatabaseMaintenance, MaintenanceBudget, Store, WriterStats,
};

use crate::captures::eviction::Eviction;
use crate::captures::operation_guard::CaptureRetention;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::trace::TraceFiles;
use crate::captures::watched_roots::WatchedRoots;
use crate::error::Result;
use crate::history::fork::SessionCopies;
use crate::history::session_recovery::SessionRecovery;
use crate::history::undo::OperationRunner;
use crate::maintenance::deletion::SessionEraser;
use crate::maintenance::forget::PathEraser;
use crate::maintenance::recover::RecoveryReport;

/// About how many bytes are copied at the end of a command: done in less than a second.
const COMMAND_COPY_BYTES: u64 = 16 << 20;
/// About how many bytes are copied in the background.
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

/// Recovery after a crash, garbage collection and watched roots; forgetting through its part.
#[derive(Clone)]
pub struct Maintenance {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) watched_roots: Arc<WatchedRoots>,
    pub(crate) pins: CaptureRetention,
    pub(crate) eviction: Eviction,
    pub(crate) recovery: SessionRecovery,
    pub(crate) operations: OperationRunner,
    pub(crate) copies: SessionCopies,
    pub(crate) path_eraser: PathEraser,
    pub(crate) output_folder: PathBuf,
    pub(crate) traces: TraceFiles,
    pub(crate) session_eraser: SessionEraser,
}

impl Maintenance {
    /// Forgetting: removes the bytes of paths from captures, database and output.
    #[must_use]
    pub fn path_eraser(&self) -> &PathEraser {
        &self.path_eraser
    }

    /// The roots that this process watches.
    #[must_use]
    pub fn watched_roots(&self) -> &Arc<WatchedRoots> {
        &self.watched_roots
    }

    /// Removes what deleted sessions held.
    #[must_use]
    pub fn session_eraser(&self) -> &SessionEraser {
        &self.session_eraser
    }
}

impl Maintenance {
    /// Recovery, idle roots, and maintenance once an hour; a long-running process calls it once a minute.
    ///
    /// # Errors
    ///
    /// As [`Self::recover_all`]; do it again a minute later.
    pub fn recover_and_maintain(
        &self,
        ctx: &Context,
    ) -> Result<(RecoveryReport, MaintenanceReport)> {
        let recovered = self.recover_all(ctx)?;
        // Idle stores are closed after they were maintained.
        let maintained = self.run(ctx, MaintenanceInterval::Hourly);
        self.watched_roots.maintain(ctx.now);
        Ok((recovered, maintained?))
    }

    /// Maintains the stores this process owns, where it is due: hourly in a long-running process, daily
    /// at the end of a command, which spends less than a second on it.
    ///
    /// # Errors
    ///
    /// A store or the database refused; nothing is lost, the next maintenance finds the rest.
    pub fn run(&self, ctx: &Context, cadence: MaintenanceInterval) -> Result<MaintenanceReport> {
        let mut report = MaintenanceReport::default();
        let due: Vec<_> = self
            .snapshots
            .list_open()
            .into_iter()
            .filter(|handle| handle.maintenance().is_maintenance_due(cadence, ctx.now))
            .collect();
        if due.is_empty() {
            return Ok(report);
        }
        let effort = match cadence {
            MaintenanceInterval::Hourly => IDLE_COPY_BYTES,
            MaintenanceInterval::Daily => COMMAND_COPY_BYTES,
        };
        let sweep = self.pins.gc_request(ctx, effort)?;
        for handle in due {
            report.stores +=
                usize::from(handle.maintenance().maintain_if_due(cadence, &sweep)?.is_some());
        }
        self.traces.remove_closed(&self.store, ctx)?;
        report.outputs = remove_orphaned_outputs(&self.store, &self.output_folder, ctx)?;
        let registry = self.snapshots.registry();
        let removed = registry.remove_orphaned_stores(self.pins.retention_millis, ctx.now, false);
        report.removed = removed.map_err(SnapshotError::from)?.len();
        Ok(report)
    }

    /// Maintains the database in at most `steps` short transactions; returns true when nothing is left to do, which is
    /// then noted for [`Self::is_database_due`].
    ///
    /// # Errors
    ///
    /// Only what the database or the disk refuses; what was done so far stays done.
    pub fn maintain_database(&self, ctx: &Context, steps: u64) -> Result<bool> {
        let database = self.store.maintenance();
        let done = database.run(ctx, MaintenanceBudget::steps(steps))?;
        if done.finished {
            database.record_run(ctx.now)?;
        }
        Ok(done.finished)
    }

    /// How many mutations this process has written; `None` while the database cannot be written. If it does not change,
    /// no client of this process writes.
    #[must_use]
    pub fn written_mutations(&self) -> Option<u64> {
        self.store.writer_stats().map(WriterStats::mutations)
    }

    /// True if the database of a data directory was not maintained for so long, or a session was deleted since. Costs
    /// one small file.
    #[must_use]
    pub fn is_database_due(
        layout: &DataLayout,
        interval: MaintenanceInterval,
        now: EpochMillis,
    ) -> bool {
        interval.is_due(DatabaseMaintenance::last_run(layout), now)
    }
}

/// Removes the output of calls that no session has any more.
pub(crate) fn remove_orphaned_outputs(
    store: &Store,
    folder: &Path,
    ctx: &Context,
) -> Result<usize> {
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
    let gone = store.read(ctx, |r| r.undo_expiry().orphaned_outputs(&there))?;
    for name in &gone {
        remove_if_present(&folder.join(name))?;
    }
    Ok(gone.len())
}

pub(crate) fn remove_if_present(path: &Path) -> std::io::Result<()> {
    match fs_err::remove_file(path) {
        // Another process was faster.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
