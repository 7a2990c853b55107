//! What is kept of a command's output: its beginning, its end, and a file with what lies between.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;

/// Which stream a piece of output came from. A terminal has only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputSource {
    /// Standard output, or the terminal.
    Stdout,
    /// Standard error, where it is apart.
    Stderr,
}

/// How much is kept where (R33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes of the beginning kept in memory.
    pub head: usize,
    /// Bytes of the end kept in memory.
    pub tail: usize,
    /// Bytes between the two written to the file; the rest is counted.
    pub spill: u64,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { head: 64 << 10, tail: 64 << 10, spill: 16 << 20 }
    }
}

/// Bytes in order of arrival, and which stream each came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputBytes {
    bytes: VecDeque<u8>,
    /// Lengths of stretches from one stream; neighbours differ.
    runs: VecDeque<(OutputSource, usize)>,
}

impl OutputBytes {
    /// The bytes as they came.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.iter().copied().collect()
    }

    /// Stretches in order of arrival: which stream, and how many bytes of it.
    pub fn runs(&self) -> impl Iterator<Item = (OutputSource, usize)> + '_ {
        self.runs.iter().copied()
    }

    fn push(&mut self, source: OutputSource, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend(bytes);
        match self.runs.back_mut() {
            Some((last, length)) if *last == source => *length += bytes.len(),
            _ => self.runs.push_back((source, bytes.len())),
        }
    }

    /// Takes bytes off the front.
    fn shift(&mut self, count: usize) -> Vec<u8> {
        let bytes: Vec<u8> = self.bytes.drain(..count.min(self.bytes.len())).collect();
        let mut left = bytes.len();
        while left > 0 {
            let Some((_, length)) = self.runs.front_mut() else { break };
            let taken = left.min(*length);
            *length -= taken;
            left -= taken;
            if *length == 0 {
                self.runs.pop_front();
            }
        }
        bytes
    }
}

/// Keeps output within fixed bounds, however much comes.
#[derive(Debug)]
pub struct OutputRecorder {
    limits: OutputLimits,
    head: OutputBytes,
    tail: OutputBytes,
    spill: SpillFile,
    totals: [u64; 2],
    /// Bytes that are neither in memory nor in the file.
    lost: u64,
}

impl OutputRecorder {
    /// Keeps output; what does not fit goes to a file at `spill`, made when it is first needed.
    pub fn new(limits: OutputLimits, spill: Option<PathBuf>) -> Self {
        Self {
            limits,
            head: OutputBytes::default(),
            tail: OutputBytes::default(),
            spill: SpillFile { path: spill, file: None, written: 0, error: None },
            totals: [0; 2],
            lost: 0,
        }
    }

    /// Takes the next piece of output. A file that cannot be written costs its bytes, nothing else.
    pub fn push(&mut self, source: OutputSource, bytes: &[u8]) {
        let total = &mut self.totals[usize::from(source == OutputSource::Stderr)];
        *total = total.saturating_add(bytes.len() as u64);
        let room = if self.tail.bytes.is_empty() {
            self.limits.head.saturating_sub(self.head.bytes.len())
        } else {
            0
        };
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.push(source, first);
        // In slices, so that one huge piece takes no more memory than many small ones.
        for slice in rest.chunks(self.limits.tail.max(4096)) {
            self.tail.push(source, slice);
            let over = self.tail.bytes.len().saturating_sub(self.limits.tail);
            let middle = self.tail.shift(over);
            let written = self.spill.write(&middle, self.limits.spill);
            self.lost += (middle.len() - written) as u64;
        }
    }

    /// What was kept so far and at the end.
    pub fn finish(mut self) -> RecordedOutput {
        self.spill.flush();
        RecordedOutput {
            head: self.head,
            tail: self.tail,
            stdout_bytes: self.totals[0],
            stderr_bytes: self.totals[1],
            spilled: self.spill.written,
            lost: self.lost,
            spill: self.spill.path.filter(|_| self.spill.file.is_some()),
            spill_error: self.spill.error,
        }
    }
}

#[derive(Debug)]
struct SpillFile {
    path: Option<PathBuf>,
    file: Option<io::BufWriter<fs_err::File>>,
    written: u64,
    error: Option<io::Error>,
}

impl SpillFile {
    /// Writes as much as the limit allows, and says how much that was.
    fn write(&mut self, bytes: &[u8], limit: u64) -> usize {
        let room = usize::try_from(limit.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        if bytes.is_empty() || self.error.is_some() {
            return 0;
        }
        match self.try_write(bytes) {
            Ok(count) => {
                self.written += count as u64;
                count
            }
            Err(error) => {
                self.error = Some(error);
                0
            }
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(path) = &self.path else { return Ok(0) };
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(io::BufWriter::new(fs_err::File::create_new(path)?)),
        };
        file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.flush()
        {
            self.error.get_or_insert(error);
        }
    }
}

/// What was kept: `head`, then `spilled` bytes in the file, then `lost` bytes, then `tail`.
#[derive(Debug)]
pub struct RecordedOutput {
    /// The beginning.
    pub head: OutputBytes,
    /// The end, without what is already in the beginning.
    pub tail: OutputBytes,
    /// All bytes of standard output or the terminal, kept or not.
    pub stdout_bytes: u64,
    /// All bytes of standard error, kept or not.
    pub stderr_bytes: u64,
    /// Bytes in the file.
    pub spilled: u64,
    /// Bytes that are nowhere.
    pub lost: u64,
    /// The file, if there is one.
    pub spill: Option<PathBuf>,
    /// Why the file holds less than it could; its last bytes may be missing then.
    pub spill_error: Option<io::Error>,
}

/// Output as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputText {
    /// The beginning, or everything.
    pub head: String,
    /// Bytes between the two, whole characters cut at the edges included.
    pub omitted: u64,
    /// The end; empty if nothing was omitted.
    pub tail: String,
}

impl RecordedOutput {
    /// All bytes that came.
    pub fn total(&self) -> u64 {
        self.stdout_bytes.saturating_add(self.stderr_bytes)
    }

    /// The output as text: no character is cut in two, and what is not UTF-8 becomes U+FFFD.
    pub fn text(&self) -> OutputText {
        let (mut head, mut tail) = (self.head.to_bytes(), self.tail.to_bytes());
        if self.spilled + self.lost == 0 {
            head.append(&mut tail);
            let head = String::from_utf8_lossy(&head).into_owned();
            return OutputText { head, omitted: 0, tail: String::new() };
        }
        head.truncate(last_char_end(&head));
        tail.drain(..first_char_start(&tail));
        let shown = (head.len() + tail.len()) as u64;
        OutputText {
            head: String::from_utf8_lossy(&head).into_owned(),
            omitted: self.total().saturating_sub(shown),
            tail: String::from_utf8_lossy(&tail).into_owned(),
        }
    }
}

/// Where the last whole character ends.
fn last_char_end(bytes: &[u8]) -> usize {
    let recent = bytes.len().saturating_sub(3)..bytes.len();
    let lead = recent.rev().find(|index| bytes[*index] >= 0xC0);
    match lead {
        Some(index) if bytes.len() - index < utf8_length(bytes[index]) => index,
        _ => bytes.len(),
    }
}

/// Where the first whole character begins.
fn first_char_start(bytes: &[u8]) -> usize {
    let rest = bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count();
    // More than a character has is no character at all: leave it to be shown as it is.
    if bytes.get(rest).is_some_and(|byte| (0x80..0xC0).contains(byte)) { 0 } else { rest }
}

fn utf8_length(lead: u8) -> usize {
    match lead {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}
