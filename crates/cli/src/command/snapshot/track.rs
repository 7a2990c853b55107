//! `turnstone snapshot track`

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{CaptureOutcome, RelPath, SnapshotError, UncoveredReason};

use super::directory_store::{DirectoryStore, DirectoryStoreRequest};
use super::messages;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::time_format;
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

pub(super) fn run(ui: &mut Ui, app: &CliApp, args: &TrackArgs) -> Result<ProgramExit, CliError> {
    let directory = args.directory.as_deref();
    // Who writes its name means it; a dot does not name anything.
    let is_named = |directory: &Path| {
        let mut parts = directory.components();
        parts.any(|part| matches!(part, Component::Normal(_) | Component::RootDir))
    };
    let insist = args.insist || directory.is_some_and(is_named);
    let site = DirectoryStore::open(
        ui,
        app,
        DirectoryStoreRequest { directory, allow_large_root: insist, create: true },
    )?;
    let started = app.now();
    let captured = capture(ui, &site, started)?;
    let elapsed = app.now().since(started);
    if ui.wants_json() {
        ui.print_json(&capture_json(&captured, elapsed))?;
    } else {
        ui.print_line(&captured.capture.tree.to_string())?;
        print_capture_summary(ui, &captured, elapsed, started);
    }
    site.finish_with_maintenance(app);
    Ok(ProgramExit::Ok)
}

/// Captures, and shows on a terminal that something happens if it takes long.
fn capture(
    ui: &Ui,
    site: &DirectoryStore,
    now: EpochMillis,
) -> Result<CaptureOutcome, SnapshotError> {
    let bar = ui.progress_bar("{spinner} {msg} ({elapsed})");
    let is_done = AtomicBool::new(false);
    let started = site.handle.stored_object_count();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            // What is done in a moment needs no bar.
            std::thread::park_timeout(Duration::from_millis(500));
            while !is_done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(120));
                let stored = site.handle.stored_object_count().saturating_sub(started);
                bar.set_message(format!(
                    "capturing: {} stored",
                    number_format::format_count(stored)
                ));
                bar.tick();
            }
        });
        let captured = site.handle.capture(&DirectoryStore::capture_group(), now);
        is_done.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        drop(watcher.join());
        bar.finish_and_clear();
        captured
    })
}

fn capture_json(captured: &CaptureOutcome, elapsed: i64) -> Value {
    let CaptureOutcome { capture, files, changed, reused, mode, journal, is_new } = captured;
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
pub(super) fn skipped_json(skipped: &[(RelPath, UncoveredReason)]) -> Value {
    skipped.iter().map(|(path, reason)| json!({ "path": path, "reason": reason })).collect()
}

fn print_capture_summary(ui: &mut Ui, captured: &CaptureOutcome, elapsed: i64, now: EpochMillis) {
    let files = number_format::format_counted(captured.files, "file");
    let what = match captured.is_new {
        true => format!("{files}, {} changed", number_format::format_count(captured.changed)),
        false => {
            format!(
                "{files}, nothing new since {}",
                time_format::format_local_time(captured.capture.time.0, now)
            )
        }
    };
    ui.print_note(&format!("{what} ({})", number_format::format_duration(elapsed)));
    if let Some(why) = messages::describe_journal_problem(captured.journal) {
        ui.print_dim_note(&format!("every file was looked at: {why}"));
    }
    if let Some(skipped) = summarize_skipped(&captured.capture.coverage.skipped) {
        ui.print_dim_note(&format!("skipped {skipped}"));
    }
}

/// How many paths were skipped and why; nothing if none was.
pub(super) fn summarize_skipped(skipped: &[(RelPath, UncoveredReason)]) -> Option<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for (_, reason) in skipped {
        *counts.entry(messages::describe_skip_reason(*reason)).or_default() += 1;
    }
    let list: Vec<String> = counts
        .iter()
        .map(|(reason, count)| format!("{} {reason}", number_format::format_count(*count)))
        .collect();
    (!list.is_empty()).then(|| list.join(", "))
}
