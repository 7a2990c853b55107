//! The timeline for people.

use turnstone_core::change::Evidence;
use turnstone_core::model::Session;
use turnstone_core::operation::OperationKind;
use turnstone_core::time::Millis;
use turnstone_engine::OperationReport;

use super::read::{Entry, FileEntry, OperationEntry, TurnEntry};
use crate::error::CliError;
use crate::figure;
use crate::moment;
use crate::text;
use crate::ui::{BAD, DIM, GOOD, HEAD, NAME, Ui, WARN, paint};

/// Files of one turn that are listed.
const SHOWN: usize = 20;
/// Columns of a prompt that is shown where nobody says how wide the screen is.
const PROMPT: usize = 100;

/// Prints session and entries.
pub(super) fn print(
    ui: &mut Ui,
    now: Millis,
    session: &Session,
    entries: &[Entry],
) -> Result<(), CliError> {
    let title = text::clean_line(&session.title);
    ui.line(&format!("{}  {}", paint(NAME, &session.id), paint(HEAD, title)))?;
    if entries.is_empty() {
        ui.note("nothing has happened in this session yet");
    }
    for entry in entries {
        match entry {
            Entry::Turn(turn) => print_turn(ui, now, turn)?,
            Entry::Operation(operation) => print_operation(ui, now, operation)?,
        }
    }
    Ok(())
}

fn print_turn(ui: &mut Ui, now: Millis, turn: &TurnEntry) -> Result<(), CliError> {
    let when = turn.started.map_or_else(|| "-".to_owned(), |at| moment::near(at, now));
    let state = match turn.state.as_str() {
        "completed" => paint(GOOD, "completed"),
        "running" | "accepted" | "waiting" => paint(WARN, &turn.state),
        other => paint(BAD, other),
    };
    let undone = !turn.files.is_empty() && turn.files.iter().all(|file| file.undone);
    let marks = match (turn.hidden, undone) {
        (true, _) => "  (left behind by a later prompt)",
        (false, true) => "  (undone)",
        (false, false) => "",
    };
    ui.line("")?;
    let gone = if turn.expired.is_some() { "  (undo expired)" } else { "" };
    let marks = format!("{marks}{gone}");
    ui.line(&format!("{}  {when}  {state}{}", paint(NAME, &turn.id), paint(DIM, marks)))?;
    let width = ui.width().unwrap_or(PROMPT).saturating_sub(2).max(20);
    ui.line(&format!("  {}", text::cut(turn.prompt.as_deref().unwrap_or("…"), width)))?;
    for file in turn.files.iter().take(SHOWN) {
        print_file(ui, file, undone)?;
    }
    if turn.files.len() > SHOWN {
        let more = figure::counted(turn.files.len() - SHOWN, "more file");
        ui.line(&paint(DIM, format!("    … {more} (--json lists all)")))?;
    }
    if turn.not_covered > 0 {
        let count = figure::count(turn.not_covered);
        ui.line(&paint(WARN, format!("    {count} not covered: undo cannot take them back")))?;
    }
    Ok(())
}

fn print_file(ui: &mut Ui, file: &FileEntry, all_undone: bool) -> Result<(), CliError> {
    let figures = match (file.additions, file.deletions) {
        (Some(plus), Some(minus)) => {
            format!("{} {}", paint(GOOD, format!("+{plus}")), paint(BAD, format!("-{minus}")))
        }
        _ => String::new(),
    };
    let evidence = match file.evidence {
        Evidence::Named => "",
        Evidence::Window => "  window",
        Evidence::Recovered => "  recovered",
    };
    let undone = if file.undone && !all_undone { "  undone" } else { "" };
    let path = text::clean_line(&file.path.to_string());
    let marks = paint(DIM, format!("{evidence}{undone}"));
    ui.line(&format!("    {}  {path}  {figures}{marks}", file.status))
}

fn print_operation(ui: &mut Ui, now: Millis, operation: &OperationEntry) -> Result<(), CliError> {
    let when = moment::near(operation.time.0, now);
    let turns: Vec<String> = operation.turns.iter().map(ToString::to_string).collect();
    let of = if turns.is_empty() { String::new() } else { format!(" of {}", turns.join(", ")) };
    let kind = if operation.kind == OperationKind::Expire {
        paint(WARN, "undo expired")
    } else {
        paint(HEAD, operation.kind.as_str())
    };
    ui.line("")?;
    ui.line(&format!("{}  {when}  {kind}{of}", paint(DIM, &operation.id)))?;
    let words = match (&operation.report, operation.kind) {
        (Some(report), _) => sum(report),
        (None, OperationKind::Undo | OperationKind::Redo) => "cut off".to_owned(),
        (None, _) => return Ok(()),
    };
    ui.line(&format!("    {words}"))
}

fn sum(report: &OperationReport) -> String {
    let mut counts = [0; 5];
    for root in &report.roots {
        let report = &root.report;
        counts[0] += report.restored.len();
        counts[1] += report.removed.len();
        counts[2] += report.merged.len();
        counts[3] += report.conflicts.len();
        counts[4] += report.not_covered.len();
    }
    counts[3] += report.contended.len();
    counts[4] += report.not_covered.len();
    let words = ["restored", "removed", "merged", "left alone", "not covered"];
    let list: Vec<String> = counts
        .iter()
        .zip(words)
        .filter(|(count, _)| **count > 0)
        .map(|(count, word)| format!("{} {word}", figure::count(*count)))
        .collect();
    if list.is_empty() { "no file had to change".to_owned() } else { list.join(", ") }
}
