//! `turnstone snapshot show`

use serde_json::json;
use turnstone_snapshot::{Capture, LeafMode, ListedFile};

use super::history::value;
use super::site::Site;
use super::track::{skipped, skipped_json};
use super::words;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::ui::{Column, Grid, Ui};

/// Show what a capture holds: its files with permissions and sizes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot show 4b825dc6\n  \
                        turnstone snapshot show 4b825dc6 --skipped")]
pub(crate) struct ShowArgs {
    /// The tree or the capture: its id, or a beginning no other one has
    #[arg(value_name = "TREE")]
    tree: String,

    /// List what was skipped, and why, instead
    #[arg(long)]
    skipped: bool,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &ShowArgs) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    let capture = site.vault.find_capture(&args.tree)?;
    let files = site.vault.list_files(&capture)?;
    if ui.wants_json() {
        ui.json(&json!({
            "tree": capture.tree,
            "capture": capture.id,
            "time": capture.time,
            "scope": capture.coverage.scope,
            "files": value(&files)?,
            "skipped": skipped_json(&capture.coverage.skipped),
            "absent": value(&capture.coverage.absent)?,
            "nested": value(&capture.coverage.nested)?,
        }))?;
    } else if args.skipped {
        print_skipped(ui, &capture)?;
    } else {
        print(ui, app, &capture, &files)?;
    }
    site.close(app);
    Ok(Exit::Ok)
}

fn print(ui: &mut Ui, app: &App, capture: &Capture, files: &[ListedFile]) -> Result<(), CliError> {
    let mut grid = Grid::new(&[("", Column::Text), ("", Column::Figure), ("", Column::Text)]);
    for file in files {
        let mode = match file.mode {
            LeafMode::Link => "link".to_owned(),
            LeafMode::File | LeafMode::Exec => format!("{:04o}", file.perm),
        };
        grid.row(&[mode, figure::size(file.size), file.path.to_string()]);
    }
    ui.table(&grid)?;
    let bytes = figure::size(files.iter().map(|file| file.size).sum());
    let made = moment::near(capture.time.0, app.now());
    let count = figure::counted(files.len(), "file");
    ui.note(&format!("{count}, {bytes}, captured {made}"));
    if let Some(skipped) = skipped(&capture.coverage.skipped) {
        ui.aside(&format!("skipped {skipped} (--skipped)"));
    }
    Ok(())
}

fn print_skipped(ui: &mut Ui, capture: &Capture) -> Result<(), CliError> {
    let mut grid = Grid::new(&[("", Column::Text), ("", Column::Text)]);
    for (path, reason) in &capture.coverage.skipped {
        grid.row(&[words::reason(*reason).to_owned(), path.to_string()]);
    }
    ui.table(&grid)?;
    if capture.coverage.skipped.is_empty() {
        ui.note("nothing was skipped");
    }
    Ok(())
}
