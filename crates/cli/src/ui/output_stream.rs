//! One output stream: buffered, optionally coloured, escaped on terminals.
//!
//! The only module that writes output. On a terminal, unsafe characters in data are escaped; styles are
//! marks that data cannot contain. Pipes and files get the data unchanged.

use std::io::{self, Write};

use anstream::adapter::strip_str;

use super::style::{StyledSpan, split_spans};
use crate::environment::StreamTarget;
use crate::text::{escape_bytes_for_terminal, escape_for_terminal};

/// Buffer size that triggers a write.
const FLUSH_THRESHOLD: usize = 64 * 1024;

/// A buffered stream.
pub(super) struct OutputStream {
    sink: Box<dyn Write>,
    target: StreamTarget,
    buffer: String,
}

impl OutputStream {
    pub(super) fn new(sink: Box<dyn Write>, target: StreamTarget) -> Self {
        Self { sink, target, buffer: String::new() }
    }

    /// True if styles are written.
    pub(super) const fn has_colour(&self) -> bool {
        self.target.colour
    }

    /// Adds text that may contain style marks.
    pub(super) fn push_styled(&mut self, text: &str) -> io::Result<()> {
        self.buffer.push_str(text);
        if self.buffer.len() < FLUSH_THRESHOLD { Ok(()) } else { self.flush() }
    }

    /// Adds bytes of data.
    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        if self.target.terminal {
            self.sink.write_all(escape_bytes_for_terminal(bytes).as_bytes())
        } else {
            self.sink.write_all(bytes)
        }
    }

    /// Adds trusted text with ANSI styles: help pages, never text from users or files.
    pub(super) fn write_own_ansi(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        if self.target.colour {
            return self.sink.write_all(text.as_bytes());
        }
        strip_str(text).try_for_each(|piece| self.sink.write_all(piece.as_bytes()))
    }

    /// Writes the buffer.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.buffer);
        for span in split_spans(&text) {
            match span {
                StyledSpan::Data(data) if self.target.terminal => {
                    self.sink.write_all(escape_for_terminal(data).as_bytes())?;
                }
                StyledSpan::Data(data) => self.sink.write_all(data.as_bytes())?,
                StyledSpan::Style(style) if self.target.colour => {
                    write!(self.sink, "{}", style.render())?;
                }
                StyledSpan::Reset if self.target.colour => {
                    write!(self.sink, "{}", anstyle::Reset.render())?;
                }
                StyledSpan::Style(_) | StyledSpan::Reset => {}
            }
        }
        self.sink.flush()
    }
}

/// Standard error for the log: one write is one event.
pub(crate) struct LogWriter {
    is_terminal: bool,
}

impl LogWriter {
    /// A writer that escapes if the log goes to a terminal.
    pub(crate) const fn new(is_terminal: bool) -> Self {
        Self { is_terminal }
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        if self.is_terminal {
            stderr.write_all(escape_bytes_for_terminal(bytes).as_bytes())?;
        } else {
            stderr.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
