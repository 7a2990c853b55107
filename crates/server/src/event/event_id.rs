//! Names of events, and places in a stream.

use turnstone_core::id::{EventId, IdClock, MessageId};
use turnstone_core::time::{EpochMillis, LogCursor};

use crate::random::{self, RandomnessError};

/// The name of an event of the log on the wire: the same whenever it is read.
///
/// `nth` tells apart what one event of the log becomes.
pub(crate) fn event_id(cursor: LogCursor, time: EpochMillis, nth: usize) -> EventId {
    EventId::mint(IdClock::default().next_timestamp(time), position_digits(cursor, nth))
}

/// A place in the log as the digits of a name.
fn position_digits(cursor: LogCursor, nth: usize) -> [u8; 14] {
    let mut rest = (cursor.0.unsigned_abs() << 6) | (nth as u64 & 63);
    let mut digits = [0; 14];
    for digit in digits.iter_mut().rev() {
        *digit = (rest % 62) as u8;
        rest /= 62;
    }
    digits
}

/// The name OpenCode would give the message of a switch; `nth` tells apart those of one event.
pub(crate) fn switch_message_id(cursor: LogCursor, time: EpochMillis, nth: usize) -> MessageId {
    MessageId::mint(IdClock::default().next_timestamp(time), position_digits(cursor, nth))
}

/// The id of an ephemeral event.
///
/// # Errors
///
/// [`RandomnessError`] if the system has no random bytes.
pub(crate) fn ephemeral_id(
    ticker: &mut IdClock,
    now: EpochMillis,
) -> Result<EventId, RandomnessError> {
    Ok(EventId::mint(ticker.next_timestamp(now), random::random_bytes()?))
}

/// A place in a stream: after an event of the log, or inside of what one event becomes.
///
/// On the wire `41` is after all of event 41, `41.0` after the first frame of what it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPosition {
    /// The event.
    pub(crate) cursor: LogCursor,
    /// The last frame of it that was seen; none: all of them.
    pub(crate) frame: Option<u32>,
}

impl StreamPosition {
    /// A place no log reaches.
    pub(crate) const UNREACHABLE: Self = Self::after(LogCursor(i64::MAX));

    /// After all of an event.
    pub(crate) const fn after(cursor: LogCursor) -> Self {
        Self { cursor, frame: None }
    }

    /// Reads what a client gives back.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (cursor, frame) = match text.split_once('.') {
            Some((cursor, frame)) => (cursor, Some(digits_only(frame)?.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { cursor: LogCursor(digits_only(cursor)?.parse().ok()?), frame })
    }

    /// The event to read the log after.
    pub(crate) const fn read_after(self) -> LogCursor {
        match self.frame {
            None => self.cursor,
            Some(_) => LogCursor(self.cursor.0 - 1),
        }
    }

    /// True if frame `frame` of event `cursor` was seen.
    pub(crate) fn includes(self, cursor: LogCursor, frame: u32) -> bool {
        cursor < self.cursor
            || (cursor == self.cursor && self.frame.is_none_or(|seen| frame <= seen))
    }
}

/// Digits and nothing else: no sign, no space.
fn digits_only(text: &str) -> Option<&str> {
    text.bytes().all(|b| b.is_ascii_digit()).then_some(text)
}

impl std::fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.frame {
            None => write!(f, "{}", self.cursor.0),
            Some(frame) => write!(f, "{}.{frame}", self.cursor.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_id_is_stable_and_well_formed() {
        let id = event_id(LogCursor(77), EpochMillis(1_794_728_449_001), 0);
        assert_eq!(id.as_str().len(), 30);
        assert!(id.as_str().starts_with("evt_1de26d3e9001"), "{id}");
        assert_eq!(id, event_id(LogCursor(77), EpochMillis(1_794_728_449_001), 0));
        assert_ne!(id, event_id(LogCursor(77), EpochMillis(1_794_728_449_001), 1));
        assert_ne!(id, event_id(LogCursor(78), EpochMillis(1_794_728_449_001), 0));
    }

    #[test]
    fn stream_position_round_trips() {
        for text in ["0", "41", "41.0", "41.3"] {
            assert_eq!(
                StreamPosition::parse(text).map(|place| place.to_string()).as_deref(),
                Some(text)
            );
        }
        for text in ["", "-1", "+1", "x", "1.", ".1", "1.-1", "evt_1", "99999999999999999999"] {
            assert_eq!(StreamPosition::parse(text), None, "{text}");
        }
    }

    #[test]
    fn stream_position_includes_sent_frames() {
        let inside = StreamPosition { cursor: LogCursor(5), frame: Some(1) };
        assert_eq!(inside.read_after(), LogCursor(4));
        assert!(inside.includes(LogCursor(4), 9) && inside.includes(LogCursor(5), 1));
        assert!(!inside.includes(LogCursor(5), 2) && !inside.includes(LogCursor(6), 0));
        assert!(StreamPosition::after(LogCursor(5)).includes(LogCursor(5), 9));
    }
}
