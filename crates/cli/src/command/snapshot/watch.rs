//! `turnstone snapshot watch`

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use turnstone_snapshot::{PinGroup, SnapshotError, StoreOpenError};

use super::directory_store::{DirectoryStore, DirectoryStoreRequest};
use super::messages;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::text;
use crate::ui::Ui;

/// How often it is looked whether upkeep is due.
const MAINTENANCE_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a short command that keeps the store is waited for: so many times, so long apart.
const MAX_OWNERSHIP_TRIES: u32 = 150;
const OWNERSHIP_RETRY_DELAY: Duration = Duration::from_millis(20);

pub(super) fn run(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let site = DirectoryStore::open(
        ui,
        app,
        DirectoryStoreRequest { create: true, ..DirectoryStoreRequest::default() },
    )?;
    let failed = |source| CliError::File { what: "cannot wait for signals".to_owned(), source };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let (send, ended) = channel();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // Nobody listens any more only if the program is ending anyway.
            send.send(()).ok();
        }
    });
    become_store_owner(&site, app)?;
    let journal = site.handle.start_journal();
    if let Some(why) = journal.and_then(|status| messages::describe_journal_problem(status.state)) {
        ui.print_dim_note(&format!("without a journal, every file is looked at: {why}"));
    }
    // The journal begins with a look at everything, before anybody waits for it.
    let captured = site.handle.capture(&PinGroup::new("look"), app.now())?;
    let root = text::sanitize_line(&site.root().to_string_lossy());
    if ui.wants_json() {
        ui.print_json(&json!({ "ready": true, "root": site.root(), "files": captured.files }))?;
    } else {
        ui.print_line(&format!("watching {root}"))?;
    }
    ui.flush()?;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(MAINTENANCE_CHECK_INTERVAL) {
        recover_interrupted(app);
        site.run_idle_maintenance(app);
    }
    Ok(ProgramExit::Ok)
}

/// Finishes what processes left that died, as everybody does who runs for long (R45).
fn recover_interrupted(app: &CliApp) {
    if !app.layout().database().exists() {
        return;
    }
    let recovered = app
        .open_engine()
        .and_then(|engine| Ok(engine.maintenance().recover_all(&app.context())?));
    if let Err(error) = recovered {
        tracing::info!("what a dead process left could not be finished: {error}");
    }
}

/// Becomes the keeper; a command that keeps the store for a moment is waited for.
fn become_store_owner(site: &DirectoryStore, app: &CliApp) -> Result<(), CliError> {
    for _ in 0..MAX_OWNERSHIP_TRIES {
        if site.handle.try_acquire(app.now())? {
            return Ok(());
        }
        std::thread::sleep(OWNERSHIP_RETRY_DELAY);
    }
    Err(SnapshotError::Open(StoreOpenError::Locked(site.handle.owner_description())).into())
}
