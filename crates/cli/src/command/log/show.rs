//! The timeline for people.

use turnstone_core::change::Evidence;
use turnstone_core::model::Session;
use turnstone_core::operation::OperationKind;
use turnstone_core::time::Millis;
use turnstone_engine::OperationReport;

use super::read::{Entry, FileEntry, ForkEntry, OperationEntry, TurnEntry};
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
    forks: &[ForkEntry],
) -> Result<(), CliError> {
    let title = text::clean_line(&session.title);
    ui.line(&format!("{}  {}", paint(NAME, &session.id), paint(HEAD, title)))?;
    if let Some(origin) = &session.origin {
        let at = origin.message.as_ref().map(|at| format!(", before {at}")).unwrap_or_default();
        ui.line(&paint(DIM, format!("  forked from {}{at}", origin.session)))?;
    }
    if entries.is_empty() {
        ui.note("nothing has happened in this session yet");
    }
    for entry in entries {
        match entry {
            Entry::Turn(turn) => print_turn(ui, now, turn)?,
            Entry::Operation(operation) => print_operation(ui, now, operation)?,
        }
    }
    if !forks.is_empty() {
        ui.line("")?;
    }
    for fork in forks {
        let at = fork.origin.as_ref().and_then(|origin| origin.message.as_ref());
        let at = at.map(|at| format!("  before {at}")).unwrap_or_default();
        let title = text::clean_line(&fork.title);
        let id = paint(NAME, &fork.id);
        ui.line(&format!("{} {id}  {title}{}", paint(HEAD, "fork"), paint(DIM, at)))?;
    }
    Ok(())
}

/// Lines added and removed by a whole turn; nothing if no file has figures.
fn turn_figures(turn: &TurnEntry) -> String {
    let known = turn.files.iter().filter_map(|file| Some((file.additions?, file.deletions?)));
    let (mut plus, mut minus, mut any) = (0, 0, false);
    for (added, removed) in known {
        (plus, minus, any) = (plus + added, minus + removed, true);
    }
    match any && turn.files.len() > 1 {
        true => format!(
            "  {}, {} {}",
            figure::counted(turn.files.len(), "file"),
            paint(GOOD, format!("+{plus}")),
            paint(BAD, format!("-{minus}"))
        ),
        false => String::new(),
    }
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
    let (id, sum) = (paint(NAME, &turn.id), turn_figures(turn));
    let gone = if turn.expired.is_some() { "  (undo expired)" } else { "" };
    let marks = paint(DIM, format!("{marks}{gone}"));
    ui.line(&format!("{id}  {when}  {state}{marks}{sum}"))?;
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
    let guards = operation.guards.iter().map(ToString::to_string);
    let about: Vec<String> = turns.into_iter().chain(guards).collect();
    let of = if about.is_empty() { String::new() } else { format!(" of {}", about.join(", ")) };
    let kind = match operation.kind {
        OperationKind::Expire if !operation.guards.is_empty() => paint(WARN, "guard expired"),
        OperationKind::Expire => paint(WARN, "undo expired"),
        OperationKind::Undo
        | OperationKind::Redo
        | OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Forget => paint(HEAD, operation.kind.as_str()),
    };
    let name = match (&operation.name, operation.given_up) {
        (Some(name), false) => format!("  {}", paint(NAME, text::clean_line(name))),
        (Some(name), true) => format!("  {} given up", text::clean_line(name)),
        (None, _) => String::new(),
    };
    ui.line("")?;
    ui.line(&format!("{}  {when}  {kind}{name}{of}", paint(DIM, &operation.id)))?;
    let words = match (&operation.report, operation.kind, operation.done) {
        (Some(report), ..) => sum(report),
        (None, OperationKind::Undo | OperationKind::Redo | OperationKind::Jump, false) => {
            "cut off".to_owned()
        }
        (None, ..) => return Ok(()),
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
