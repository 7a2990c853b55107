//! `turnstone import`: sessions of OpenCode, with a report of what became of each thing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use turnstone_exchange::{Import, ImportError, Kind, Options, Progress, Report, Skipped};

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::text;
use crate::ui::{Column, DIM, Grid, Ui, WARN, paint};

/// Take over sessions of OpenCode
///
/// SOURCE is OpenCode's data directory, its opencode.db, its older storage/ directory, a file
/// written by `opencode export` or `turnstone export`, or - for such a file on standard input. The
/// source is only read. Importing again brings what is new and changes nothing else; an import that
/// was cut off is finished by running it again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone import ~/.local/share/opencode\n  \
                        opencode export ses_e21d | turnstone import -")]
pub(crate) struct ImportArgs {
    /// What to import
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    source: PathBuf,

    /// List everything that was not imported, with the reason
    #[arg(long)]
    full: bool,
}

/// Reasons that are listed for one kind unless all are asked for.
const SHOWN: usize = 5;

/// Imports and prints the report.
///
/// # Errors
///
/// [`CliError::Source`] and [`CliError::Import`].
pub(crate) fn run(ui: &mut Ui, app: &App, args: &ImportArgs) -> Result<Exit, CliError> {
    let plan = Import::plan(&args.source, &Options::default())?;
    let (store, ctx) = (app.open()?, app.context());
    if !ui.wants_json() {
        ui.note(&format!("importing {}", text::clean_line(&plan.describe())));
    }
    let bar = ui.bar("{bar:30} {pos}/{len} {msg} ({eta})");
    let mut counts: BTreeMap<Kind, (u64, u64)> = BTreeMap::new();
    let done = plan.run(&store, &ctx, &mut |progress: Progress| {
        counts.insert(progress.kind, (progress.done, progress.total));
        bar.set_length(counts.values().map(|count| count.1).sum());
        bar.set_position(counts.values().map(|count| count.0).sum());
        bar.set_message(progress.kind.name());
    });
    bar.finish_and_clear();
    match done {
        Ok(report) => {
            print(ui, &report, args.full)?;
            Ok(Exit::Ok)
        }
        Err(ImportError::Store { source, report }) => {
            print(ui, &report, args.full)?;
            Err(CliError::Import(source))
        }
        Err(ImportError::Source(error)) => Err(error.into()),
    }
}

fn print(ui: &mut Ui, report: &Report, full: bool) -> Result<(), CliError> {
    if ui.wants_json() {
        return ui.json(&serde_json::to_value(report)?);
    }
    let mut grid = Grid::new(&[
        ("KIND", Column::Text),
        ("FOUND", Column::Figure),
        ("IMPORTED", Column::Figure),
        ("UNCHANGED", Column::Figure),
        ("ORPHANED", Column::Figure),
        ("REJECTED", Column::Figure),
    ]);
    for (kind, tally) in &report.kinds {
        grid.row(&[
            kind.name().to_owned(),
            figure::count(tally.found),
            figure::count(tally.imported),
            figure::count(tally.unchanged),
            figure::count(tally.orphaned),
            figure::count(tally.rejected.len()),
        ]);
    }
    if report.kinds.is_empty() {
        ui.note("nothing to import was found");
    } else {
        ui.table(&grid)?;
    }
    for (kind, tally) in &report.kinds {
        tell(ui, *kind, "rejected", &tally.rejected, full);
        tell(ui, *kind, "orphaned", &tally.orphans, full);
    }
    for note in &report.notes {
        ui.note(&format!("{} {}", paint(WARN, "note:"), text::clean_line(note)));
    }
    Ok(())
}

/// Says what was not imported, and why.
fn tell(ui: &mut Ui, kind: Kind, what: &str, skipped: &[Skipped], full: bool) {
    let limit = if full { usize::MAX } else { SHOWN };
    for Skipped { id, reason } in skipped.iter().take(limit) {
        let (id, reason) = (text::clean_line(id), text::clean_line(reason));
        ui.note(&format!("{} {kind} {id}: {reason}", paint(WARN, format!("{what}:"))));
    }
    if skipped.len() > limit {
        let more = format!("{} more {what} (--full lists them)", skipped.len() - limit);
        ui.note(&paint(DIM, more));
    }
}
