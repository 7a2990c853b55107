//! A page of lines of a file of any size, in bounded memory.

use std::io::{self, BufRead};

/// Characters of a line that are shown.
const MAX_LINE_CHARS: usize = 2_000;
/// Bytes of a line that are kept: as many as its characters can have.
const MAX_LINE_BYTES: usize = MAX_LINE_CHARS * 4 + 4;
/// What follows a line that was cut.
const CUT_LINE: &str = "... (line truncated to 2000 chars)";
/// Bytes behind the page that are read to count the lines of the file.
const MAX_COUNTED_BYTES: u64 = 64 << 20;

/// Some lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinePage {
    /// The lines, without their ends.
    pub(super) lines: Vec<String>,
    /// The lines of the file, or how many were found before counting was given up.
    pub(super) total: u64,
    /// True if the end of the file was reached.
    pub(super) is_total_known: bool,
    /// True if the page ends because it has enough bytes.
    pub(super) is_full: bool,
}

/// Reads `limit` lines from `offset` on (the first line is 1), of at most `max_bytes` together.
pub(super) fn read_page(
    reader: &mut dyn BufRead,
    (offset, limit): (u64, u64),
    max_bytes: usize,
) -> io::Result<LinePage> {
    let mut page = LinePage::default();
    let (mut bytes, mut counted) = (0_usize, 0_u64);
    loop {
        let is_wanted =
            !page.is_full && page.total + 1 >= offset && (page.lines.len() as u64) < limit;
        let Some(line) = read_line(reader, is_wanted)? else {
            page.is_total_known = true;
            return Ok(page);
        };
        page.total += 1;
        if is_wanted {
            let text = shown_line(&line.kept);
            bytes += text.len() + 1;
            if bytes > max_bytes && !page.lines.is_empty() {
                page.is_full = true;
            } else {
                page.lines.push(text);
            }
        }
        if page.total >= offset && !is_wanted {
            counted = counted.saturating_add(line.length);
        }
        if page.is_full || counted > MAX_COUNTED_BYTES {
            return Ok(page);
        }
    }
}

/// A line, of which only the beginning is kept.
struct ScannedLine {
    kept: Vec<u8>,
    length: u64,
}

/// Reads to the next end of a line; nothing at the end of the file.
fn read_line(reader: &mut dyn BufRead, keep: bool) -> io::Result<Option<ScannedLine>> {
    let mut line = ScannedLine { kept: Vec::new(), length: 0 };
    loop {
        let available = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok((line.length > 0).then_some(line));
        }
        let end = memchr::memchr(b'\n', available);
        let text = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        if keep {
            let room = MAX_LINE_BYTES.saturating_sub(line.kept.len()).min(text.len());
            line.kept.extend_from_slice(text.get(..room).unwrap_or_default());
        }
        let used = text.len() + usize::from(end.is_some());
        line.length += used as u64;
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

fn shown_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_suffix('\r').unwrap_or(&text);
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}{CUT_LINE}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn page(text: &str, offset: u64, limit: u64, max_bytes: usize) -> LinePage {
        let mut reader = BufReader::with_capacity(3, text.as_bytes());
        read_page(&mut reader, (offset, limit), max_bytes).expect("read")
    }

    #[test]
    fn pages_count_lines_from_one() {
        let found = page("a\nb\r\nc\nd", 2, 2, 100);
        assert_eq!(found.lines, ["b", "c"]);
        assert_eq!((found.total, found.is_total_known, found.is_full), (4, true, false));
        assert_eq!(page("a\n", 1, 10, 100).lines, ["a"]);
        assert_eq!(page("", 1, 10, 100).total, 0);
        assert_eq!(page("\n\n", 1, 10, 100).lines, ["", ""]);
        let beyond = page("a\nb\n", 7, 10, 100);
        assert_eq!((beyond.lines.len(), beyond.total), (0, 2));
    }

    #[test]
    fn page_ends_when_it_has_enough_bytes() {
        let found = page("aaaa\nbbbb\ncccc\n", 1, 10, 10);
        assert_eq!(found.lines, ["aaaa", "bbbb"]);
        assert!(found.is_full && !found.is_total_known);
    }

    #[test]
    fn long_line_takes_bounded_memory() {
        // 256 MiB without an end of line, made as it is read.
        let mut endless = BufReader::new(io::repeat(b'x').take(256 << 20));
        let found = read_page(&mut endless, (1, 10), 50 << 10).expect("read");
        assert_eq!(found.lines.len(), 1);
        assert_eq!(found.lines[0].len(), MAX_LINE_CHARS + CUT_LINE.len());
        assert_eq!(found.total, 1);
        let wide = page(&"ä".repeat(3_000), 1, 10, 50 << 10);
        assert_eq!(wide.lines[0].chars().count(), MAX_LINE_CHARS + CUT_LINE.chars().count());
    }

    #[test]
    fn counting_ends_after_a_while() {
        let lines = "x".repeat(1023) + "\n";
        let mut text = BufReader::new(io::repeat(0).take(0).chain(io::Cursor::new(
            lines.repeat(usize::try_from(MAX_COUNTED_BYTES >> 10).expect("fits") + 100),
        )));
        let found = read_page(&mut text, (1, 1), 50 << 10).expect("read");
        assert!(!found.is_total_known && !found.is_full);
        assert_eq!(found.lines.len(), 1);
    }
}
