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
    /// The exit code of whoever stands for the command.
    pub code: i32,
    /// Processes that were left running.
    pub left_running: usize,
}

impl ExecutionResult {
    /// A command that was attended to; `aborted` if somebody asked for its end.
    #[must_use]
    pub fn from_outcome(
        ended: Result<AttachOutcome, AttachError>,
        keeper: OutputRecorder,
        aborted: bool,
    ) -> Self {
        let kept = Box::new(keeper.finish());
        let (exit, left) = match ended {
            Ok(AttachOutcome { exit, left, .. }) => (exit, left),
            // It was ended with its supervisor: nobody writes any more.
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
    /// Stays with a command; ends it if somebody asks for its turn to be aborted (R45), and says
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
                // Who cannot read the log cannot hear the wish; the command goes on as it is.
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
