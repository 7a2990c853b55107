//! From the end of a process to the end of its turn.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use turnstone_process::{
    AttachError, AttachOptions, AttachOutcome, CommandExit, OutputRecorder, RunningCommand,
    StartError,
};
use turnstone_store::Context;

use super::end::CommandEnd;
use crate::turns::exec::Commands;
use crate::turns::turn::Turn;

/// Our own failure before the start (R33).
const NOT_STARTED_CODE: i32 = 125;

/// How a command came to its end, and the code that says so.
#[derive(Debug)]
pub struct ExecutionResult {
    /// How.
    pub end: CommandEnd,
    /// The exit code to return for the command.
    pub code: i32,
    /// Processes that were left running.
    pub left_running: usize,
}

impl ExecutionResult {
    /// The result of an attached command; `aborted` if an abort was requested.
    #[must_use]
    pub fn from_outcome(
        ended: Result<AttachOutcome, AttachError>,
        recorder: OutputRecorder,
        aborted: bool,
    ) -> Self {
        let kept = Box::new(recorder.finish());
        let (exit, left) = match ended {
            Ok(AttachOutcome { exit, left, .. }) => (exit, left),
            // It was ended with its supervisor: nothing of it runs any more.
            Err(AttachError::SupervisorDied) => (CommandExit::Signal(9), 0),
            Err(error @ (AttachError::MayStillRun(_) | AttachError::Io(_))) => {
                let end = CommandEnd::Lost(error.to_string());
                return Self { end, code: NOT_STARTED_CODE, left_running: 0 };
            }
        };
        Self {
            end: CommandEnd::Exited { exit, kept, aborted },
            code: exit.code(),
            left_running: left,
        }
    }

    /// A command that was refused by the supervisor or the system.
    #[must_use]
    pub fn start_refused(error: &StartError) -> Self {
        Self { code: error.exit_code(), ..Self::not_started(error) }
    }

    /// A command that never ran, for a reason that is not its own.
    #[must_use]
    pub fn not_started(error: &dyn Error) -> Self {
        let mut words = error.to_string();
        if let Some(cause) = error.source() {
            words = format!("{words}: {cause}");
        }
        Self { end: CommandEnd::NotStarted(words), code: NOT_STARTED_CODE, left_running: 0 }
    }
}

impl Commands {
    /// Waits for a command; ends it if an abort of its turn is requested (R45), and says
    /// whether that was so.
    pub fn attach(
        &self,
        ctx: &Context,
        turn: &Turn,
        running: RunningCommand,
        attend: AttachOptions<'_>,
    ) -> (Result<AttachOutcome, AttachError>, bool) {
        let (control, over) = (running.control(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let listening = scope.spawn(|| {
                // If the log cannot be read, the command continues.
                let asked = self.aborts.wait(ctx, turn, &over).unwrap_or(false);
                // A supervisor that is gone has taken the command along.
                asked && control.end().is_ok()
            });
            let ended = running.attach(attend);
            self.aborts.cancel_wait(&over);
            (ended, listening.join().unwrap_or(false))
        })
    }
}
