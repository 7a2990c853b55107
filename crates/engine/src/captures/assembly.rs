//! The captures of one engine: what every service that captures files shares.

use std::sync::Arc;

use turnstone_store::Store;

use crate::captures::budgeted_capture::BudgetedCapture;
use crate::captures::eviction::Eviction;
use crate::captures::operation_guard::CaptureRetention;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::trace::TraceFiles;
use crate::captures::watched_roots::WatchedRoots;
use crate::id_generator::IdGenerator;
use crate::settings::{OverBudgetPolicy, WatchLimits};

/// Open stores, pins, eviction and captures within the budget.
pub(crate) struct Captures {
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) watched_roots: Arc<WatchedRoots>,
    pub(crate) pins: CaptureRetention,
    pub(crate) eviction: Eviction,
    pub(crate) budgeted: BudgetedCapture,
    pub(crate) traces: TraceFiles,
}

impl Captures {
    pub(crate) fn new(
        store: &Arc<Store>,
        ids: &Arc<IdGenerator>,
        snapshots: SnapshotHandles,
        watch: WatchLimits,
        (over_budget_policy, retention_millis): (OverBudgetPolicy, i64),
    ) -> Self {
        let traces = TraceFiles::new(&snapshots.data);
        let snapshots = Arc::new(snapshots);
        let watched_roots = Arc::new(WatchedRoots::new(snapshots.clone(), watch));
        let pins = CaptureRetention {
            store: store.clone(),
            snapshots: snapshots.clone(),
            retention_millis,
        };
        let eviction = Eviction {
            store: store.clone(),
            id_generator: ids.clone(),
            snapshots: snapshots.clone(),
            pins: pins.clone(),
        };
        let budgeted =
            BudgetedCapture { eviction: eviction.clone(), pins: pins.clone(), over_budget_policy };
        Self { snapshots, watched_roots, pins, eviction, budgeted, traces }
    }
}
