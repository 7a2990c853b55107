//! Exit codes: what a script can tell from the way the program ended.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything asked for was done.
    Ok,
    /// The request was refused, or something it needs is missing.
    Refused,
    /// The command line makes no sense.
    Usage,
    /// Nobody reads the output any more.
    BrokenPipe,
    /// Something else is at work there: try again later, or look first.
    Conflict,
    /// A bug of ours.
    Bug,
    /// What a command that was run for somebody ended with, or why it was not started (R33).
    Of(u8),
}

impl Exit {
    /// The number the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::BrokenPipe => 3,
            Self::Conflict => 4,
            Self::Bug => 70,
            Self::Of(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// What people are asked to do about a bug.
pub(crate) const REPORT: &str =
    "this is a bug in turnstone: please report it with the command you ran and the lines above";

/// Runs the program; a panic becomes [`Exit::Bug`] and a request to report it.
pub(crate) fn guard(run: impl FnOnce() -> Exit) -> Exit {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line()));
        let what = info.payload_as_str().unwrap_or("no message");
        let place = place.unwrap_or_default();
        crate::ui::last_words(&format!("error: internal error: {what}{place}\nhint: {REPORT}\n"));
    }));
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or(Exit::Bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_with_code_70() {
        let exit = guard(|| panic!("on purpose"));
        assert_eq!((exit, exit.code()), (Exit::Bug, 70));
        assert_eq!(guard(|| Exit::Conflict).code(), 4);
    }
}
