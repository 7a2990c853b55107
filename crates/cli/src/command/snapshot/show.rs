//! `turnstone snapshot show`

use serde_json::json;
use turnstone_snapshot::{Capture, FileMode, ListedFile};

use super::directory_store::DirectoryStore;
use super::list::to_json;
use super::messages;
use super::track::{skipped_json, summarize_skipped};
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::time_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// List the files of a capture with permissions and sizes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot show 4b825dc6\n  \
                        turnstone snapshot show 4b825dc6 --skipped")]
pub(crate) struct SnapshotShowArgs {
    /// Tree or capture ID, or unique prefix
    #[arg(value_name = "TREE")]
    tree: String,

    /// List the skipped paths and reasons instead
    #[arg(long)]
    skipped: bool,
}

pub(super) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &SnapshotShowArgs,
) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let capture = store.handle.reader().find_capture(&args.tree)?;
    let files = store.handle.reader().list_files(&capture)?;
    if ui.wants_json() {
        ui.print_json(&json!({
            "tree": capture.tree,
            "capture": capture.id,
            "time": capture.time,
            "scope": capture.coverage.scope,
            "files": to_json(&files)?,
            "skipped": skipped_json(&capture.coverage.skipped),
            "absent": to_json(&capture.coverage.absent)?,
            "nested": to_json(&capture.coverage.nested)?,
        }))?;
    } else if args.skipped {
        print_skipped(ui, &capture)?;
    } else {
        print_files(ui, app, &capture, &files)?;
    }
    store.finish_with_maintenance(app);
    Ok(ProgramExit::Ok)
}

fn print_files(
    ui: &mut Ui,
    app: &CliApp,
    capture: &Capture,
    files: &[ListedFile],
) -> Result<(), CliError> {
    let mut grid =
        TextTable::new(&[("", ColumnKind::Text), ("", ColumnKind::Number), ("", ColumnKind::Text)]);
    for file in files {
        let mode = match file.mode {
            FileMode::Link => "link".to_owned(),
            FileMode::File | FileMode::Exec => format!("{:04o}", file.perm),
        };
        grid.add_row(&[mode, number_format::format_size(file.size), file.path.to_string()]);
    }
    ui.print_table(&grid)?;
    let bytes = number_format::format_size(files.iter().map(|file| file.size).sum());
    let made = time_format::format_local_time(capture.time.0, app.now());
    let count = number_format::format_counted(files.len(), "file");
    ui.print_note(&format!("{count}, {bytes}, captured {made}"));
    if let Some(skipped) = summarize_skipped(&capture.coverage.skipped) {
        ui.print_dim_note(&format!("skipped {skipped} (--skipped)"));
    }
    Ok(())
}

fn print_skipped(ui: &mut Ui, capture: &Capture) -> Result<(), CliError> {
    let mut grid = TextTable::new(&[("", ColumnKind::Text), ("", ColumnKind::Text)]);
    for (path, reason) in &capture.coverage.skipped {
        grid.add_row(&[messages::describe_skip_reason(*reason).to_owned(), path.to_string()]);
    }
    ui.print_table(&grid)?;
    if capture.coverage.skipped.is_empty() {
        ui.print_note("no paths were skipped");
    }
    Ok(())
}
