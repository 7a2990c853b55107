//! The user's terminal: whether there is one, its size, and raw mode, which is always restored.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use crate::pty::TerminalSize;

/// The terminal the user sits at.
#[derive(Debug)]
pub struct StdioTerminal {
    fd: OwnedFd,
}

impl StdioTerminal {
    /// Returns the terminal of these streams, or `None` if one of them is not a terminal.
    ///
    /// # Errors
    ///
    /// When the descriptor cannot be duplicated.
    pub fn find(input: impl AsFd, output: impl AsFd) -> io::Result<Option<Self>> {
        if !isatty(&input) || !isatty(&output) {
            return Ok(None);
        }
        Ok(Some(Self { fd: input.as_fd().try_clone_to_owned()? }))
    }

    /// Its size now.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub fn size(&self) -> io::Result<TerminalSize> {
        let size = tcgetwinsize(&self.fd)?;
        Ok(TerminalSize { rows: size.ws_row, columns: size.ws_col })
    }

    /// Switches to raw mode until the guard is dropped.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub fn enter_raw_mode(&self) -> io::Result<RawMode> {
        let saved = tcgetattr(&self.fd)?;
        tcsetattr(&self.fd, OptionalActions::Now, &to_raw(&saved))?;
        Ok(RawMode { fd: self.fd.try_clone()?, saved })
    }
}

impl AsFd for StdioTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Raw mode of a terminal. Dropping it restores the previous mode.
#[derive(Debug)]
pub struct RawMode {
    fd: OwnedFd,
    saved: Termios,
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes.
        tcsetattr(&self.fd, OptionalActions::Now, &self.saved).ok();
    }
}

/// What the supervisor knows of the terminal outside, for an owner that dies in raw mode.
pub(crate) struct OuterTerminal {
    fd: OwnedFd,
    saved: Termios,
    raw: bool,
}

impl OuterTerminal {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let saved = tcgetattr(&fd)?;
        Ok(Self { fd, saved, raw: false })
    }

    pub(crate) fn set_raw(&mut self, raw: bool) {
        self.raw = raw;
    }

    /// Restores the terminal, unless another program has changed it since.
    pub(crate) fn restore(&self) {
        let untouched =
            tcgetattr(&self.fd).is_ok_and(|now| is_same_modes(&now, &to_raw(&self.saved)));
        if self.raw && untouched {
            tcsetattr(&self.fd, OptionalActions::Now, &self.saved).ok();
        }
    }
}

fn to_raw(modes: &Termios) -> Termios {
    let mut raw = modes.clone();
    raw.make_raw();
    raw
}

fn is_same_modes(one: &Termios, other: &Termios) -> bool {
    one.input_modes == other.input_modes
        && one.output_modes == other.output_modes
        && one.local_modes == other.local_modes
}
