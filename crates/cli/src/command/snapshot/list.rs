//! `turnstone snapshot list`

use serde_json::Value;
use turnstone_snapshot::ListedCapture;

use super::directory_store::DirectoryStore;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::time_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Shown length of a tree ID; every unique prefix is accepted.
pub(super) const SHORT_ID_LENGTH: usize = 12;

/// List the captures of this directory, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot list\n  \
                        turnstone snapshot list --json | jq -r '.[0].tree'")]
pub(crate) struct SnapshotListArgs {
    /// Include captures that Turnstone made itself: before a restore, or for a comparison
    #[arg(long, short)]
    all: bool,

    /// Maximum number of captures
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &SnapshotListArgs,
) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let mut captures = store.handle.reader().list_captures()?;
    let total = captures.len();
    captures.retain(|capture| args.all || !capture.is_internal());
    let hidden = total - captures.len();
    let more = captures.len().saturating_sub(args.limit as usize);
    captures.truncate(args.limit as usize);
    if ui.wants_json() {
        ui.print_json(&serde_json::to_value(&captures)?)?;
    } else if captures.is_empty() {
        ui.print_note(&format!("no captures of {}", store.root().display()));
    } else {
        print_captures(ui, app, &captures, args.all)?;
    }
    if more > 0 {
        ui.print_dim_note(&format!(
            "{} (-n N)",
            number_format::format_counted(more, "older capture")
        ));
    }
    if hidden > 0 {
        ui.print_dim_note(&format!(
            "{} (--all)",
            number_format::format_counted(hidden, "internal capture")
        ));
    }
    store.finish_with_maintenance(app);
    Ok(ProgramExit::Ok)
}

fn print_captures(
    ui: &mut Ui,
    app: &CliApp,
    captures: &[ListedCapture],
    all: bool,
) -> Result<(), CliError> {
    let columns = [
        ("TREE", ColumnKind::Text),
        ("TIME", ColumnKind::Text),
        ("FILES", ColumnKind::Number),
        ("MODE", ColumnKind::Text),
        ("GROUP", ColumnKind::Truncated),
    ];
    let own = DirectoryStore::capture_group();
    let with_group = all || captures.iter().any(|capture| capture.group != own.name());
    let mut grid = TextTable::new(if with_group { &columns } else { &columns[..4] });
    let now = app.now();
    for capture in captures {
        let tree = capture.tree.to_string()[..SHORT_ID_LENGTH].to_owned();
        let files = capture.files.map_or_else(|| "-".to_owned(), number_format::format_count);
        let (made, mode) =
            (time_format::format_local_time(capture.time.0, now), capture.mode.clone());
        match with_group {
            true => grid.add_row(&[tree, made, files, mode, capture.group.clone()]),
            false => grid.add_row(&[tree, made, files, mode]),
        }
    }
    ui.print_table(&grid)
}

/// Serializes a value.
pub(super) fn to_json(of: &impl serde::Serialize) -> Result<Value, CliError> {
    Ok(serde_json::to_value(of)?)
}
