//! The end of a run: what changed, how to undo it, what it cost, and how it ended.

use std::collections::BTreeSet;

use turnstone_core::time::LogCursor;
use turnstone_core::turn::TurnState;
use turnstone_engine::{Engine, Turn};
use turnstone_store::Context;

use super::run_follower::RunReport;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::ui::Ui;

/// Files that are named.
const MAX_NAMED_FILES: usize = 5;
/// 128 and the number of the signal of Ctrl-C.
const EXIT_INTERRUPTED: u8 = 130;

/// Prints the end of a run and returns its exit code.
///
/// # Errors
///
/// The model or the configuration failed, or a call was refused because nobody could be asked.
pub(super) fn finish_run(
    ui: &mut Ui,
    (engine, ctx): (&Engine, &Context),
    turn: &Turn,
    begun: LogCursor,
    report: &RunReport,
) -> Result<ProgramExit, CliError> {
    let store = engine.store();
    let turns = store.read(ctx, |r| r.turns().list(&turn.session))?;
    let state = turns.iter().find(|row| row.id == turn.id).map(|row| row.state);
    print_changes(ui, engine, ctx, begun, report)?;
    ui.print_dim_note(&format!(
        "turnstone: session {} · {}",
        turn.session,
        report.usage.describe()
    ));
    match state {
        Some(TurnState::Completed) => {}
        Some(TurnState::Aborted | TurnState::Interrupted) if report.signals > 0 => {
            ui.print_note(
                "turnstone: the run was ended; `turnstone run --continue PROMPT` goes on",
            );
            return Ok(ProgramExit::CommandCode(EXIT_INTERRUPTED));
        }
        Some(
            TurnState::Accepted
            | TurnState::Running
            | TurnState::Waiting
            | TurnState::Failed
            | TurnState::Aborted
            | TurnState::Interrupted,
        )
        | None => return Err(failure_error(report)),
    }
    if report.refused.is_empty() {
        return Ok(ProgramExit::Ok);
    }
    Err(CliError::Refused {
        what: format!("refused, because nobody could be asked: {}", report.refused.join("; ")),
        hint: Some(
            "run it in a terminal, add `--auto`, or allow it with `turnstone permission set`"
                .to_owned(),
        ),
    })
}

/// Names the files that this run has changed, its subagents included.
fn print_changes(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    begun: LogCursor,
    report: &RunReport,
) -> Result<(), CliError> {
    let mut files = BTreeSet::new();
    for session in &report.sessions {
        let sets = engine.store().read(ctx, |r| r.change_sets().list(session))?;
        for row in sets.iter().filter(|row| row.opened > begun && row.set.outer.is_none()) {
            files.extend(row.set.changes.iter().map(|change| change.path.to_string()));
        }
    }
    if files.is_empty() {
        return Ok(());
    }
    let named: Vec<String> =
        files.iter().take(MAX_NAMED_FILES).map(|path| text::sanitize_line(path)).collect();
    let more = match files.len().saturating_sub(MAX_NAMED_FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = number_format::format_counted(files.len(), "file");
    ui.print_note(&format!(
        "turnstone: {count} changed: {}{more}; `turnstone undo` undoes this",
        named.join(", ")
    ));
    Ok(())
}

/// Why the prompt has no answer.
fn failure_error(report: &RunReport) -> CliError {
    let message = report.failure.as_ref().and_then(|failure| failure.data.get("message"));
    let message = message.and_then(serde_json::Value::as_str);
    CliError::Refused {
        what: match message {
            Some(message) => format!("the run failed: {message}"),
            None => "the run ended before the prompt was answered".to_owned(),
        },
        hint: Some("`turnstone run --continue PROMPT` goes on from here".to_owned()),
    }
}
