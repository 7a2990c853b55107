//! The last output of a terminal, as text, addressed as clients count it: in UTF-16 code units.

use std::collections::VecDeque;

/// How much output is kept.
const MAX_BYTES: usize = 2 << 20;
/// How much of it is dropped at a time.
const CHUNK_BYTES: usize = 16 << 10;
/// How much one frame carries at most.
const MAX_FRAME_BYTES: usize = 64 << 10;

/// From where a client wants the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScrollbackStart {
    /// From a position, or from the oldest output that is kept.
    At(u64),
    /// Only what comes from now on.
    End,
}

impl ScrollbackStart {
    /// Reads `cursor` of a query: `-1` is the end; anything that is no position is the beginning, as in OpenCode.
    pub(crate) fn parse(cursor: Option<&str>) -> Self {
        match cursor {
            Some("-1") => Self::End,
            Some(text) => Self::At(text.parse().unwrap_or(0)),
            None => Self::At(0),
        }
    }
}

/// The end of what a terminal has shown.
#[derive(Debug, Default)]
pub(crate) struct PtyScrollback {
    chunks: VecDeque<ScrollbackChunk>,
    bytes: usize,
    end: u64,
    /// The beginning of a character whose other bytes have not come yet.
    incomplete: Vec<u8>,
}

#[derive(Debug)]
struct ScrollbackChunk {
    /// The position of its first unit.
    start: u64,
    text: String,
}

/// What follows a position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScrollbackRead {
    /// Where it really begins: later than asked for if that is no longer kept.
    pub(crate) start: u64,
    /// The text; empty at the end.
    pub(crate) text: String,
    /// The position after it.
    pub(crate) next: u64,
}

impl PtyScrollback {
    /// The position after the newest output.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// The oldest position that is kept.
    fn start(&self) -> u64 {
        self.chunks.front().map_or(self.end, |chunk| chunk.start)
    }

    /// Takes output. Bytes that are no UTF-8 become replacement characters.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.incomplete.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.incomplete);
        let mut rest = all.as_slice();
        loop {
            match str::from_utf8(rest) {
                Ok(text) => return self.push_text(text),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.push_text(str::from_utf8(valid).unwrap_or_default());
                    let Some(invalid) = error.error_len() else {
                        self.incomplete = after.to_vec();
                        return;
                    };
                    self.push_text("\u{fffd}");
                    rest = after.get(invalid..).unwrap_or_default();
                }
            }
        }
    }

    /// No more output comes: a character that was cut off is shown as one.
    pub(crate) fn finish(&mut self) {
        if !std::mem::take(&mut self.incomplete).is_empty() {
            self.push_text("\u{fffd}");
        }
    }

    fn push_text(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
            match self.chunks.back_mut() {
                Some(last) if last.text.len() + piece.len() <= CHUNK_BYTES => {
                    last.text.push_str(piece);
                }
                _ => {
                    let chunk = ScrollbackChunk { start: self.end, text: piece.to_owned() };
                    self.chunks.push_back(chunk);
                }
            }
            self.end += utf16_units(piece);
            self.bytes += piece.len();
            rest = after;
        }
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.chunks.pop_front() else { return };
            self.bytes -= oldest.text.len();
        }
    }

    /// What follows `position`, as much as one frame takes.
    pub(crate) fn read(&self, position: u64) -> ScrollbackRead {
        let wanted = position.clamp(self.start(), self.end);
        let after = self.chunks.partition_point(|chunk| chunk.start <= wanted);
        let mut chunks = self.chunks.iter().skip(after.saturating_sub(1));
        let Some(first) = chunks.next() else {
            return ScrollbackRead { start: wanted, text: String::new(), next: wanted };
        };
        let (start, text) = first.after(wanted);
        let mut text = text.to_owned();
        for chunk in chunks {
            if text.len() + chunk.text.len() > MAX_FRAME_BYTES {
                break;
            }
            text.push_str(&chunk.text);
        }
        let next = start + utf16_units(&text);
        ScrollbackRead { start, text, next }
    }
}

impl ScrollbackChunk {
    /// The text from `position` on; a position inside of a character is that of the character.
    fn after(&self, position: u64) -> (u64, &str) {
        let mut at = self.start;
        for (index, letter) in self.text.char_indices() {
            let next = at + letter.len_utf16() as u64;
            if next > position {
                return (at, self.text.get(index..).unwrap_or_default());
            }
            at = next;
        }
        (at, "")
    }
}

fn utf16_units(text: &str) -> u64 {
    text.chars().map(|letter| letter.len_utf16() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(pieces: &[&[u8]]) -> PtyScrollback {
        let mut kept = PtyScrollback::default();
        pieces.iter().for_each(|piece| kept.push(piece));
        kept
    }

    #[test]
    fn positions_count_utf16_units() {
        let kept = pushed(&["äöü😀x".as_bytes()]);
        assert_eq!(kept.end(), 6);
        let read = |position| {
            let ScrollbackRead { start, text, next } = kept.read(position);
            (start, text, next)
        };
        assert_eq!(read(0), (0, "äöü😀x".to_owned(), 6));
        assert_eq!(read(3), (3, "😀x".to_owned(), 6));
        assert_eq!(read(4), (3, "😀x".to_owned(), 6), "not half a character");
        assert_eq!(read(5), (5, "x".to_owned(), 6));
        assert_eq!(read(6), (6, String::new(), 6));
        assert_eq!(read(u64::MAX), (6, String::new(), 6));
    }

    #[test]
    fn characters_cut_between_reads_are_joined_and_invalid_bytes_replaced() {
        let emoji = "😀".as_bytes();
        let mut kept = pushed(&[&emoji[..1], &emoji[1..3], &emoji[3..], b"a\xffb\xc3"]);
        assert_eq!(kept.read(0).text, "😀a\u{fffd}b");
        kept.finish();
        assert_eq!(kept.read(0).text, "😀a\u{fffd}b\u{fffd}");
        assert_eq!(kept.end(), 6);
    }

    #[test]
    fn output_beyond_the_limit_drops_the_oldest() {
        let mut kept = PtyScrollback::default();
        let line = "0123456789äöü\n".repeat(1 << 12);
        let units = utf16_units(&line);
        (0..100).for_each(|_| kept.push(line.as_bytes()));
        assert_eq!(kept.end(), 100 * units);
        let held: usize = kept.chunks.iter().map(|chunk| chunk.text.capacity()).sum();
        assert!(kept.bytes <= MAX_BYTES && held <= 2 * MAX_BYTES, "{} {held}", kept.bytes);
        let (mut at, mut seen) = (0, String::new());
        while at < kept.end() {
            let read = kept.read(at);
            assert!(!read.text.is_empty() && read.text.len() <= MAX_FRAME_BYTES);
            assert!(seen.is_empty() || read.start == at, "no gap inside");
            seen.push_str(&read.text);
            at = read.next;
        }
        assert!(line.repeat(100).ends_with(&seen));
    }

    #[test]
    fn cursor_is_read_as_opencode_reads_it() {
        let all = [(None, 0), (Some("5"), 5), (Some("abc"), 0), (Some("-7"), 0), (Some(""), 0)];
        for (cursor, at) in all {
            assert_eq!(ScrollbackStart::parse(cursor), ScrollbackStart::At(at), "{cursor:?}");
        }
        assert_eq!(ScrollbackStart::parse(Some("-1")), ScrollbackStart::End);
    }
}
