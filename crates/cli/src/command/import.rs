//! `turnstone import`: sessions of OpenCode, with a report of what became of each thing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use turnstone_exchange::{
    CarriedRule, CarriedRules, Import, ImportError, Kind, Options, Progress, Report, Skipped,
};

use super::permission::by_a_person;
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
///
/// The source is not trusted: an import does not change your existing projects and sessions. Permission
/// rules, approvals and start commands in the source are stored and listed, but have no effect unless you
/// pass --trust, which also works for a source that is already imported. Your own rules take precedence.
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

    /// Activate the permission rules, approvals and start commands in SOURCE
    #[arg(long)]
    trust: bool,
}

/// Reasons that are listed for one kind unless all are asked for.
const SHOWN: usize = 5;
/// What is said of rules that a plain import stores.
const NOT_IN_EFFECT: &str = "not in effect; import again with --trust to activate them";

/// Imports and prints the report.
///
/// # Errors
///
/// [`CliError::Source`] and [`CliError::Import`]; [`CliError::Refused`] if a tool wants to trust.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &ImportArgs) -> Result<Exit, CliError> {
    if args.trust {
        by_a_person(app)?;
    }
    let plan = Import::plan(&args.source, &Options::default())?;
    let plan = if args.trust { plan.trusting() } else { plan };
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
            figure::count(tally.rejected_count),
        ]);
    }
    if report.kinds.is_empty() {
        ui.note("nothing to import was found");
    } else {
        ui.table(&grid)?;
    }
    for (kind, tally) in &report.kinds {
        tell(ui, *kind, "rejected", (&tally.rejected, tally.rejected_count), full);
        tell(ui, *kind, "orphaned", (&tally.orphans, tally.orphaned), full);
    }
    print_rules(ui, &report.untrusted, NOT_IN_EFFECT, full);
    print_rules(ui, &report.trusted, "now in effect", full);
    for note in &report.notes {
        ui.note(&format!("{} {}", paint(WARN, "note:"), text::clean_line(note)));
    }
    Ok(())
}

/// Says what was not imported, and why.
fn tell(ui: &mut Ui, kind: Kind, what: &str, (skipped, count): (&[Skipped], u64), full: bool) {
    let shown = if full { skipped.len() } else { skipped.len().min(SHOWN) };
    for Skipped { id, reason } in skipped.iter().take(shown) {
        let (id, reason) = (text::clean_line(id), text::clean_line(reason));
        ui.note(&format!("{} {kind} {id}: {reason}", paint(WARN, format!("{what}:"))));
    }
    print_rest(ui, count, (shown, skipped.len()), what);
}

/// Says what the source carries about permissions, and what became of it.
fn print_rules(ui: &mut Ui, carried: &CarriedRules, outcome: &str, full: bool) {
    if carried.is_empty() {
        return;
    }
    let CarriedRules { rules, approvals, commands, listed } = carried;
    let counts =
        [(*rules, "permission rule"), (*approvals, "approval"), (*commands, "start command")];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
        .collect();
    ui.note(&format!("{} {} {outcome}", paint(WARN, "note:"), counts.join(" and ")));
    let shown = if full { listed.len() } else { listed.len().min(SHOWN) };
    for rule in listed.iter().take(shown) {
        let CarriedRule { of, permission, pattern, action } = rule;
        ui.note(&text::clean_line(&format!("  {of}: {permission} {pattern:?} {action}")));
    }
    print_rest(ui, rules + approvals + commands, (shown, listed.len()), "rules");
}

/// Says how many more there are than were shown; `listed` is how many the report names.
fn print_rest(ui: &mut Ui, count: u64, (shown, listed): (usize, usize), what: &str) {
    let more = count.saturating_sub(shown as u64);
    if more > 0 {
        let hint = if shown < listed { " (--full lists them)" } else { "" };
        ui.note(&paint(DIM, format!("{more} more {what}{hint}")));
    }
}
