//! From the end of a process to the end of its turn.

use std::error::Error;

use turnstone_process::{AttendError, Exit, Keeper, Outcome, StartError};

use super::end::CommandEnd;

/// Our own failure before the start (R33).
const NOT_BEGUN: i32 = 125;

/// How a command came to its end, and the code that says so.
#[derive(Debug)]
pub struct Ran {
    /// How.
    pub end: CommandEnd,
    /// The exit code of whoever stands for the command.
    pub code: i32,
    /// Processes that were left running.
    pub left: usize,
}

impl Ran {
    /// A command that was attended to; `aborted` if somebody asked for its end.
    #[must_use]
    pub fn ended(ended: Result<Outcome, AttendError>, keeper: Keeper, aborted: bool) -> Self {
        let kept = Box::new(keeper.finish());
        let (exit, left) = match ended {
            Ok(Outcome { exit, left, .. }) => (exit, left),
            // It was ended with its supervisor: nobody writes any more.
            Err(AttendError::SupervisorDied) => (Exit::Signal(9), 0),
            Err(error @ (AttendError::Loose(_) | AttendError::Io(_))) => {
                let end = CommandEnd::Lost(error.to_string());
                return Self { end, code: NOT_BEGUN, left: 0 };
            }
        };
        Self { end: CommandEnd::Exited { exit, kept, aborted }, code: exit.code(), left }
    }

    /// A command that was refused by the supervisor or the system.
    #[must_use]
    pub fn refused(error: &StartError) -> Self {
        Self { code: error.exit_code(), ..Self::not_begun(error) }
    }

    /// A command that never ran, for a reason that is not its own.
    #[must_use]
    pub fn not_begun(error: &dyn Error) -> Self {
        let mut words = error.to_string();
        if let Some(cause) = error.source() {
            words = format!("{words}: {cause}");
        }
        Self { end: CommandEnd::NotStarted(words), code: NOT_BEGUN, left: 0 }
    }
}
