//! Compaction, consumers and maintenance through the store's public functions (R24, R25).

mod blobs;
mod consumer;
#[path = "../history/mod.rs"]
mod history;
mod maintenance;
mod property;
mod stream_compaction;

use history::HistoryRunner;
use turnstone_core::time::LogCursor;
use turnstone_store::{DatabaseMaintenanceReport, LogEvent, MaintenanceBudget, MaintenanceLimits};

/// No grace, and nobody holds the log: everything may go at once.
fn immediate_limits() -> MaintenanceLimits {
    MaintenanceLimits { grace_ms: 0, lag_ms: 0, ..MaintenanceLimits::default() }
}

fn maintain(world: &HistoryRunner, budget: MaintenanceBudget) -> DatabaseMaintenanceReport {
    maintain_with(world, budget, &immediate_limits())
}

fn maintain_with(
    world: &HistoryRunner,
    budget: MaintenanceBudget,
    limits: &MaintenanceLimits,
) -> DatabaseMaintenanceReport {
    world.store.maintenance().run_with(&world.ctx(), budget, limits).expect("maintained")
}

fn whole_log(world: &HistoryRunner) -> Vec<LogEvent> {
    world.store.read(&world.ctx(), |r| r.log().after(LogCursor(0), 100_000)).expect("log").events
}
