//! Maintenance of the database at the end of a command: when it is due, and never more than a short step.

use turnstone_engine::{EngineError, Maintenance};
use turnstone_snapshot::MaintenanceInterval;
use turnstone_store::{Context, PendingDeletion};

use crate::app::CliApp;
use crate::args::CliCommand;
use crate::error::CliError;

/// Short transactions at the end of one command; the next command continues.
const STEPS: u64 = 12;
/// A deletion that began so long ago was interrupted: a server finishes its own ones earlier.
const ABANDONED_AFTER_MILLIS: i64 = 60_000;
/// Finishing a deletion rewrites the database, which takes well under a second up to this size.
const MAX_REWRITE_BYTES: u64 = 32 << 20;

/// Maintains the database if the command used it and maintenance is due, or a deletion is not finished. A failure is
/// never the command's: the next one tries again.
pub(crate) fn maintain_if_due(app: &CliApp, command: &CliCommand) {
    // The server maintains the database while it runs; these commands examine or maintain it themselves.
    let is_excluded =
        matches!(command, CliCommand::Serve(_) | CliCommand::Doctor(_) | CliCommand::Db(_));
    if is_excluded || !app.has_opened_database() {
        return;
    }
    let is_due = Maintenance::is_database_due(app.layout(), MaintenanceInterval::Daily, app.now());
    // Maintenance may have been noted as done while a deletion was too young to count as interrupted.
    if !is_due && !app.may_have_pending_deletions() {
        return;
    }
    if let Err(error) = run_step(app, is_due) {
        tracing::info!("database maintenance failed: {error}");
    }
}

fn run_step(app: &CliApp, is_due: bool) -> Result<(), CliError> {
    let engine = app.open_engine()?;
    if engine.store().read_only_reason().is_some() {
        return Ok(());
    }
    let (ctx, maintenance) = (Context::system(app.now()), engine.maintenance());
    let pending = maintenance.session_eraser().pending_deletions(&ctx)?;
    let is_abandoned =
        |deleted: &PendingDeletion| ctx.now.since(deleted.time) >= ABANDONED_AFTER_MILLIS;
    if pending.iter().any(is_abandoned) {
        let database = fs_err::metadata(app.layout().database()).map_err(EngineError::from)?;
        if database.len() <= MAX_REWRITE_BYTES {
            maintenance.session_eraser().finish_deletions(&ctx)?;
        } else {
            tracing::warn!("a deletion is not finished; run `turnstone db compact`");
        }
    }
    if is_due {
        maintenance.maintain_database(&ctx, STEPS)?;
    }
    Ok(())
}
