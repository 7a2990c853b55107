//! `turnstone snapshot track`

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_core::time::Millis;
use turnstone_snapshot::{Captured, Reason, RelPath, VaultError};

use super::site::{Site, Wanted};
use super::words;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::ui::Ui;

/// Capture a directory
///
/// Prints the tree, which `show`, `diff` and `restore` take. Ignored files, files over the size
/// limit and what cannot be read are skipped; `show --skipped` lists them. In a checkout all of
/// it is captured, wherever in it you are. The home directory and the whole file system are
/// refused unless you name them or insist.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot track\n  \
                        tree=$(turnstone snapshot track ~/project)")]
pub(crate) struct TrackArgs {
    /// The directory [default: where you are]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,

    /// Even if it is your home directory or the whole file system
    #[arg(long)]
    insist: bool,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &TrackArgs) -> Result<Exit, CliError> {
    let directory = args.directory.as_deref();
    // Who writes its name means it; a dot does not name anything.
    let is_named = |directory: &Path| {
        let mut parts = directory.components();
        parts.any(|part| matches!(part, Component::Normal(_) | Component::RootDir))
    };
    let insist = args.insist || directory.is_some_and(is_named);
    let site = Site::open(ui, app, Wanted { directory, insist, make: true })?;
    let started = app.now();
    let captured = capture(ui, &site, started)?;
    let elapsed = app.now().since(started);
    if ui.wants_json() {
        ui.json(&json(&captured, elapsed))?;
    } else {
        ui.line(&captured.capture.tree.to_string())?;
        tell(ui, &captured, elapsed, started);
    }
    site.close(app);
    Ok(Exit::Ok)
}

/// Captures, and shows on a terminal that something happens if it takes long.
fn capture(ui: &Ui, site: &Site, now: Millis) -> Result<Captured, VaultError> {
    let bar = ui.bar("{spinner} {msg} ({elapsed})");
    let is_done = AtomicBool::new(false);
    let started = site.vault.progress();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            // What is done in a moment needs no bar.
            std::thread::park_timeout(Duration::from_millis(500));
            while !is_done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(120));
                let stored = site.vault.progress().saturating_sub(started);
                bar.set_message(format!("capturing: {} stored", figure::count(stored)));
                bar.tick();
            }
        });
        let captured = site.vault.track(&Site::group(), now);
        is_done.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        drop(watcher.join());
        bar.finish_and_clear();
        captured
    })
}

fn json(captured: &Captured, elapsed: i64) -> Value {
    let Captured { capture, files, changed, reused, mode, journal, is_new } = captured;
    json!({
        "tree": capture.tree,
        "capture": capture.id,
        "new": is_new,
        "files": files,
        "changed": changed,
        "skipped": skipped_json(&capture.coverage.skipped),
        "reused": reused,
        "mode": mode,
        "journal": journal,
        "elapsed_ms": elapsed,
    })
}

/// Skipped paths with their reasons.
pub(super) fn skipped_json(skipped: &[(RelPath, Reason)]) -> Value {
    skipped.iter().map(|(path, reason)| json!({ "path": path, "reason": reason })).collect()
}

fn tell(ui: &mut Ui, captured: &Captured, elapsed: i64, now: Millis) {
    let files = figure::counted(captured.files, "file");
    let what = match captured.is_new {
        true => format!("{files}, {} changed", figure::count(captured.changed)),
        false => {
            format!("{files}, nothing new since {}", moment::near(captured.capture.time.0, now))
        }
    };
    ui.note(&format!("{what} ({})", figure::duration(elapsed)));
    if let Some(why) = words::journal(captured.journal) {
        ui.aside(&format!("every file was looked at: {why}"));
    }
    if let Some(skipped) = skipped(&captured.capture.coverage.skipped) {
        ui.aside(&format!("skipped {skipped}"));
    }
}

/// How many paths were skipped and why; nothing if none was.
pub(super) fn skipped(skipped: &[(RelPath, Reason)]) -> Option<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for (_, reason) in skipped {
        *counts.entry(words::reason(*reason)).or_default() += 1;
    }
    let list: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{} {reason}", figure::count(*count)))
        .collect();
    (!list.is_empty()).then(|| list.join(", "))
}
