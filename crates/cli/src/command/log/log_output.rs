//! Prints the timeline.

use turnstone_core::change::Evidence;
use turnstone_core::model::Session;
use turnstone_core::operation::OperationKind;
use turnstone_core::time::EpochMillis;
use turnstone_engine::OperationReport;

use super::log_entries::{LogEntry, LogFile, LogFork, LogOperation, LogTurn};
use crate::error::CliError;
use crate::number_format;
use crate::text;
use crate::time_format;
use crate::ui::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, ID_STYLE, SUCCESS_STYLE, Ui, WARNING_STYLE, apply_style,
};

/// Maximum number of listed files per turn.
const MAX_LISTED_FILES: usize = 20;
/// Width of a prompt if the terminal width is unknown.
const DEFAULT_PROMPT_WIDTH: usize = 100;

/// Prints session and entries.
pub(super) fn print_log(
    ui: &mut Ui,
    now: EpochMillis,
    session: &Session,
    entries: &[LogEntry],
    forks: &[LogFork],
) -> Result<(), CliError> {
    let title = text::sanitize_line(&session.title);
    ui.print_line(&format!(
        "{}  {}",
        apply_style(ID_STYLE, &session.id),
        apply_style(HEADING_STYLE, title)
    ))?;
    if let Some(origin) = &session.origin {
        let at = origin.message.as_ref().map(|at| format!(", before {at}")).unwrap_or_default();
        ui.print_line(&apply_style(DIM_STYLE, format!("  forked from {}{at}", origin.session)))?;
    }
    if entries.is_empty() {
        ui.print_note("this session has no turns yet");
    }
    for entry in entries {
        match entry {
            LogEntry::Turn(turn) => print_turn(ui, now, turn)?,
            LogEntry::Operation(operation) => print_operation(ui, now, operation)?,
        }
    }
    if !forks.is_empty() {
        ui.print_line("")?;
    }
    for fork in forks {
        let at = fork.origin.as_ref().and_then(|origin| origin.message.as_ref());
        let at = at.map(|at| format!("  before {at}")).unwrap_or_default();
        let title = text::sanitize_line(&fork.title);
        let id = apply_style(ID_STYLE, &fork.id);
        ui.print_line(&format!(
            "{} {id}  {title}{}",
            apply_style(HEADING_STYLE, "fork"),
            apply_style(DIM_STYLE, at)
        ))?;
    }
    Ok(())
}

/// Lines added and removed by a turn; empty without line counts.
fn format_line_counts(turn: &LogTurn) -> String {
    let known = turn.files.iter().filter_map(|file| Some((file.additions?, file.deletions?)));
    let (mut plus, mut minus, mut any) = (0, 0, false);
    for (added, removed) in known {
        (plus, minus, any) = (plus + added, minus + removed, true);
    }
    match any && turn.files.len() > 1 {
        true => format!(
            "  {}, {} {}",
            number_format::format_counted(turn.files.len(), "file"),
            apply_style(SUCCESS_STYLE, format!("+{plus}")),
            apply_style(ERROR_STYLE, format!("-{minus}"))
        ),
        false => String::new(),
    }
}

fn print_turn(ui: &mut Ui, now: EpochMillis, turn: &LogTurn) -> Result<(), CliError> {
    let when =
        turn.started.map_or_else(|| "-".to_owned(), |at| time_format::format_local_time(at, now));
    let state = match turn.state.as_str() {
        "completed" => apply_style(SUCCESS_STYLE, "completed"),
        "running" | "accepted" | "waiting" => apply_style(WARNING_STYLE, &turn.state),
        other => apply_style(ERROR_STYLE, other),
    };
    let undone = !turn.files.is_empty() && turn.files.iter().all(|file| file.undone);
    let marks = match (turn.hidden, undone) {
        (true, _) => "  (abandoned by a later prompt)",
        (false, true) => "  (undone)",
        (false, false) => "",
    };
    ui.print_line("")?;
    let (id, sum) = (apply_style(ID_STYLE, &turn.id), format_line_counts(turn));
    let gone = if turn.expired.is_some() { "  (undo expired)" } else { "" };
    let marks = apply_style(DIM_STYLE, format!("{marks}{gone}"));
    ui.print_line(&format!("{id}  {when}  {state}{marks}{sum}"))?;
    let width = ui.width().unwrap_or(DEFAULT_PROMPT_WIDTH).saturating_sub(2).max(20);
    ui.print_line(&format!(
        "  {}",
        text::truncate_to_width(turn.prompt.as_deref().unwrap_or("…"), width)
    ))?;
    for file in turn.files.iter().take(MAX_LISTED_FILES) {
        print_file(ui, file, undone)?;
    }
    if turn.files.len() > MAX_LISTED_FILES {
        let more = number_format::format_counted(turn.files.len() - MAX_LISTED_FILES, "more file");
        ui.print_line(&apply_style(DIM_STYLE, format!("    … {more} (--json lists all)")))?;
    }
    if turn.not_covered > 0 {
        let count = number_format::format_counted(turn.not_covered, "path");
        ui.print_line(&apply_style(
            WARNING_STYLE,
            format!("    {count} not recorded: cannot be undone"),
        ))?;
    }
    Ok(())
}

fn print_file(ui: &mut Ui, file: &LogFile, all_undone: bool) -> Result<(), CliError> {
    let line_counts = match (file.additions, file.deletions) {
        (Some(plus), Some(minus)) => {
            format!(
                "{} {}",
                apply_style(SUCCESS_STYLE, format!("+{plus}")),
                apply_style(ERROR_STYLE, format!("-{minus}"))
            )
        }
        _ => String::new(),
    };
    let evidence = match file.evidence {
        Evidence::Named => "",
        Evidence::Window => "  window",
        Evidence::Recovered => "  recovered",
    };
    let undone = if file.undone && !all_undone { "  undone" } else { "" };
    let path = text::sanitize_line(&file.path.to_string());
    let marks = apply_style(DIM_STYLE, format!("{evidence}{undone}"));
    ui.print_line(&format!("    {}  {path}  {line_counts}{marks}", file.status))
}

fn print_operation(
    ui: &mut Ui,
    now: EpochMillis,
    operation: &LogOperation,
) -> Result<(), CliError> {
    let when = time_format::format_local_time(operation.time.0, now);
    let turns: Vec<String> = operation.turns.iter().map(ToString::to_string).collect();
    let guards = operation.guards.iter().map(ToString::to_string);
    let about: Vec<String> = turns.into_iter().chain(guards).collect();
    let of = if about.is_empty() { String::new() } else { format!(" of {}", about.join(", ")) };
    let kind = match operation.kind {
        OperationKind::Expire if !operation.guards.is_empty() => {
            apply_style(WARNING_STYLE, "redo data expired")
        }
        OperationKind::Expire => apply_style(WARNING_STYLE, "undo expired"),
        OperationKind::Undo
        | OperationKind::Redo
        | OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Forget => apply_style(HEADING_STYLE, operation.kind.as_str()),
    };
    let name = match (&operation.name, operation.given_up) {
        (Some(name), false) => format!("  {}", apply_style(ID_STYLE, text::sanitize_line(name))),
        (Some(name), true) => format!("  {} removed", text::sanitize_line(name)),
        (None, _) => String::new(),
    };
    ui.print_line("")?;
    ui.print_line(&format!("{}  {when}  {kind}{name}{of}", apply_style(DIM_STYLE, &operation.id)))?;
    let words = match (&operation.report, operation.kind, operation.done) {
        (Some(report), ..) => summarize_report(report),
        (None, OperationKind::Undo | OperationKind::Redo | OperationKind::Jump, false) => {
            "interrupted".to_owned()
        }
        (None, ..) => return Ok(()),
    };
    ui.print_line(&format!("    {words}"))
}

fn summarize_report(report: &OperationReport) -> String {
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
    let words = ["restored", "removed", "merged", "skipped", "not recorded"];
    let list: Vec<String> = counts
        .iter()
        .zip(words)
        .filter(|(count, _)| **count > 0)
        .map(|(count, word)| format!("{} {word}", number_format::format_count(*count)))
        .collect();
    if list.is_empty() { "no file had to change".to_owned() } else { list.join(", ") }
}
