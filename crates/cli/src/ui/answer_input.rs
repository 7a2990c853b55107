//! Standard input of a command that goes on while it waits for an answer.

use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};

/// Longer lines are cut here.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Lines that a person types.
#[derive(Default)]
pub(super) struct AnswerInput {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl AnswerInput {
    /// Forgets what was typed so far.
    pub(super) fn discard_typed(&mut self) {
        self.bytes.clear();
        if let Err(error) = tcflush(io::stdin(), QueueSelector::IFlush) {
            tracing::debug!("the input of the terminal could not be discarded: {error}");
        }
    }

    /// Returns the next line, if it is there within `wait`; an empty one at the end of the input.
    pub(super) fn poll_line(&mut self, wait: Duration) -> io::Result<Option<String>> {
        if let Some(line) = self.take_line() {
            return Ok(Some(line));
        }
        if !self.has_ended && is_readable(wait)? {
            let mut buffer = [0; 4096];
            let count = rustix::io::read(io::stdin(), &mut buffer)?;
            self.has_ended = count == 0;
            self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
        }
        Ok(self.take_line())
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n');
        let is_cut = self.has_ended || self.bytes.len() > MAX_LINE_BYTES;
        let end = match end {
            Some(end) => end + 1,
            None if is_cut => self.bytes.len(),
            None => return None,
        };
        let line: Vec<u8> = self.bytes.drain(..end).collect();
        Some(String::from_utf8_lossy(&line).trim().to_owned())
    }
}

fn is_readable(wait: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut wanted, Some(&limit)) {
        Ok(count) => Ok(count > 0),
        // A signal came; the caller looks.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads all text of standard input; `None` if it is a terminal.
pub(super) fn read_piped_text(limit: usize) -> io::Result<Option<String>> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    stdin.lock().take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        let message = format!("it is longer than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))
}
