//! Exit codes for scripts.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// Result of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramExit {
    /// Success.
    Ok,
    /// The request was refused, or something it needs is missing.
    Refused,
    /// Invalid usage.
    Usage,
    /// The reader of the output closed the pipe.
    BrokenPipe,
    /// The session is busy, or a file has changed in the meantime.
    Conflict,
    /// Internal error.
    Bug,
    /// Exit code of the command run by `exec`, or why it was not started (R33).
    CommandCode(u8),
}

impl ProgramExit {
    /// Numeric exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::BrokenPipe => 3,
            Self::Conflict => 4,
            Self::Bug => 70,
            Self::CommandCode(code) => code,
        }
    }
}

impl ProgramExit {
    /// What kind of error this is, for programs that read errors as JSON.
    pub(crate) const fn error_kind(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Conflict => "conflict",
            Self::Bug => "bug",
            Self::Ok | Self::Refused | Self::BrokenPipe | Self::CommandCode(_) => "refused",
        }
    }
}

impl From<ProgramExit> for ExitCode {
    fn from(exit: ProgramExit) -> Self {
        Self::from(exit.code())
    }
}

/// Hint printed with internal errors.
pub(crate) const BUG_REPORT_HINT: &str =
    "this is a bug in Turnstone; please report it with the command and the messages above";

/// Runs the program; a panic becomes [`ProgramExit::Bug`] and a request to report it.
pub(crate) fn catch_panics(run: impl FnOnce() -> ProgramExit) -> ProgramExit {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line()));
        let what = info.payload_as_str().unwrap_or("no message");
        let place = place.unwrap_or_default();
        crate::ui::print_panic_message(&format!(
            "error: internal error: {what}{place}\nhint: {BUG_REPORT_HINT}\n"
        ));
    }));
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(ProgramExit::Bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_exits_with_code_70() {
        let exit = catch_panics(|| panic!("on purpose"));
        assert_eq!((exit, exit.code()), (ProgramExit::Bug, 70));
        assert_eq!(catch_panics(|| ProgramExit::Conflict).code(), 4);
    }
}
