//! Signals that end this program while it waits for git, for programs that do not listen to them.
//!
//! Git has a process group of its own, so neither Ctrl-C in a terminal nor a signal to this program
//! reaches it. Where [`end_git_on_signals`] was called, git and its temporary folders go first.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::cancellation::end_git_commands;
use crate::signal::{SignalGuard, TERMINATION_SIGNALS, count_listeners};

static OBEYS: AtomicBool = AtomicBool::new(false);

/// Makes a signal that ends this program end its git commands first.
///
/// For programs that do not listen to signals themselves; others call [`end_git_commands`] at their end.
pub fn end_git_on_signals() {
    OBEYS.store(true, Ordering::Relaxed);
}

/// Listens until it is dropped.
#[derive(Debug)]
pub(super) struct InterruptListener(SignalGuard);

impl InterruptListener {
    /// `None` unless the program asked for it.
    pub(super) fn start() -> io::Result<Option<Self>> {
        if !OBEYS.load(Ordering::Relaxed) {
            return Ok(None);
        }
        SignalGuard::new(&TERMINATION_SIGNALS).map(|guard| Some(Self(guard)))
    }

    /// Ends git and then this program, if a signal has come that asks for it.
    pub(super) fn obey(&self) {
        let signal = self.0.take_pending().first().copied();
        // Another listener, such as that of a command in the foreground, decides itself.
        let Some(signal) = signal.filter(|_| count_listeners() == 1) else { return };
        end_git_commands();
        // Returns only if the system refuses; then the command that was ended is an error.
        signal_hook::low_level::emulate_default_handler(signal).ok();
    }
}

impl AsFd for InterruptListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
