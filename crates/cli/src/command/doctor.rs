//! `turnstone doctor`: looks at everything, and mends what can be mended.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnstone_process::git_version;
use turnstone_store::{Diagnosis, Finding, RebuildProgress, Salvaged, Severity};

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::text;
use crate::ui::{BAD, Column, DIM, GOOD, Grid, HEAD, Ui, WARN, paint};

/// Check the data directory and the database
///
/// Changes nothing without --rebuild or --salvage. Exits with 1 if stored data is damaged or missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone doctor\n  \
                        turnstone doctor --salvage ~/turnstone-rescued")]
pub(crate) struct DoctorArgs {
    /// Rebuild the tables from the event log
    #[arg(long, conflicts_with = "salvage")]
    rebuild: bool,

    /// Copy what can still be read into a new data directory; the damaged one is kept
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    salvage: Option<PathBuf>,
}

/// Columns of a finding that are shown.
const LONGEST: usize = 200;

/// Examines, rebuilds or salvages.
///
/// # Errors
///
/// What the store answers.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &DoctorArgs) -> Result<Exit, CliError> {
    match &args.salvage {
        Some(target) => salvage(ui, app, target),
        None if args.rebuild => rebuild(ui, app),
        None => examine(ui, app),
    }
}

fn examine(ui: &mut Ui, app: &App) -> Result<Exit, CliError> {
    let seen = turnstone_store::doctor(app.layout(), app.now());
    if ui.wants_json() {
        ui.json(&json(app, &seen))?;
    } else {
        print(ui, app, &seen)?;
    }
    Ok(if seen.is_sound() { Exit::Ok } else { Exit::Refused })
}

fn json(app: &App, seen: &Diagnosis) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "severity": finding.severity.as_str(),
            "check": finding.check,
            "what": finding.what,
            "place": finding.place,
            "remedy": finding.remedy,
        })
    };
    let size = |(name, bytes): &(String, u64)| json!({ "name": name, "bytes": bytes });
    json!({
        "directory": app.layout().root(),
        "sound": seen.is_sound(),
        "version": seen.version,
        "git": match git_version(&app.git_environment()) {
            Ok(version) => json!({ "version": version }),
            Err(error) => json!({ "error": error.to_string(), "hint": error.hint() }),
        },
        "events": seen.events,
        "sizes": seen.sizes.iter().map(size).collect::<Vec<_>>(),
        "checks": seen.checks,
        "findings": seen.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn print(ui: &mut Ui, app: &App, seen: &Diagnosis) -> Result<(), CliError> {
    ui.line(&paint(HEAD, text::clean_line(&app.layout().root().to_string_lossy())))?;
    let mut grid = Grid::new(&[("", Column::Text), ("", Column::Figure)]);
    for (name, bytes) in &seen.sizes {
        grid.row(&[format!("  {name}"), figure::size(*bytes)]);
    }
    ui.table(&grid)?;
    if let Some(version) = seen.version {
        let events = figure::count(i64::try_from(seen.events).unwrap_or(i64::MAX));
        ui.line(&paint(DIM, format!("  schema {version}, {events} events")))?;
    }
    print_git(ui, app)?;
    ui.line("")?;
    for check in &seen.checks {
        let found: Vec<&Finding> = seen.findings.iter().filter(|f| f.check == *check).collect();
        tell(ui, check, &found)?;
    }
    for finding in seen.findings.iter().filter(|f| !seen.checks.contains(&f.check)) {
        tell(ui, finding.check, &[finding])?;
    }
    ui.line("")?;
    ui.line(match seen.worst() {
        Some(Severity::Error) => "something is damaged or missing",
        Some(Severity::Warning) => "nothing is lost, but not everything is as it should be",
        Some(Severity::Note) | None => "all is well",
    })
}

/// Prints the version of git. Without a usable one the data is sound; worktrees and `/vcs` need it.
fn print_git(ui: &mut Ui, app: &App) -> Result<(), CliError> {
    match git_version(&app.git_environment()) {
        Ok(version) => ui.line(&paint(DIM, format!("  git  {}", text::clean_line(&version)))),
        Err(error) => {
            let what = text::cut(&text::clean_line(&error.to_string()), LONGEST);
            ui.line(&format!("  {} {what}", mark(Some(Severity::Warning))))?;
            let hint = error.hint().map(|hint| format!("    {} {hint}", paint(GOOD, "hint:")));
            hint.map_or(Ok(()), |hint| ui.line(&hint))
        }
    }
}

fn mark(worst: Option<Severity>) -> String {
    match worst {
        None | Some(Severity::Note) => paint(GOOD, "✓"),
        Some(Severity::Warning) => paint(WARN, "!"),
        Some(Severity::Error) => paint(BAD, "✗"),
    }
}

/// Prints a check with what it found, and once each what helps.
fn tell(ui: &mut Ui, check: &str, found: &[&Finding]) -> Result<(), CliError> {
    let worst = found.iter().map(|finding| finding.severity).max();
    ui.line(&format!("{} {check}", mark(worst)))?;
    let mut remedies: Vec<&str> = Vec::new();
    for finding in found {
        // SQLite can go on for pages; --json has all of it.
        let what = text::cut(&text::clean_line(&finding.what), LONGEST);
        let place = match finding.place.as_str() {
            place if place == check => String::new(),
            place => format!("{}: ", text::clean_line(place)),
        };
        ui.line(&format!("    {}: {place}{what}", finding.severity.as_str()))?;
        if finding.severity > Severity::Note && !remedies.contains(&finding.remedy) {
            remedies.push(finding.remedy);
        }
    }
    remedies
        .iter()
        .try_for_each(|remedy| ui.line(&format!("    {} {remedy}", paint(GOOD, "hint:"))))
}

fn rebuild(ui: &mut Ui, app: &App) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let bar = ui.bar("{spinner} {msg}");
    let done = store.rebuild(&ctx, &mut |progress| {
        bar.set_message(match progress {
            RebuildProgress::Rehearsing => "trying it on a copy".to_owned(),
            RebuildProgress::Clearing => "emptying the old tables".to_owned(),
            RebuildProgress::Applied(events) => format!("{events} events applied"),
        });
    });
    bar.finish_and_clear();
    let (_, done) = done?;
    if ui.wants_json() {
        ui.json(&json!({ "events": done.events, "commits": done.commits }))?;
    } else {
        let events = figure::counted(usize::try_from(done.events).unwrap_or(usize::MAX), "event");
        ui.note(&format!("the tables were made anew from {events}"));
    }
    Ok(Exit::Ok)
}

fn salvage(ui: &mut Ui, app: &App, target: &Path) -> Result<Exit, CliError> {
    let done = turnstone_store::salvage(app.layout(), target, app.now())?;
    if ui.wants_json() {
        ui.json(&salvage_json(&done))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(&[
        ("TABLE", Column::Text),
        ("READ", Column::Figure),
        ("DAMAGED", Column::Figure),
        ("UNREADABLE", Column::Figure),
    ]);
    let count = |n: u64| figure::count(i64::try_from(n).unwrap_or(i64::MAX));
    for tally in &done.tables {
        let figures = [count(tally.read), count(tally.damaged), count(tally.unreadable)];
        let [read, damaged, unreadable] = figures;
        grid.row(&[tally.table.to_owned(), read, damaged, unreadable]);
    }
    ui.table(&grid)?;
    ui.line("")?;
    ui.line(&format!("{} complete", figure::counted(done.complete.len(), "session")))?;
    for session in &done.damaged {
        let events = usize::try_from(session.events).unwrap_or(usize::MAX);
        let missing = figure::counted(events, "event");
        ui.line(&format!("{} {}: {missing} missing", paint(WARN, "damaged"), session.id))?;
    }
    for id in &done.lost {
        ui.line(&format!("{} {}", paint(BAD, "lost"), text::clean_line(id)))?;
    }
    ui.note(&format!("the damaged files are kept in {}", done.kept.display()));
    ui.hint(&format!("use the new data directory with `--data {}`", done.data.display()));
    Ok(Exit::Ok)
}

fn salvage_json(done: &Salvaged) -> Value {
    let damaged = |session: &turnstone_store::DamagedSession| json!({ "id": session.id, "events": session.events, "openEnd": session.open_end });
    let table = |tally: &turnstone_store::Tally| {
        json!({
            "table": tally.table,
            "read": tally.read,
            "damaged": tally.damaged,
            "unreadable": tally.unreadable,
        })
    };
    json!({
        "data": done.data,
        "kept": done.kept,
        "unreadableBytes": done.unreadable_bytes,
        "tables": done.tables.iter().map(table).collect::<Vec<_>>(),
        "complete": done.complete,
        "damaged": done.damaged.iter().map(damaged).collect::<Vec<_>>(),
        "lost": done.lost,
    })
}
