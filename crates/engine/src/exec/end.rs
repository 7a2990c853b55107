//! Ending: what changed is compared first, then call, message and turn are closed.

use serde_json::json;
use turnstone_core::model::{Failure, FailureKind};
use turnstone_core::turn::Outcome;
use turnstone_process::{Exit, Kept};
use turnstone_store::Context;

use super::begin::Execution;
use super::manner::Manner;
use super::rows;
use crate::call::Closed;
use crate::engine::Engine;
use crate::error::Result;

/// What clients of OpenCode find behind the output of a command that was aborted.
const ABORTED: &str = "\n\n<metadata>\nUser aborted the command\n</metadata>";

/// A command that ran for longer, in milliseconds, is not taken at the journal's word.
const SHORT: i64 = 10_000;

/// How a command came to its end.
#[derive(Debug)]
pub enum CommandEnd {
    /// It ran and ended.
    Exited {
        /// How.
        exit: Exit,
        /// What it wrote; a box, as it is large.
        kept: Box<Kept>,
        /// True if somebody asked for the turn to be aborted.
        aborted: bool,
    },
    /// It was never started: why.
    NotStarted(String),
    /// Nobody knows how it ended, and parts of it may still run: why.
    Lost(String),
}

impl Engine {
    /// Ends the turn of a command and says what it changed; nothing if that is not known yet.
    ///
    /// # Errors
    ///
    /// The capture or the ledger failed; what is left open is closed by recovery.
    pub fn end_exec(
        &self,
        ctx: &Context,
        execution: Execution,
        end: &CommandEnd,
    ) -> Result<Option<Closed>> {
        let ctx = &ctx.settled();
        let Execution { turn, call, manner, began, mut answer, mut part, .. } = execution;
        // Who waited so long does not notice a walk: the journal is compared with one first (R8),
        // and if it missed something the capture walks.
        if let Some(vault) = call.vault.as_ref().filter(|_| ctx.now.since(began) > SHORT) {
            vault.audit(ctx.now).map_err(crate::EngineError::from)?;
        }
        // Whatever still runs writes on: recovery waits for it before it closes the window.
        let closed = match end {
            CommandEnd::Exited { .. } | CommandEnd::NotStarted(_) => {
                Some(self.close_call(ctx, &turn, &call)?)
            }
            CommandEnd::Lost(_) => None,
        };
        let (outcome, failure) = match end {
            CommandEnd::Exited { exit, kept, aborted } => {
                let (output, facts) = said(&manner, *exit, kept, *aborted);
                rows::complete(&mut part, output, &facts, ctx.now);
                rows::finish(&mut answer, &manner, ctx.now);
                let write = move |tx: &turnstone_store::Tx<'_>| {
                    tx.put_part(&part)?;
                    tx.put_message(&answer)
                };
                self.store.write(&turn.context(ctx), write).wait()?;
                match exit {
                    Exit::Code(_) if !aborted => (Outcome::Completed, None),
                    Exit::Code(_) | Exit::Signal(_) => (Outcome::Aborted, None),
                }
            }
            CommandEnd::NotStarted(why) | CommandEnd::Lost(why) => {
                (Outcome::Failed, Some(Failure::new(FailureKind::UnknownError, why)))
            }
        };
        self.end_turn(ctx, &turn, outcome, failure)?;
        Ok(closed)
    }
}

/// What a command said, and what is known of it.
fn said(manner: &Manner, exit: Exit, kept: &Kept, aborted: bool) -> (String, serde_json::Value) {
    let (mut output, mut facts) = (output(kept), facts(exit, kept));
    if matches!(manner, Manner::Shell(_)) {
        if aborted {
            output.push_str(ABORTED);
        }
        facts["output"] = json!(output);
    }
    (output, facts)
}

/// What is shown of the output: its beginning, its end, and how much is missing in between.
fn output(kept: &Kept) -> String {
    let text = kept.text();
    match text.omitted {
        0 => text.head,
        omitted => format!("{}\n… {omitted} bytes left out …\n{}", text.head, text.tail),
    }
}

fn facts(exit: Exit, kept: &Kept) -> serde_json::Value {
    let mut facts = json!({
        "exit": exit.code(),
        "truncated": kept.spilled + kept.lost > 0,
        "bytes": kept.total(),
    });
    if let Exit::Signal(signal) = exit {
        facts["signal"] = json!(signal);
    }
    if let Some(path) = &kept.spill {
        // The bytes between the two ends, as far as they were kept.
        facts["outputPath"] = json!(path);
        facts["lost"] = json!(kept.lost);
    }
    facts
}
