//! `turnstone snapshot watch`

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use turnstone_snapshot::{Group, OpenError, VaultError};

use super::site::{Site, Wanted};
use super::words;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::text;
use crate::ui::Ui;

/// How often it is looked whether upkeep is due.
const TICK: Duration = Duration::from_secs(60);
/// How long a short command that keeps the store is waited for: so many times, so long apart.
const TRIES: u32 = 150;
const PAUSE: Duration = Duration::from_millis(20);

pub(super) fn run(ui: &mut Ui, app: &App) -> Result<Exit, CliError> {
    let site = Site::open(ui, app, Wanted { make: true, ..Wanted::default() })?;
    let failed = |source| CliError::File { what: "cannot wait for signals".to_owned(), source };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let (send, ended) = channel();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // Nobody listens any more only if the program is ending anyway.
            send.send(()).ok();
        }
    });
    keep(&site, app)?;
    let journal = site.vault.watch();
    if let Some(why) = journal.and_then(|status| words::journal(status.state)) {
        ui.aside(&format!("without a journal, every file is looked at: {why}"));
    }
    // The journal begins with a look at everything, before anybody waits for it.
    let captured = site.vault.track(&Group::new("look"), app.now())?;
    let root = text::clean_line(&site.root().to_string_lossy());
    if ui.wants_json() {
        ui.json(&json!({ "ready": true, "root": site.root(), "files": captured.files }))?;
    } else {
        ui.line(&format!("watching {root}"))?;
    }
    ui.finish()?;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TICK) {
        recover(app);
        site.tend_at_leisure(app);
    }
    Ok(Exit::Ok)
}

/// Finishes what processes left that died, as everybody does who runs for long (R45).
fn recover(app: &App) {
    if !app.layout().database().exists() {
        return;
    }
    let recovered = app.engine().and_then(|engine| Ok(engine.recover(&app.context())?));
    if let Err(error) = recovered {
        tracing::info!("what a dead process left could not be finished: {error}");
    }
}

/// Becomes the keeper; a command that keeps the store for a moment is waited for.
fn keep(site: &Site, app: &App) -> Result<(), CliError> {
    for _ in 0..TRIES {
        if site.vault.try_keep(app.now())? {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err(VaultError::Open(OpenError::Kept(site.vault.keeper_words())).into())
}
