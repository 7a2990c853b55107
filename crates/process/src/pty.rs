//! A terminal for a command: the end that the owner reads and writes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::deadline::Deadline;
use crate::terminal::StdioTerminal;

/// How many characters a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// The owner's end of a terminal that a command runs in.
#[derive(Debug)]
pub struct Pty {
    master: OwnedFd,
}

impl Pty {
    /// Makes a terminal of this size; its modes are those of the terminal outside, if there is one.
    pub(crate) fn open(
        size: TerminalSize,
        outside: Option<&StdioTerminal>,
    ) -> io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = open(name.as_c_str(), flags, Mode::empty())?;
        if let Some(outside) = outside {
            tcsetattr(&slave, OptionalActions::Now, &tcgetattr(outside)?)?;
        }
        let pty = Self { master };
        pty.resize(size)?;
        Ok((pty, slave))
    }

    /// Another handle to the same end.
    ///
    /// # Errors
    ///
    /// When there are too many descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { master: self.master.try_clone()? })
    }

    /// Types into the terminal.
    ///
    /// # Errors
    ///
    /// When the terminal is gone, or takes nothing more until the command reads.
    pub fn write_input(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = rustix::io::retry_on_intr(|| rustix::io::write(&self.master, bytes))?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Types as much as the terminal takes without waiting; the number of bytes it took.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) while the command does not read, and when the terminal is gone.
    pub fn write_available(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(&self.master, bytes))?)
    }

    /// Waits until the terminal takes input again or is gone, at most this long.
    ///
    /// # Errors
    ///
    /// When the system cannot wait.
    pub fn wait_for_room(&self, timeout: Duration) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.master, PollFlags::OUT)];
        match poll(&mut fds, Deadline::after(timeout).timespec().as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives the terminal another size; the command's foreground group receives SIGWINCH.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, size)?)
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
