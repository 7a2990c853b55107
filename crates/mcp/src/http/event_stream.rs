//! The messages in a stream of server-sent events.

use crate::inbox::MAX_MESSAGE_BYTES;

/// An event is longer than a message may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventTooLong;

/// Collects the data of events from the pieces of a body.
#[derive(Default)]
pub(crate) struct EventDecoder {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return: a line feed after it belongs to the same line end.
    after_return: bool,
}

impl EventDecoder {
    /// Takes the next piece of the body; returns the data of the events that it completes.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, EventTooLong> {
        let mut events = Vec::new();
        for byte in piece {
            let is_second = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if is_second => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > MAX_MESSAGE_BYTES {
                return Err(EventTooLong);
            }
        }
        Ok(events)
    }

    /// Ends a line; returns the data of the event that an empty one completes.
    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return std::mem::take(&mut self.has_data).then_some(data);
        }
        // Names, ids and comments are of no use here: a stream is not resumed.
        if let Some(value) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.has_data = true;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let body = b": hi\nevent: message\nid: 1\ndata: {\"a\":\ndata:1}\n\nid: 2\n\ndata: b\r\n\r\ndata: c\r\rdata: lost";
        for size in [1, 2, 3, 7, body.len()] {
            let mut decoder = EventDecoder::default();
            let mut events = Vec::new();
            for piece in body.chunks(size) {
                events.extend(decoder.push(piece).expect("short"));
            }
            let texts: Vec<_> = events.iter().map(|it| String::from_utf8_lossy(it)).collect();
            assert_eq!(texts, ["{\"a\":\n1}", "b", "c"], "{size}");
        }
    }

    #[test]
    fn endless_event_is_refused() {
        let mut decoder = EventDecoder::default();
        let piece = [b"data: ".to_vec(), vec![b'x'; 1 << 20], b"\n".to_vec()].concat();
        let refused = (0..20).any(|_| decoder.push(&piece).is_err());
        assert!(refused);
    }
}
