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
/// Prints the tree ID for use with `show`, `diff` and `restore`. Ignored, unreadable and very large files
/// are skipped; `show --skipped` lists them. In a git checkout, the whole checkout is captured. Your home
/// directory and the root of the file system are captured only if named explicitly or with --force.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot track\n  \
                        tree=$(turnstone snapshot track ~/project)")]
pub(crate) struct TrackArgs {
    /// Directory to capture [default: the current directory]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,

    /// Allow the home directory and the root of the file system
    #[arg(long, alias = "insist")]
    force: bool,
}

pub(super) fn run(ui: &mut Ui, app: &CliApp, args: &TrackArgs) -> Result<ProgramExit, CliError> {
    let directory = args.directory.as_deref();
    // A typed name counts as explicit; a dot does not.
    let is_named = |directory: &Path| {
        let mut parts = directory.components();
        parts.any(|part| matches!(part, Component::Normal(_) | Component::RootDir))
    };
    let is_explicit = args.force || directory.is_some_and(is_named);
    let store = DirectoryStore::open(
        ui,
        app,
        DirectoryStoreRequest { directory, allow_large_root: is_explicit, create: true },
    )?;
    let started = app.now();
    let captured = capture(ui, &store, started)?;
    let elapsed = app.now().since(started);
    if ui.wants_json() {
        ui.print_json(&capture_json(&captured, elapsed))?;
    } else {
        ui.print_line(&captured.capture.tree.to_string())?;
        print_capture_summary(ui, &captured, elapsed, started);
    }
    store.finish_with_maintenance(app);
    Ok(ProgramExit::Ok)
}

/// Captures, with a progress display on terminals.
fn capture(
    ui: &Ui,
    store: &DirectoryStore,
    now: EpochMillis,
) -> Result<CaptureOutcome, SnapshotError> {
    let bar = ui.progress_bar("{spinner} {msg} ({elapsed})");
    let is_done = AtomicBool::new(false);
    let started = store.handle.maintenance().stored_object_count();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            // No progress display for short captures.
            std::thread::park_timeout(Duration::from_millis(500));
            while !is_done.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(120));
                let stored =
                    store.handle.maintenance().stored_object_count().saturating_sub(started);
                bar.set_message(format!(
                    "capturing: {} stored",
                    number_format::format_counted(stored, "object")
                ));
                bar.tick();
            }
        });
        let captured = store.handle.capture(&DirectoryStore::capture_group(), now);
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
                "{files}, unchanged since {}",
                time_format::format_local_time(captured.capture.time.0, now)
            )
        }
    };
    ui.print_note(&format!("{what} ({})", number_format::format_duration(elapsed)));
    if let Some(why) = messages::describe_journal_problem(captured.journal) {
        ui.print_dim_note(&format!("scanned all files: {why}"));
    }
    if let Some(skipped) = summarize_skipped(&captured.capture.coverage.skipped) {
        ui.print_dim_note(&format!("skipped {skipped}"));
    }
}

/// Number of skipped paths per reason; `None` if there are none.
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
