//! Server-sent events from bytes that are cut anywhere.

/// The most bytes of one event. Whole images arrive in one event.
const EVENT_LIMIT: usize = 64 << 20;

/// An event is longer than any provider's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {EVENT_LIMIT} bytes")]
pub(super) struct OversizedEvent;

/// Collects bytes and gives out the data of complete events. Comments and the names of events are
/// ignored: all wires repeat the name in the data.
#[derive(Debug, Default)]
pub(super) struct EventStreamParser {
    /// The line that is not complete.
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    is_after_cr: bool,
    /// The data of the event that is not complete.
    data: Option<String>,
    has_read_line: bool,
}

impl EventStreamParser {
    /// Reads bytes and adds the data of each event that they complete to `events`.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<String>,
    ) -> Result<(), OversizedEvent> {
        if self.is_after_cr && bytes.first() == Some(&b'\n') {
            bytes = bytes.get(1..).unwrap_or_default();
            self.is_after_cr = false;
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.is_after_cr = false;
            let (part, rest) = bytes.split_at(end);
            let after = match rest {
                [b'\r', b'\n', after @ ..] => after,
                [b'\r'] => {
                    self.is_after_cr = true;
                    &[]
                }
                [_, after @ ..] => after,
                [] => &[],
            };
            bytes = after;
            if self.line.is_empty() {
                self.read_line(part, events);
            } else {
                self.line.extend_from_slice(part);
                let line = std::mem::take(&mut self.line);
                self.read_line(&line, events);
            }
        }
        if !bytes.is_empty() {
            self.is_after_cr = false;
        }
        self.line.extend_from_slice(bytes);
        let length = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if length > EVENT_LIMIT { Err(OversizedEvent) } else { Ok(()) }
    }

    /// Gives out what the end of the stream completes: some servers omit the last empty line.
    pub(super) fn finish(&mut self, events: &mut Vec<String>) {
        let line = std::mem::take(&mut self.line);
        self.read_line(&line, events);
        events.extend(self.data.take());
    }

    fn read_line(&mut self, line: &[u8], events: &mut Vec<String>) {
        let is_first = !std::mem::replace(&mut self.has_read_line, true);
        let line = if is_first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        if line.is_empty() {
            events.extend(self.data.take());
            return;
        }
        let value = match line.strip_prefix(b"data") {
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            Some([]) => &[],
            Some(_) | None => return,
        };
        let value = String::from_utf8_lossy(value);
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(&value);
            }
            None => self.data = Some(value.into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\u{FEFF}: PROCESSING\r\n\r\nevent: delta\r\ndata: {\"a\":\r\ndata:\"ü😀\"}\r\nid: 7\r\n\r\ndata: two\n\n\n: keep-alive\rdata: three\r\r\
                          retry: 5\ndataset: no\n\ndata\n\ndata: last";
    const EVENTS: [&str; 5] = ["{\"a\":\n\"ü😀\"}", "two", "three", "", "last"];

    fn parse(pieces: &[&[u8]]) -> Vec<String> {
        let (mut parser, mut events) = (EventStreamParser::default(), Vec::new());
        for piece in pieces {
            parser.push(piece, &mut events).unwrap();
        }
        parser.finish(&mut events);
        events
    }

    #[test]
    fn a_stream_may_be_cut_at_every_byte() {
        let bytes = STREAM.as_bytes();
        assert_eq!(parse(&[bytes]), EVENTS);
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(parse(&[head, tail]), EVENTS, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single), EVENTS);
        let empty_between: Vec<&[u8]> = bytes.chunks(1).flat_map(|byte| [byte, &[]]).collect();
        assert_eq!(parse(&empty_between), EVENTS);
    }

    #[test]
    fn an_endless_event_is_an_error() {
        let (mut parser, mut events) = (EventStreamParser::default(), Vec::new());
        let line = vec![b'a'; EVENT_LIMIT / 2];
        assert_eq!(parser.push(b"data: ", &mut events), Ok(()));
        assert_eq!(parser.push(&line, &mut events), Ok(()));
        assert_eq!(parser.push(&line, &mut events), Err(OversizedEvent));
    }
}
