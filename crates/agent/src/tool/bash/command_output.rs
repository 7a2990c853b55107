//! The output of a command: its end for the model and for clients, all of it in a file if it is long.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use turnstone_engine::LiveOutput;

use crate::tool::ToolOutputLimits;
use crate::tool::bounded_output::create_spill;

/// How much of the end clients are shown.
pub(super) const MAX_LIVE_BYTES: usize = 30_000;
/// How large the file with all of the output may become.
const MAX_SPILL_BYTES: u64 = 256 << 20;

/// The output of a command that runs.
pub(crate) struct CommandOutput {
    /// What clients are shown.
    pub(super) live: LiveOutput,
    limits: ToolOutputLimits,
    spill_path: PathBuf,
    state: Mutex<CollectedOutput>,
}

#[derive(Default)]
struct CollectedOutput {
    /// The end of the output, at most as much as the model reads.
    tail: VecDeque<u8>,
    total: u64,
    lines: usize,
    spill: SpillState,
}

/// The file with all of the output.
#[derive(Default)]
enum SpillState {
    /// Everything fits into the tail so far.
    #[default]
    NotNeeded,
    Open(fs_err::File, u64),
    Failed(String),
}

/// What the model reads of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandText {
    /// The text.
    pub(crate) text: String,
    /// The file with all of it, if the text is only its end.
    pub(super) spill: Option<PathBuf>,
    /// True if the text is only its end.
    pub(super) is_cut: bool,
}

impl CommandOutput {
    pub(crate) fn new(limits: ToolOutputLimits, spill_path: &Path) -> Self {
        Self {
            live: LiveOutput::new(MAX_LIVE_BYTES),
            limits,
            spill_path: spill_path.to_owned(),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CollectedOutput> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A writer for one stream of the command; both write into the same output, as it comes.
    pub(super) const fn writer(&self) -> CommandOutputWriter<'_> {
        CommandOutputWriter { output: self }
    }

    fn push(&self, bytes: &[u8]) {
        let mut live = self.live.clone();
        // It is in memory: that cannot fail.
        live.write_all(bytes).ok();
        let mut state = self.lock();
        state.total += bytes.len() as u64;
        state.lines += memchr::memchr_iter(b'\n', bytes).count();
        let is_long = state.total > self.limits.bytes as u64 || state.lines >= self.limits.lines;
        if is_long && matches!(state.spill, SpillState::NotNeeded) {
            state.spill = self.open_spill(&state.tail);
        }
        state.spill.append(bytes);
        state.tail.extend(bytes);
        let over = state.tail.len().saturating_sub(self.limits.bytes);
        state.tail.drain(..over);
    }

    /// Begins the file with what came before.
    fn open_spill(&self, before: &VecDeque<u8>) -> SpillState {
        let mut spill = match create_spill(&self.spill_path) {
            Ok(file) => SpillState::Open(file, 0),
            Err(error) => return SpillState::Failed(error.to_string()),
        };
        let (first, second) = before.as_slices();
        spill.append(first);
        spill.append(second);
        spill
    }

    /// Returns what the model reads: the end, with a header that says where all of it is.
    pub(crate) fn finish(&self) -> CommandText {
        let mut state = self.lock();
        let bytes: Vec<u8> = state.tail.iter().copied().collect();
        let is_cut_in_bytes = state.total > bytes.len() as u64;
        let tail = String::from_utf8_lossy(skip_partial_char(&bytes, is_cut_in_bytes)).into_owned();
        let kept = last_lines(&tail, self.limits.lines);
        if !is_cut_in_bytes && kept.len() == tail.len() {
            let is_spilled = !matches!(state.spill, SpillState::NotNeeded);
            state.spill = SpillState::NotNeeded;
            if is_spilled {
                fs_err::remove_file(&self.spill_path).ok();
            }
            return CommandText { text: tail, spill: None, is_cut: false };
        }
        let (header, spill) = match &state.spill {
            SpillState::Open(_, written) if *written == state.total => {
                let path = self.spill_path.display();
                (format!("The whole output is in {path}"), Some(self.spill_path.clone()))
            }
            SpillState::Open(_, written) => {
                let path = self.spill_path.display();
                let words = format!("The first {written} bytes of the output are in {path}");
                (words, Some(self.spill_path.clone()))
            }
            SpillState::NotNeeded => ("The rest was not stored.".to_owned(), None),
            SpillState::Failed(error) => (format!("The rest could not be stored: {error}"), None),
        };
        let text = format!("... output truncated, this is its end ...\n{header}\n\n{kept}");
        CommandText { text, spill, is_cut: true }
    }
}

impl SpillState {
    fn append(&mut self, bytes: &[u8]) {
        let Self::Open(file, written) = self else { return };
        let room = usize::try_from(MAX_SPILL_BYTES.saturating_sub(*written)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        match file.write_all(bytes) {
            Ok(()) => *written += bytes.len() as u64,
            Err(error) => *self = Self::Failed(error.to_string()),
        }
    }
}

/// A stream of a command.
pub(super) struct CommandOutputWriter<'o> {
    output: &'o CommandOutput,
}

impl Write for CommandOutputWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns bytes without the rest of a character whose beginning was cut off.
fn skip_partial_char(bytes: &[u8], is_cut: bool) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| is_cut && (0x80..0xC0).contains(*byte));
    bytes.get(rest.count()..).unwrap_or_default()
}

/// Returns the last lines of a text.
fn last_lines(text: &str, count: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    match body.rmatch_indices('\n').nth(count.saturating_sub(1)) {
        Some((at, _)) => text.get(at + 1..).unwrap_or_default(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(pieces: &[&[u8]], limits: ToolOutputLimits) -> (CommandText, Option<Vec<u8>>) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tool-output/tool_1");
        let output = CommandOutput::new(limits, &path);
        for piece in pieces {
            output.writer().write_all(piece).expect("in memory");
        }
        let mut text = output.finish();
        text.text = text.text.replace(&path.display().to_string(), "SPILL");
        text.spill = text.spill.map(|_| PathBuf::from("SPILL"));
        (text, fs_err::read(path).ok())
    }

    #[test]
    fn short_output_is_kept_whole_and_leaves_no_file() {
        let limits = ToolOutputLimits { lines: 3, bytes: 10 };
        let (text, file) = collect(&[b"a\n", b"b\n", b"c\n"], limits);
        assert_eq!((text.text.as_str(), text.is_cut), ("a\nb\nc\n", false));
        assert_eq!(file, None);
        assert_eq!(collect(&[], limits).0.text, "");
    }

    #[test]
    fn long_output_ends_with_its_last_lines_and_is_whole_in_a_file() {
        let limits = ToolOutputLimits { lines: 2, bytes: 100 };
        let (text, file) = collect(&[b"a\nb\n", b"c\nd"], limits);
        assert_eq!(
            text.text,
            "... output truncated, this is its end ...\nThe whole output is in SPILL\n\nc\nd"
        );
        assert_eq!(file.as_deref(), Some(&b"a\nb\nc\nd"[..]));
        let limits = ToolOutputLimits { lines: 2_000, bytes: 4 };
        let (text, file) = collect(&["aä€".as_bytes(), b"bc"], limits);
        // The character that was cut is left out of the text, not out of the file.
        assert!(text.is_cut && text.text.ends_with("\n\nbc"), "{text:?}");
        assert_eq!(file.as_deref(), Some("aä€bc".as_bytes()));
    }
}
