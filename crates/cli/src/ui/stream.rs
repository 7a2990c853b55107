//! One output stream: buffered, coloured where that is wanted, and safe where it is a terminal.
//!
//! The only place where text and bytes become output. On a terminal every unsafe character of the
//! data is shown instead of sent; the styles of this program are marks that data cannot hold. A
//! pipe or a file gets the data as it is.

use std::io::{self, Write};

use anstream::adapter::strip_str;

use super::style::{Span, spans};
use crate::config::Surroundings;
use crate::text::{escape_bytes_for_terminal, escape_for_terminal};

/// Written out when this much has gathered.
const GATHERED: usize = 64 * 1024;

/// A stream that gathers text and writes it in large pieces.
pub(super) struct Stream {
    sink: Box<dyn Write>,
    target: Surroundings,
    gathered: String,
}

impl Stream {
    pub(super) fn new(sink: Box<dyn Write>, target: Surroundings) -> Self {
        Self { sink, target, gathered: String::new() }
    }

    /// True if styles are shown.
    pub(super) const fn has_colour(&self) -> bool {
        self.target.colour
    }

    /// Adds text that may have marks of styles in it.
    pub(super) fn push(&mut self, text: &str) -> io::Result<()> {
        self.gathered.push_str(text);
        if self.gathered.len() < GATHERED { Ok(()) } else { self.flush() }
    }

    /// Adds bytes of data.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        if self.target.terminal {
            self.sink.write_all(escape_bytes_for_terminal(bytes).as_bytes())
        } else {
            self.sink.write_all(bytes)
        }
    }

    /// Adds text of this program alone, with its ANSI styles: help, never anything a caller gave.
    pub(super) fn own(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        if self.target.colour {
            return self.sink.write_all(text.as_bytes());
        }
        strip_str(text).try_for_each(|piece| self.sink.write_all(piece.as_bytes()))
    }

    /// Writes what has gathered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.gathered);
        for span in spans(&text) {
            match span {
                Span::Data(data) if self.target.terminal => {
                    self.sink.write_all(escape_for_terminal(data).as_bytes())?;
                }
                Span::Data(data) => self.sink.write_all(data.as_bytes())?,
                Span::Style(style) if self.target.colour => {
                    write!(self.sink, "{}", style.render())?;
                }
                Span::Reset if self.target.colour => {
                    write!(self.sink, "{}", anstyle::Reset.render())?;
                }
                Span::Style(_) | Span::Reset => {}
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
