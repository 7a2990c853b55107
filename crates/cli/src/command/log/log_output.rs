//! Prints the timeline.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::Evidence;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_core::operation::OperationKind;
use turnstone_core::time::EpochMillis;
use turnstone_engine::{Engine, OperationReport};
use turnstone_store::{Context, ProjectTurnRow};

use super::log_entries::{LogEntry, LogFile, LogFork, LogOperation, LogTurn};
use super::turn_numbers::unique_length;
use crate::error::CliError;
use crate::number_format;
use crate::text;
use crate::time_format;
use crate::trace_text::count_foreign_changes;
use crate::ui::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, ID_STYLE, SUCCESS_STYLE, Ui, WARNING_STYLE, apply_style,
};

/// Maximum number of listed files per turn.
const MAX_LISTED_FILES: usize = 20;
/// Width if the width of the terminal is unknown.
const DEFAULT_WIDTH: usize = 80;
/// Narrowest layout.
const MIN_WIDTH: usize = 40;
/// Turns that an operation names.
const MAX_NAMED_TURNS: usize = 3;

/// What all entries are printed with.
pub(super) struct LogPrintContext {
    now: EpochMillis,
    /// Sessions by ID.
    sessions: BTreeMap<SessionId, Session>,
    /// Shown length of the IDs of turns and of operations.
    turn_id_length: usize,
    operation_id_length: usize,
}

impl LogPrintContext {
    /// Reads the sessions of the entries, and finds how many characters tell the IDs apart.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub(super) fn new(
        engine: &Engine,
        ctx: &Context,
        now: EpochMillis,
        (all, shown): (&[ProjectTurnRow], &[ProjectTurnRow]),
        entries: &[LogEntry],
    ) -> Result<Self, CliError> {
        let mut sessions = BTreeMap::new();
        for id in entries.iter().map(session_of) {
            if !sessions.contains_key(id) {
                let session = engine.store().read(ctx, |r| r.sessions().get(id))?;
                sessions.insert(id.clone(), session);
            }
        }
        let turns = all.iter().chain(shown).map(|row| row.turn.id.as_str());
        let operations = entries.iter().filter_map(|entry| match entry {
            LogEntry::Operation(operation) => Some(operation.id.as_str()),
            LogEntry::Turn(_) => None,
        });
        Ok(Self {
            now,
            sessions,
            turn_id_length: unique_length(turns),
            operation_id_length: unique_length(operations),
        })
    }

    fn short_turn_id<'i>(&self, id: &'i TurnId) -> &'i str {
        id.as_str().get(..self.turn_id_length).unwrap_or(id.as_str())
    }

    fn short_operation_id<'i>(&self, id: &'i OperationId) -> &'i str {
        id.as_str().get(..self.operation_id_length).unwrap_or(id.as_str())
    }
}

const fn session_of(entry: &LogEntry) -> &SessionId {
    match entry {
        LogEntry::Turn(turn) => &turn.session,
        LogEntry::Operation(operation) => &operation.session,
    }
}

fn line_width(ui: &Ui) -> usize {
    ui.width().unwrap_or(DEFAULT_WIDTH).max(MIN_WIDTH)
}

/// Prints entries, newest first, below the sessions they belong to; of a named session also its forks.
pub(super) fn print_log(
    ui: &mut Ui,
    layout: &LogPrintContext,
    named: Option<(&Session, &[LogFork])>,
    entries: &[LogEntry],
) -> Result<(), CliError> {
    if let Some((session, _)) = named {
        print_session(ui, session)?;
    }
    if entries.is_empty() {
        ui.print_note(match named {
            Some(_) => "this session has no turns yet",
            None => "this project has no turns yet",
        });
    }
    let mut last = named.map(|(session, _)| &session.id);
    for entry in entries.iter().rev() {
        let id = session_of(entry);
        if last != Some(id) {
            if last.is_some() {
                ui.print_line("")?;
            }
            if let Some(session) = layout.sessions.get(id) {
                print_session(ui, session)?;
            }
            last = Some(id);
        }
        match entry {
            LogEntry::Turn(turn) => print_turn(ui, layout, turn)?,
            LogEntry::Operation(operation) => print_operation(ui, layout, operation)?,
        }
    }
    print_forks(ui, named.map_or(&[], |(_, forks)| forks))
}

fn print_session(ui: &mut Ui, session: &Session) -> Result<(), CliError> {
    let room = line_width(ui).saturating_sub(text::display_width(session.id.as_str()) + 2);
    let title = text::truncate_to_width(&text::sanitize_line(&session.title), room);
    ui.print_line(&format!(
        "{}  {}",
        apply_style(ID_STYLE, &session.id),
        apply_style(HEADING_STYLE, title)
    ))?;
    let Some(origin) = &session.origin else { return Ok(()) };
    let at = origin.message.as_ref().map(|at| format!(", before {at}")).unwrap_or_default();
    ui.print_line(&apply_style(DIM_STYLE, format!("  forked from {}{at}", origin.session)))
}

fn print_forks(ui: &mut Ui, forks: &[LogFork]) -> Result<(), CliError> {
    if !forks.is_empty() {
        ui.print_line("")?;
    }
    for fork in forks {
        let room = line_width(ui).saturating_sub("fork   ".len() + fork.id.as_str().len());
        let title = text::truncate_to_width(&text::sanitize_line(&fork.title), room);
        let id = apply_style(ID_STYLE, &fork.id);
        ui.print_line(&format!("{} {id}  {title}", apply_style(HEADING_STYLE, "fork")))?;
        if let Some(at) = fork.origin.as_ref().and_then(|origin| origin.message.as_ref()) {
            ui.print_line(&apply_style(DIM_STYLE, format!("  before {at}")))?;
        }
    }
    Ok(())
}

/// Totals of a turn, with and without style.
struct LineTotals {
    styled: String,
    plain_width: usize,
}

/// Lines added and removed by a turn; empty without line counts.
fn format_line_counts(turn: &LogTurn) -> LineTotals {
    let known = turn.files.iter().filter_map(|file| Some((file.additions?, file.deletions?)));
    let (mut plus, mut minus, mut any) = (0, 0, false);
    for (added, removed) in known {
        (plus, minus, any) = (plus + added, minus + removed, true);
    }
    if !any || turn.files.len() < 2 {
        return LineTotals { styled: String::new(), plain_width: 0 };
    }
    let files = number_format::format_counted(turn.files.len(), "file");
    let (plus, minus) = (format!("+{plus}"), format!("-{minus}"));
    let plain_width = text::display_width(&format!("  {files}, {plus} {minus}"));
    let (plus, minus) = (apply_style(SUCCESS_STYLE, plus), apply_style(ERROR_STYLE, minus));
    LineTotals { styled: format!("  {files}, {plus} {minus}"), plain_width }
}

fn print_turn(ui: &mut Ui, layout: &LogPrintContext, turn: &LogTurn) -> Result<(), CliError> {
    let is_undone = turn.is_behind_head
        || (!turn.files.is_empty() && turn.files.iter().all(|file| file.undone));
    print_turn_heading(ui, layout, turn, is_undone)?;
    let prompt = turn.prompt.as_deref().unwrap_or("…");
    let width = line_width(ui);
    ui.print_line(&format!("  {}", text::truncate_to_width(prompt, width.saturating_sub(2))))?;
    // A turn whose files are all known in the same way is the usual case and needs no remark.
    let kinds: BTreeSet<Evidence> = turn.files.iter().map(|file| file.evidence).collect();
    let name_windows = kinds.len() > 1;
    for file in turn.files.iter().take(MAX_LISTED_FILES) {
        print_file(ui, file, is_undone, name_windows)?;
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
    print_traces(ui, turn)
}

/// Prints what the traces of a turn tell besides its changes.
fn print_traces(ui: &mut Ui, turn: &LogTurn) -> Result<(), CliError> {
    let foreign: u64 = turn.traces.iter().map(|trace| trace.others.count()).sum();
    if foreign > 0 {
        let files = count_foreign_changes(foreign);
        ui.print_line(&apply_style(DIM_STYLE, format!("    {files} left alone")))?;
    }
    if turn.background {
        let line =
            "    processes that it left running go on; their changes are recorded when they end";
        ui.print_line(&apply_style(DIM_STYLE, line))?;
    }
    for why in turn.traces.iter().filter_map(|trace| trace.untraced.as_ref()) {
        let why = text::sanitize_line(why);
        let line = format!("    not traced, so changes by others may be among these: {why}");
        ui.print_line(&apply_style(DIM_STYLE, line))?;
    }
    Ok(())
}

/// Number, ID, time, state and totals of a turn.
fn print_turn_heading(
    ui: &mut Ui,
    layout: &LogPrintContext,
    turn: &LogTurn,
    is_undone: bool,
) -> Result<(), CliError> {
    let when = turn
        .started
        .map_or_else(|| "-".to_owned(), |at| time_format::format_local_time(at, layout.now));
    let (state, style) = match turn.state.as_str() {
        state @ "completed" => (state, SUCCESS_STYLE),
        state @ ("running" | "accepted" | "waiting") => (state, WARNING_STYLE),
        state => (state, ERROR_STYLE),
    };
    let word = match (&turn.signal, turn.exit_code) {
        (Some(signal), _) => format!("{state} ({signal})"),
        // An aborted command ends with whatever code it likes.
        (None, Some(code)) if state == "failed" => format!("{state} (exit code {code})"),
        (None, _) => state.to_owned(),
    };
    let marks = match (turn.hidden, is_undone) {
        (true, _) => "  (abandoned by a later prompt)",
        (false, true) => "  (undone)",
        (false, false) if turn.imported => "  (imported)",
        (false, false) => "",
    };
    let gone = if turn.expired.is_some() { "  (undo expired)" } else { "" };
    let number = turn.number.map(|number| format!("@{number}  ")).unwrap_or_default();
    let (id, sum) = (layout.short_turn_id(&turn.id), format_line_counts(turn));
    let plain = format!("{number}{id}  {when}  {word}{marks}{gone}");
    let fits = text::display_width(&plain) + sum.plain_width <= line_width(ui);
    let (here, below) = if fits { (sum.styled.as_str(), "") } else { ("", sum.styled.as_str()) };
    ui.print_line("")?;
    ui.print_line(&format!(
        "{}{}  {when}  {}{}{here}",
        apply_style(HEADING_STYLE, &number),
        apply_style(ID_STYLE, id),
        apply_style(style, word),
        apply_style(DIM_STYLE, format!("{marks}{gone}")),
    ))?;
    if below.is_empty() { Ok(()) } else { ui.print_line(&format!("  {}", below.trim_start())) }
}

fn print_file(
    ui: &mut Ui,
    file: &LogFile,
    all_undone: bool,
    name_windows: bool,
) -> Result<(), CliError> {
    let (counts, counts_width) = match (file.additions, file.deletions) {
        (Some(plus), Some(minus)) => {
            let (plus, minus) = (format!("+{plus}"), format!("-{minus}"));
            let width = plus.len() + minus.len() + 3;
            let (plus, minus) = (apply_style(SUCCESS_STYLE, plus), apply_style(ERROR_STYLE, minus));
            (format!("  {plus} {minus}"), width)
        }
        _ => (String::new(), 0),
    };
    let evidence = match file.evidence {
        Evidence::Window if name_windows => "  window",
        Evidence::Traced if name_windows => "  traced",
        Evidence::Named | Evidence::Window | Evidence::Traced => "",
        Evidence::Recovered => "  recovered",
        Evidence::Imported => "  imported",
    };
    let undone = if file.undone && !all_undone { "  undone" } else { "" };
    let marks = format!("{evidence}{undone}");
    let room = line_width(ui).saturating_sub("    M  ".len() + counts_width + marks.len());
    let path = text::truncate_start(&text::sanitize_line(&file.path.to_string()), room);
    let marks = apply_style(DIM_STYLE, marks);
    ui.print_line(&format!("    {}  {path}{counts}{marks}", file.status))
}

fn print_operation(
    ui: &mut Ui,
    layout: &LogPrintContext,
    operation: &LogOperation,
) -> Result<(), CliError> {
    let when = time_format::format_local_time(operation.time.0, layout.now);
    let turns = operation.turns.iter().map(|turn| layout.short_turn_id(turn).to_owned());
    let guards = operation.guards.iter().map(|id| layout.short_operation_id(id).to_owned());
    let mut about: Vec<String> = turns.chain(guards).collect();
    if about.len() > MAX_NAMED_TURNS {
        let more = format!("{} more", about.len() - MAX_NAMED_TURNS);
        about.truncate(MAX_NAMED_TURNS);
        about.push(more);
    }
    let of = if about.is_empty() { String::new() } else { format!(" of {}", about.join(", ")) };
    let (word, style) = match operation.kind {
        OperationKind::Expire if !operation.guards.is_empty() => {
            ("redo data expired", WARNING_STYLE)
        }
        OperationKind::Expire => ("undo expired", WARNING_STYLE),
        OperationKind::Undo
        | OperationKind::Redo
        | OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Forget => (operation.kind.as_str(), HEADING_STYLE),
    };
    let id = layout.short_operation_id(&operation.id);
    let used = text::display_width(&format!("{id}  {when}  {word}"));
    let room = line_width(ui).saturating_sub(used);
    let name = match (&operation.name, operation.given_up) {
        (Some(name), false) => format!("  {}", text::sanitize_line(name)),
        (Some(name), true) => format!("  {} removed", text::sanitize_line(name)),
        (None, _) => String::new(),
    };
    let rest = text::truncate_to_width(&format!("{name}{of}"), room);
    ui.print_line("")?;
    let (id, word) = (apply_style(DIM_STYLE, id), apply_style(style, word));
    ui.print_line(&format!("{id}  {when}  {word}{rest}"))?;
    if let Some(leader) = &operation.leader {
        let leader = layout.short_operation_id(leader);
        return ui.print_line(&format!("    its files with {leader}"));
    }
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
    counts[4] += report.not_covered.len() + report.outside.len();
    let words = ["restored", "removed", "merged", "skipped", "not recorded"];
    let list: Vec<String> = counts
        .iter()
        .zip(words)
        .filter(|(count, _)| **count > 0)
        .map(|(count, word)| format!("{} {word}", number_format::format_count(*count)))
        .collect();
    if list.is_empty() { "no file changed".to_owned() } else { list.join(", ") }
}
