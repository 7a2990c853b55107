//! `turnstone doctor`: checks the data, and repairs it on request.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnstone_process::git_version;
use turnstone_store::{Diagnosis, Finding, RebuildProgress, SalvageReport, Severity};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::trace_probe::TracingState;
use crate::ui::{
    ColumnKind, DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, TextTable, Ui, WARNING_STYLE,
    apply_style,
};

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

/// Maximum width of a finding.
const MAX_FINDING_WIDTH: usize = 200;

/// Checks, rebuilds or salvages.
///
/// # Errors
///
/// The error of the store.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &DoctorArgs) -> Result<ProgramExit, CliError> {
    match &args.salvage {
        Some(target) => salvage(ui, app, target),
        None if args.rebuild => rebuild(ui, app),
        None => examine(ui, app),
    }
}

fn examine(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let seen = turnstone_store::diagnose(app.layout(), app.now());
    if ui.wants_json() {
        let mut report = diagnosis_json(app, &seen);
        report["tracing"] = TracingState::probe(app)?.to_json();
        ui.print_json(&report)?;
    } else {
        print_diagnosis(ui, app, &seen)?;
    }
    Ok(if seen.is_sound() { ProgramExit::Ok } else { ProgramExit::Refused })
}

fn diagnosis_json(app: &CliApp, seen: &Diagnosis) -> Value {
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

fn print_diagnosis(ui: &mut Ui, app: &CliApp, seen: &Diagnosis) -> Result<(), CliError> {
    ui.print_line(&apply_style(
        HEADING_STYLE,
        text::sanitize_line(&app.layout().root().to_string_lossy()),
    ))?;
    let mut grid = TextTable::new(&[("", ColumnKind::Text), ("", ColumnKind::Number)]);
    for (name, bytes) in &seen.sizes {
        grid.add_row(&[format!("  {name}"), number_format::format_size(*bytes)]);
    }
    ui.print_table(&grid)?;
    if let Some(version) = seen.version {
        let events = number_format::format_counted(seen.events, "event");
        ui.print_line(&apply_style(DIM_STYLE, format!("  schema {version}, {events}")))?;
    }
    print_git(ui, app)?;
    let tracing = TracingState::probe(app)?.describe();
    ui.print_line(&apply_style(
        DIM_STYLE,
        format!("  tracing  {}", text::sanitize_line(&tracing)),
    ))?;
    ui.print_line("")?;
    for check in &seen.checks {
        let found: Vec<&Finding> = seen.findings.iter().filter(|f| f.check == *check).collect();
        print_check(ui, check, &found)?;
    }
    for finding in seen.findings.iter().filter(|f| !seen.checks.contains(&f.check)) {
        print_check(ui, finding.check, &[finding])?;
    }
    ui.print_line("")?;
    ui.print_line(match seen.worst() {
        Some(Severity::Error) => "stored data is damaged or missing",
        Some(Severity::Warning) => "no data is lost, but there are warnings",
        Some(Severity::Note) | None => "no problems found",
    })
}

/// Prints the version of git. Only worktrees and `/vcs` need git; the data does not.
fn print_git(ui: &mut Ui, app: &CliApp) -> Result<(), CliError> {
    match git_version(&app.git_environment()) {
        Ok(version) => ui.print_line(&apply_style(
            DIM_STYLE,
            format!("  git  {}", text::sanitize_line(&version)),
        )),
        Err(error) => {
            let what = text::truncate_to_width(
                &text::sanitize_line(&error.to_string()),
                MAX_FINDING_WIDTH,
            );
            ui.print_line(&format!("  {} {what}", severity_mark(Some(Severity::Warning))))?;
            let hint = error
                .hint()
                .map(|hint| format!("    {} {hint}", apply_style(SUCCESS_STYLE, "hint:")));
            hint.map_or(Ok(()), |hint| ui.print_line(&hint))
        }
    }
}

fn severity_mark(worst: Option<Severity>) -> String {
    match worst {
        None | Some(Severity::Note) => apply_style(SUCCESS_STYLE, "✓"),
        Some(Severity::Warning) => apply_style(WARNING_STYLE, "!"),
        Some(Severity::Error) => apply_style(ERROR_STYLE, "✗"),
    }
}

/// What a check looks at, for people; `--json` has the short names.
fn check_label(check: &str) -> &str {
    match check {
        "place" => "data directory",
        "file" => "database file",
        "values" => "long values",
        "files" => "files of long values",
        "texts" => "streamed text",
        other => other,
    }
}

/// Prints a check with its findings, and each remedy once.
fn print_check(ui: &mut Ui, check: &str, found: &[&Finding]) -> Result<(), CliError> {
    let worst = found.iter().map(|finding| finding.severity).max();
    ui.print_line(&format!("{} {}", severity_mark(worst), check_label(check)))?;
    let mut remedies: Vec<&str> = Vec::new();
    for finding in found {
        // SQLite messages can be very long; --json has the whole text.
        let what = text::truncate_to_width(&text::sanitize_line(&finding.what), MAX_FINDING_WIDTH);
        let place = match finding.place.as_str() {
            place if place == check => String::new(),
            place => format!("{}: ", text::sanitize_line(place)),
        };
        ui.print_line(&format!("    {}: {place}{what}", finding.severity.as_str()))?;
        if finding.severity > Severity::Note && !remedies.contains(&finding.remedy) {
            remedies.push(finding.remedy);
        }
    }
    remedies.iter().try_for_each(|remedy| {
        ui.print_line(&format!("    {} {remedy}", apply_style(SUCCESS_STYLE, "hint:")))
    })
}

fn rebuild(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    let bar = ui.progress_bar("{spinner} {msg}");
    let done = store.rebuild(&ctx, &mut |progress| {
        bar.set_message(match progress {
            RebuildProgress::DryRun => "testing on a copy".to_owned(),
            RebuildProgress::Clearing => "clearing the old tables".to_owned(),
            RebuildProgress::Applied(events) => {
                format!("{} applied", number_format::format_counted(events, "event"))
            }
        });
    });
    bar.finish_and_clear();
    let (_, done) = done?;
    if ui.wants_json() {
        ui.print_json(&json!({ "events": done.events, "commits": done.commits }))?;
    } else {
        let events = number_format::format_counted(done.events, "event");
        ui.print_note(&format!("rebuilt the tables from {events}"));
    }
    Ok(ProgramExit::Ok)
}

fn salvage(ui: &mut Ui, app: &CliApp, target: &Path) -> Result<ProgramExit, CliError> {
    let done = turnstone_store::salvage(app.layout(), target, app.now())?;
    if ui.wants_json() {
        ui.print_json(&salvage_json(&done))?;
        return Ok(ProgramExit::Ok);
    }
    let mut grid = TextTable::new(&[
        ("TABLE", ColumnKind::Text),
        ("READ", ColumnKind::Number),
        ("DAMAGED", ColumnKind::Number),
        ("UNREADABLE", ColumnKind::Number),
    ]);
    let count = |n: u64| number_format::format_count(i64::try_from(n).unwrap_or(i64::MAX));
    for counts in &done.tables {
        let figures = [count(counts.read), count(counts.damaged), count(counts.unreadable)];
        let [read, damaged, unreadable] = figures;
        grid.add_row(&[counts.table.to_owned(), read, damaged, unreadable]);
    }
    ui.print_table(&grid)?;
    ui.print_line("")?;
    ui.print_line(&format!(
        "{} complete",
        number_format::format_counted(done.complete.len(), "session")
    ))?;
    for session in &done.damaged {
        let missing = number_format::format_counted(session.events, "event");
        ui.print_line(&format!(
            "{} {}: {missing} missing",
            apply_style(WARNING_STYLE, "damaged"),
            session.id
        ))?;
    }
    for id in &done.lost {
        ui.print_line(&format!(
            "{} {}",
            apply_style(ERROR_STYLE, "lost"),
            text::sanitize_line(id)
        ))?;
    }
    ui.print_note(&format!("the damaged files are kept in {}", done.kept.display()));
    ui.print_hint(&format!("use the new data directory with `--data {}`", done.data.display()));
    Ok(ProgramExit::Ok)
}

fn salvage_json(done: &SalvageReport) -> Value {
    let damaged = |session: &turnstone_store::DamagedSession| json!({ "id": session.id, "events": session.events, "open_end": session.open_end });
    let table = |counts: &turnstone_store::TableSalvageCounts| {
        json!({
            "table": counts.table,
            "read": counts.read,
            "damaged": counts.damaged,
            "unreadable": counts.unreadable,
        })
    };
    json!({
        "data": done.data,
        "kept": done.kept,
        "unreadable_bytes": done.unreadable_bytes,
        "tables": done.tables.iter().map(table).collect::<Vec<_>>(),
        "complete": done.complete,
        "damaged": done.damaged.iter().map(damaged).collect::<Vec<_>>(),
        "lost": done.lost,
    })
}
