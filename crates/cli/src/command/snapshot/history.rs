//! `turnstone snapshot list`

use serde_json::Value;
use turnstone_snapshot::ListedCapture;

use super::site::Site;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::ui::{Column, Grid, Ui};

/// Digits of a tree that are shown; a beginning is enough wherever one is asked for.
pub(super) const SHORT: usize = 12;

/// List the captures of this directory, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone snapshot list\n  \
                        turnstone snapshot list --json | jq -r '.[0].tree'")]
pub(crate) struct ListArgs {
    /// Those too that were made to guard a restore or only to look
    #[arg(long, short)]
    all: bool,

    /// At most this many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &ListArgs) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    let mut captures = site.vault.list_captures()?;
    let total = captures.len();
    captures.retain(|capture| args.all || !capture.is_internal());
    let hidden = total - captures.len();
    let more = captures.len().saturating_sub(args.limit as usize);
    captures.truncate(args.limit as usize);
    if ui.wants_json() {
        ui.json(&serde_json::to_value(&captures)?)?;
    } else if captures.is_empty() {
        ui.note(&format!("no captures of {}", site.root().display()));
    } else {
        print(ui, app, &captures, args.all)?;
    }
    if more > 0 {
        ui.aside(&format!("+ {} older (-n)", figure::count(more)));
    }
    if hidden > 0 {
        ui.aside(&format!("+ {} guards and looks (--all)", figure::count(hidden)));
    }
    site.close(app);
    Ok(Exit::Ok)
}

fn print(ui: &mut Ui, app: &App, captures: &[ListedCapture], all: bool) -> Result<(), CliError> {
    let columns = [
        ("TREE", Column::Text),
        ("MADE", Column::Text),
        ("FILES", Column::Figure),
        ("MODE", Column::Text),
        ("GROUP", Column::Cut),
    ];
    let own = Site::group();
    let with_group = all || captures.iter().any(|capture| capture.group != own.name());
    let mut grid = Grid::new(if with_group { &columns } else { &columns[..4] });
    let now = app.now();
    for capture in captures {
        let tree = capture.tree.to_string()[..SHORT].to_owned();
        let files = capture.files.map_or_else(|| "-".to_owned(), figure::count);
        let (made, mode) = (moment::near(capture.time.0, now), capture.mode.clone());
        match with_group {
            true => grid.row(&[tree, made, files, mode, capture.group.clone()]),
            false => grid.row(&[tree, made, files, mode]),
        }
    }
    ui.table(&grid)
}

/// The value of something that can always be written as JSON.
pub(super) fn value(of: &impl serde::Serialize) -> Result<Value, CliError> {
    Ok(serde_json::to_value(of)?)
}
