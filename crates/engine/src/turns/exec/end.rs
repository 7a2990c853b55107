//! Ending: what changed is compared first, then call, message and turn are closed.

use serde_json::json;
use turnstone_core::id::PartId;
use turnstone_core::model::{MessageFailure, MessageFailureKind};
use turnstone_core::terminal_text::strip_terminal_codes;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_process::{CommandExit, RecordedOutput, signal_name};
use turnstone_store::{CloseChangeSet, Context, NewChangeSet};

use super::begin::CommandExecution;
use super::command_messages;
use super::command_origin::CommandOrigin;
use super::other_worktrees::WorktreeComparison;
use crate::error::Result;
use crate::tool_calls::tracked_call::{CallComparison, ClosedCall, TrackedCall};
use crate::turns::exec::Commands;
use crate::turns::turn::Turn;

/// What clients of OpenCode find behind the output of a command that was aborted.
const ABORTED: &str = "\n\n<metadata>\nUser aborted the command\n</metadata>";

/// A command that ran for longer, in milliseconds, is not taken at the journal's word.
const JOURNAL_TRUST_MILLIS: i64 = 10_000;

/// The signals that a terminal sends: it was closed (`SIGHUP`), or a person pressed a key (`SIGINT`, `SIGQUIT`).
const TERMINAL_SIGNALS: [i32; 3] = [1, 2, 3];

/// How a command came to its end.
#[derive(Debug)]
pub enum CommandEnd {
    /// It ran and ended.
    Exited {
        /// How.
        exit: CommandExit,
        /// What it wrote, if that is to be stored; a box, as it is large.
        kept: Option<Box<RecordedOutput>>,
        /// True if an abort of the turn was requested.
        aborted: bool,
    },
    /// It was never started: why.
    NotStarted(String),
    /// It is unknown how it ended, and parts of it may still run: why.
    Lost(String),
}

impl Commands {
    /// Ends the turn of a command and says what it changed; nothing if that is not known yet.
    ///
    /// # Errors
    ///
    /// The capture failed: the turn has ended, and recovery finds out what it changed. Or the database
    /// failed: if that may pass, the end of the turn is stored by a later recovery of this process.
    pub fn end(
        &self,
        ctx: &Context,
        execution: CommandExecution,
        end: &CommandEnd,
    ) -> Result<Option<ClosedCall>> {
        let ctx = &ctx.without_expected_seq();
        let CommandExecution { turn, call, origin, began, mut answer, mut part, others, .. } =
            execution;
        // What still runs keeps writing: recovery waits for it before it closes the window.
        let (closed, sets) = match end {
            CommandEnd::Exited { .. } | CommandEnd::NotStarted(_) => {
                // The turn ends in any case: a window without a turn is closed by recovery.
                match self.compare_at_end(ctx, &turn, &call, began) {
                    Ok((mut closed, sets)) => {
                        let comparison = WorktreeComparison { commands: self };
                        let place = (&turn, &part.id);
                        comparison.close_all(ctx, place, &call, others, &mut closed);
                        (Ok(Some(closed)), sets)
                    }
                    Err(error) => (Err(error), Vec::new()),
                }
            }
            CommandEnd::Lost(_) => (Ok(None), Vec::new()),
        };
        let continuation = find_continuation(&closed, &part.id);
        let mut rows = None;
        let outcome = match end {
            CommandEnd::Exited { exit, kept, aborted } => {
                let (output, facts) = render_result(&origin, *exit, kept.as_deref(), *aborted);
                command_messages::complete_call(&mut part, output, &facts, ctx.now);
                command_messages::complete_answer(&mut answer, &origin, ctx.now);
                rows = Some((part, answer));
                turn_outcome(&origin, *exit, *aborted)
            }
            CommandEnd::NotStarted(why) | CommandEnd::Lost(why) => (
                TurnOutcome::Failed,
                Some(MessageFailure::new(MessageFailureKind::UnknownError, why)),
            ),
        };
        let session = turn.session.clone();
        let write = move |tx: &turnstone_store::Tx<'_>| {
            // The window of the processes that go on opens with the end of the command's.
            continuation
                .iter()
                .try_for_each(|next| tx.change_sets().open(&session, next).map(drop))?;
            if let Some((part, answer)) = &rows {
                tx.messages().put_part(part)?;
                tx.messages().put(answer)?;
            }
            Ok(())
        };
        self.lifecycle.end_with(ctx, &turn, outcome, sets, write)?;
        if let Ok(Some(closed)) = &closed {
            CallComparison(&self.calls).remove_traces(&call, closed);
        }
        closed
    }

    /// Finds out what a command changed.
    pub(super) fn compare_at_end(
        &self,
        ctx: &Context,
        turn: &Turn,
        call: &TrackedCall,
        began: EpochMillis,
    ) -> Result<(ClosedCall, Vec<CloseChangeSet>)> {
        fail::fail_point!("engine::compare_command", |_| Err(
            std::io::Error::other("failed").into()
        ));
        // Who waited so long does not notice a walk: the journal is compared with one first (R8),
        // and if it missed something the capture walks.
        if let Some(handle) =
            call.snapshots.as_ref().filter(|_| ctx.now.since(began) > JOURNAL_TRUST_MILLIS)
        {
            handle.maintenance().audit_journal(ctx.now).map_err(crate::EngineError::from)?;
        }
        CallComparison(&self.calls).compare(ctx, turn, call)
    }
}

/// The change set of the processes that a command has left running.
fn find_continuation(closed: &Result<Option<ClosedCall>>, part: &PartId) -> Option<NewChangeSet> {
    closed.as_ref().ok()?.as_ref()?.continuation_for(part)
}

/// How the turn of a command that ran has ended.
///
/// For a client of OpenCode the tool has done its work, whatever the code. A command in its own name that exits with
/// another code than 0 has failed, and so has one that a signal ended, unless a person did that at its terminal.
fn turn_outcome(
    origin: &CommandOrigin,
    exit: CommandExit,
    aborted: bool,
) -> (TurnOutcome, Option<MessageFailure>) {
    match (exit, origin) {
        (CommandExit::Code(code), CommandOrigin::Exec) if !aborted && code != 0 => {
            let why = format!("the command exited with code {code}");
            let failure = MessageFailure::new(MessageFailureKind::UnknownError, &why);
            (TurnOutcome::Failed, Some(failure))
        }
        (CommandExit::Signal(signal), CommandOrigin::Exec)
            if !aborted && !TERMINAL_SIGNALS.contains(&signal) =>
        {
            let why = format!("the command was ended by {}", signal_name(signal));
            let failure = MessageFailure::new(MessageFailureKind::UnknownError, &why);
            (TurnOutcome::Failed, Some(failure))
        }
        (CommandExit::Code(_), _) if !aborted => (TurnOutcome::Completed, None),
        (CommandExit::Code(_) | CommandExit::Signal(_), _) => (TurnOutcome::Aborted, None),
    }
}

/// What a command said, and what is known of it.
fn render_result(
    origin: &CommandOrigin,
    exit: CommandExit,
    kept: Option<&RecordedOutput>,
    aborted: bool,
) -> (String, serde_json::Value) {
    let mut facts = json!({ "exit": exit.code() });
    if let CommandExit::Signal(signal) = exit {
        facts["signal"] = json!(signal);
    }
    let mut output = match kept {
        Some(kept) => {
            add_output_metadata(&mut facts, kept);
            format_output(origin, kept)
        }
        None => {
            facts["outputStored"] = json!(false);
            String::new()
        }
    };
    if matches!(origin, CommandOrigin::Shell(_)) {
        if aborted {
            output.push_str(ABORTED);
        }
        facts["output"] = json!(output);
    }
    (output, facts)
}

/// What is shown of the output: its beginning, its end, and how much is missing in between.
///
/// Of a command in its own name the words are stored, without what steers a terminal; clients of OpenCode get what
/// the command wrote.
fn format_output(origin: &CommandOrigin, kept: &RecordedOutput) -> String {
    let mut text = kept.text();
    if matches!(origin, CommandOrigin::Exec) {
        text.head = strip_terminal_codes(&text.head).into_owned();
        text.tail = strip_terminal_codes(&text.tail).into_owned();
    }
    match text.omitted {
        0 => text.head,
        omitted => format!("{}\n… {omitted} bytes left out …\n{}", text.head, text.tail),
    }
}

fn add_output_metadata(facts: &mut serde_json::Value, kept: &RecordedOutput) {
    facts["truncated"] = json!(kept.spilled + kept.lost > 0);
    facts["bytes"] = json!(kept.total());
    if let Some(path) = &kept.spill {
        // The bytes between the two ends, if they were kept.
        facts["outputPath"] = json!(path);
        facts["lost"] = json!(kept.lost);
    }
}
