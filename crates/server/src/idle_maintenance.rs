//! Maintenance of the database while the server is idle: in short steps, and never while clients write, unless it has
//! waited for long.

use std::time::Duration;

use turnstone_engine::{Maintenance, MaintenanceInterval};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;

/// How often it is checked whether there is something to do.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Short transactions between two checks of what clients do.
const STEPS: u64 = 16;
/// The pause between two slices.
const SLICE_PAUSE: Duration = Duration::from_millis(50);
/// After so many checks a deletion is finished although clients write: half a minute.
const MAX_DELETION_CHECKS: u32 = 6;
/// After so many checks maintenance takes a slice although clients write: ten minutes.
const MAX_MAINTENANCE_CHECKS: u32 = 120;

/// What is known from the last check.
#[derive(Clone, Copy, Default)]
struct IdleMaintenance {
    /// Mutations of the database so far, those of maintenance included.
    mutations: u64,
    /// Checks at which a deletion was put off.
    deletion_checks: u32,
    /// Checks at which maintenance was put off.
    maintenance_checks: u32,
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckOutcome {
    /// There is nothing more to do for now.
    Rest,
    /// There is more to do, and no client writes.
    Continue,
}

/// Checks every few seconds, and shortly after a deletion, until the server ends.
pub(crate) async fn run_idle_maintenance(app: AppState) {
    let mut state = IdleMaintenance::default();
    loop {
        loop {
            let mut known = state;
            let checked = app.run_blocking(move |app| {
                let outcome = known.check(app)?;
                Ok((known, outcome))
            });
            match checked.await {
                Ok((after, CheckOutcome::Continue)) => {
                    state = after;
                    tokio::time::sleep(SLICE_PAUSE).await;
                }
                Ok((after, CheckOutcome::Rest)) => {
                    state = after;
                    break;
                }
                Err(_) => {
                    tracing::warn!("database maintenance failed; trying again in a few seconds");
                    state = IdleMaintenance::default();
                    break;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            // What is deleted within a second is removed together.
            () = app.in_flight().deletion_signal.notified() => {
                tokio::time::sleep(CHECK_INTERVAL / 5).await;
            }
        }
    }
}

impl IdleMaintenance {
    fn check(&mut self, app: &AppState) -> Result<CheckOutcome, ApiError> {
        let maintenance = app.engine().maintenance();
        let Some(mutations) = maintenance.written_mutations() else {
            return Ok(CheckOutcome::Rest);
        };
        let outcome = self.work(app, mutations == self.mutations);
        self.mutations = maintenance.written_mutations().unwrap_or(mutations);
        outcome
    }

    fn work(&mut self, app: &AppState, is_idle: bool) -> Result<CheckOutcome, ApiError> {
        let (ctx, maintenance) = (Context::system(app.now()), app.engine().maintenance());
        if !maintenance.session_eraser().pending_deletions(&ctx)?.is_empty() {
            self.deletion_checks += 1;
            if is_idle || self.deletion_checks > MAX_DELETION_CHECKS {
                self.deletion_checks = 0;
                maintenance.session_eraser().finish_deletions(&ctx)?;
                return Ok(CheckOutcome::Continue);
            }
            return Ok(CheckOutcome::Rest);
        }
        let layout = app.engine().store().layout();
        if !Maintenance::is_database_due(layout, MaintenanceInterval::Hourly, ctx.now) {
            return Ok(CheckOutcome::Rest);
        }
        self.maintenance_checks += 1;
        if !is_idle && self.maintenance_checks <= MAX_MAINTENANCE_CHECKS {
            return Ok(CheckOutcome::Rest);
        }
        self.maintenance_checks = 0;
        let is_finished = maintenance.maintain_database(&ctx, STEPS)?;
        Ok(if is_finished { CheckOutcome::Rest } else { CheckOutcome::Continue })
    }
}
