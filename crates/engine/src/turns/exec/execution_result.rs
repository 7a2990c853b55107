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

/// How a command ended, and its exit code.
#[derive(Debug)]
pub struct ExecutionResult {
    /// How.
    pub end: CommandEnd,
    /// The exit code to return for the command.
    pub code: i32,
    /// Processes that were left running.
    pub left_running: usize,
    /// Processes that outlived the command and were ended.
    pub ended_orphans: usize,
}

impl ExecutionResult {
    /// The result of an attached command; `aborted` if an abort was requested. Without a recorder its output is
    /// not stored.
    #[must_use]
    pub fn from_outcome(
        ended: Result<AttachOutcome, AttachError>,
        recorder: Option<OutputRecorder>,
        aborted: bool,
    ) -> Self {
        let kept = recorder.map(|recorder| Box::new(recorder.finish()));
        let (exit, left, ended_orphans) = match ended {
            Ok(AttachOutcome { exit, left, ended, .. }) => (exit, left, ended),
            // It was ended with its supervisor: nothing of it runs any more.
            Err(AttachError::SupervisorDied) => (CommandExit::Signal(9), 0, 0),
            Err(error @ (AttachError::MayStillRun(_) | AttachError::Io(_))) => {
                let end = CommandEnd::Lost(error.to_string());
                return Self { end, code: NOT_STARTED_CODE, left_running: 0, ended_orphans: 0 };
            }
        };
        Self {
            end: CommandEnd::Exited { exit, kept, aborted },
            code: exit.code(),
            left_running: left,
            ended_orphans,
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
        let end = CommandEnd::NotStarted(words);
        Self { end, code: NOT_STARTED_CODE, left_running: 0, ended_orphans: 0 }
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
        options: AttachOptions<'_>,
    ) -> (Result<AttachOutcome, AttachError>, bool) {
        let (control, over) = (running.control(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let listening = scope.spawn(|| {
                // If the log cannot be read, the command continues.
                let asked = self.aborts.wait(ctx, turn, &over).unwrap_or(false);
                // A supervisor that is gone has taken the command along.
                asked && control.end().is_ok()
            });
            let ended = running.attach(options);
            self.aborts.cancel_wait(&over);
            (ended, listening.join().unwrap_or(false))
        })
    }
}
