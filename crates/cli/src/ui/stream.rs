//! One output stream: buffered, and without colours where they are not wanted.

use std::io::{self, Write};

use anstream::adapter::strip_str;

/// Written out when this much has gathered.
const GATHERED: usize = 64 * 1024;

/// A stream that gathers text and writes it in large pieces.
pub(super) struct Stream {
    sink: Box<dyn Write>,
    pub(super) colour: bool,
    gathered: String,
}

impl Stream {
    pub(super) fn new(sink: Box<dyn Write>, colour: bool) -> Self {
        Self { sink, colour, gathered: String::new() }
    }

    /// Adds text that may have styles in it.
    pub(super) fn push(&mut self, text: &str) -> io::Result<()> {
        self.gathered.push_str(text);
        if self.gathered.len() < GATHERED { Ok(()) } else { self.flush() }
    }

    /// Adds bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.sink.write_all(bytes)
    }

    /// Writes what has gathered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.gathered);
        if self.colour {
            self.sink.write_all(text.as_bytes())?;
        } else {
            for piece in strip_str(&text) {
                self.sink.write_all(piece.as_bytes())?;
            }
        }
        self.sink.flush()
    }
}
