//! Ending: what changed is compared first, then call, message and turn are closed.

use serde_json::json;
use turnstone_core::model::{MessageFailure, MessageFailureKind};
use turnstone_core::turn::TurnOutcome;
use turnstone_process::{CommandExit, RecordedOutput};
use turnstone_store::Context;

use super::begin::CommandExecution;
use super::command_messages;
use super::command_origin::CommandOrigin;
use crate::error::Result;
use crate::tool_calls::tracked_call::ClosedCall;
use crate::turns::exec::Commands;

/// What clients of OpenCode find behind the output of a command that was aborted.
const ABORTED: &str = "\n\n<metadata>\nUser aborted the command\n</metadata>";

/// A command that ran for longer, in milliseconds, is not taken at the journal's word.
const JOURNAL_TRUST_MILLIS: i64 = 10_000;

/// How a command came to its end.
#[derive(Debug)]
pub enum CommandEnd {
    /// It ran and ended.
    Exited {
        /// How.
        exit: CommandExit,
        /// What it wrote; a box, as it is large.
        kept: Box<RecordedOutput>,
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
    /// The capture or the ledger failed; what is left open is closed by recovery.
    pub fn end(
        &self,
        ctx: &Context,
        execution: CommandExecution,
        end: &CommandEnd,
    ) -> Result<Option<ClosedCall>> {
        let ctx = &ctx.without_expected_seq();
        let CommandExecution { turn, call, origin, began, mut answer, mut part, .. } = execution;
        // Who waited so long does not notice a walk: the journal is compared with one first (R8),
        // and if it missed something the capture walks.
        if let Some(handle) =
            call.snapshots.as_ref().filter(|_| ctx.now.since(began) > JOURNAL_TRUST_MILLIS)
        {
            handle.maintenance().audit_journal(ctx.now).map_err(crate::EngineError::from)?;
        }
        // What still runs keeps writing: recovery waits for it before it closes the window.
        let (closed, sets) = match end {
            CommandEnd::Exited { .. } | CommandEnd::NotStarted(_) => {
                let (closed, sets) = self.calls.compare(ctx, &turn, &call)?;
                (Some(closed), sets)
            }
            CommandEnd::Lost(_) => (None, Vec::new()),
        };
        let mut rows = None;
        let outcome = match end {
            CommandEnd::Exited { exit, kept, aborted } => {
                let (output, facts) = render_result(&origin, *exit, kept, *aborted);
                command_messages::complete_call(&mut part, output, &facts, ctx.now);
                command_messages::complete_answer(&mut answer, &origin, ctx.now);
                rows = Some((part, answer));
                match exit {
                    CommandExit::Code(_) if !aborted => (TurnOutcome::Completed, None),
                    CommandExit::Code(_) | CommandExit::Signal(_) => (TurnOutcome::Aborted, None),
                }
            }
            CommandEnd::NotStarted(why) | CommandEnd::Lost(why) => (
                TurnOutcome::Failed,
                Some(MessageFailure::new(MessageFailureKind::UnknownError, why)),
            ),
        };
        let write = move |tx: &turnstone_store::Tx<'_>| {
            if let Some((part, answer)) = &rows {
                tx.messages().put_part(part)?;
                tx.messages().put(answer)?;
            }
            Ok(())
        };
        self.lifecycle.end_with(ctx, &turn, outcome, sets, write)?;
        Ok(closed)
    }
}

/// What a command said, and what is known of it.
fn render_result(
    origin: &CommandOrigin,
    exit: CommandExit,
    kept: &RecordedOutput,
    aborted: bool,
) -> (String, serde_json::Value) {
    let (mut output, mut facts) = (format_output(kept), output_metadata(exit, kept));
    if matches!(origin, CommandOrigin::Shell(_)) {
        if aborted {
            output.push_str(ABORTED);
        }
        facts["output"] = json!(output);
    }
    (output, facts)
}

/// What is shown of the output: its beginning, its end, and how much is missing in between.
fn format_output(kept: &RecordedOutput) -> String {
    let text = kept.text();
    match text.omitted {
        0 => text.head,
        omitted => format!("{}\n… {omitted} bytes left out …\n{}", text.head, text.tail),
    }
}

fn output_metadata(exit: CommandExit, kept: &RecordedOutput) -> serde_json::Value {
    let mut facts = json!({
        "exit": exit.code(),
        "truncated": kept.spilled + kept.lost > 0,
        "bytes": kept.total(),
    });
    if let CommandExit::Signal(signal) = exit {
        facts["signal"] = json!(signal);
    }
    if let Some(path) = &kept.spill {
        // The bytes between the two ends, as far as they were kept.
        facts["outputPath"] = json!(path);
        facts["lost"] = json!(kept.lost);
    }
    facts
}
