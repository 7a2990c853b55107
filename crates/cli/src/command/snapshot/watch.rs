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

/// Interval of checks for due maintenance.
const MAINTENANCE_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How often and how long to wait for a short command that owns the store.
const MAX_OWNERSHIP_TRIES: u32 = 150;
const OWNERSHIP_RETRY_DELAY: Duration = Duration::from_millis(20);

pub(super) fn run(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open(
        ui,
        app,
        DirectoryStoreRequest { create: true, ..DirectoryStoreRequest::default() },
    )?;
    let failed = |source| CliError::File { what: "cannot handle signals".to_owned(), source };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let (send, ended) = channel();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // Fails only if the program is already ending.
            send.send(()).ok();
        }
    });
    become_store_owner(&store, app)?;
    let journal = store.handle.maintenance().start_journal();
    if let Some(why) = journal.and_then(|status| messages::describe_journal_problem(status.state)) {
        ui.print_dim_note(&format!("captures will scan all files: {why}"));
    }
    // The journal starts from a full capture, taken before commands wait for it.
    let captured = store.handle.capture(&PinGroup::new("look"), app.now())?;
    let root = text::sanitize_line(&store.root().to_string_lossy());
    if ui.wants_json() {
        ui.print_json(&json!({ "ready": true, "root": store.root(), "files": captured.files }))?;
    } else {
        ui.print_line(&format!("watching {root}"))?;
    }
    ui.flush()?;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(MAINTENANCE_CHECK_INTERVAL) {
        recover_interrupted(app);
        store.run_idle_maintenance(app);
    }
    Ok(ProgramExit::Ok)
}

/// Recovers the work of dead processes, as all long-running commands do (R45).
fn recover_interrupted(app: &CliApp) {
    if !app.layout().database().exists() {
        return;
    }
    let recovered = app
        .open_engine()
        .and_then(|engine| Ok(engine.maintenance().recover_all(&app.context())?));
    if let Err(error) = recovered {
        tracing::info!("recovery failed: {error}");
    }
}

/// Becomes the owner of the store; waits for a short command that owns it.
fn become_store_owner(store: &DirectoryStore, app: &CliApp) -> Result<(), CliError> {
    for _ in 0..MAX_OWNERSHIP_TRIES {
        if store.handle.try_acquire(app.now())? {
            return Ok(());
        }
        std::thread::sleep(OWNERSHIP_RETRY_DELAY);
    }
    Err(SnapshotError::Open(StoreOpenError::Locked(store.handle.owner_description())).into())
}
