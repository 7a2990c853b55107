//! Recent events, bounded, so that a slow client costs no memory.

use std::collections::VecDeque;
use std::sync::Arc;

use turnstone_core::time::LogCursor;

use super::stream_event::StreamEvent;

/// The most that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingBounds {
    /// Happenings.
    pub(crate) entries: usize,
    /// Bytes, about.
    pub(crate) bytes: usize,
}

/// The last happenings, each with a number that only grows.
pub(crate) struct EventRing {
    entries: VecDeque<Arc<StreamEvent>>,
    /// The number of the oldest entry.
    first: u64,
    bytes: usize,
    bounds: RingBounds,
    /// The log up to here is older than the ring.
    floor: LogCursor,
    /// The log was read up to here.
    end: LogCursor,
}

/// What a reader finds in the ring.
pub(crate) enum RingRead {
    /// What came next, and the number to go on from; empty if nothing came yet.
    Next(Vec<Arc<StreamEvent>>, u64),
    /// What came next is no longer here.
    Behind,
}

impl EventRing {
    /// An empty ring behind which the log was read up to `end`.
    pub(crate) fn new(end: LogCursor, bounds: RingBounds) -> Self {
        Self { entries: VecDeque::new(), first: 0, bytes: 0, bounds, floor: end, end }
    }

    /// The number the next entry gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The log was read up to here.
    pub(crate) fn end(&self) -> LogCursor {
        self.end
    }

    /// Puts an entry in, and what is too old out.
    pub(crate) fn push(&mut self, event: StreamEvent) {
        self.end = self.end.max(event.cursor);
        if event.is_empty() {
            return;
        }
        self.bytes += event.memory_bytes();
        self.entries.push_back(Arc::new(event));
        let over = |ring: &Self| {
            ring.entries.len() > ring.bounds.entries || ring.bytes > ring.bounds.bytes
        };
        while over(self) {
            let Some(old) = self.entries.pop_front() else { break };
            self.bytes -= old.memory_bytes();
            self.first += 1;
            self.floor = old.cursor;
        }
    }

    /// What came from number `from` on, at most `most`.
    pub(crate) fn read(&self, from: u64, most: usize) -> RingRead {
        let Some(skip) = from.checked_sub(self.first) else { return RingRead::Behind };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let next: Vec<_> = self.entries.iter().skip(skip).take(most).cloned().collect();
        let to = from + next.len() as u64;
        RingRead::Next(next, to)
    }

    /// The number to continue from after the log was read up to `cursor`; none if the ring does
    /// not reach back so far.
    pub(crate) fn number_after(&self, cursor: LogCursor) -> Option<u64> {
        if cursor < self.floor {
            return None;
        }
        let at = self.entries.partition_point(|entry| entry.cursor <= cursor);
        Some(self.first + at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream_event::{EventScope, WireEvent};
    use super::*;

    fn ring(entries: usize) -> EventRing {
        EventRing::new(LogCursor(10), RingBounds { entries, bytes: 1 << 20 })
    }

    fn push(ring: &mut EventRing, cursor: i64) {
        let wire_events = vec![WireEvent::without_properties("evt_x", "x")];
        ring.push(StreamEvent::from_log(
            LogCursor(cursor),
            None,
            EventScope::default(),
            wire_events,
        ));
    }

    fn cursors(found: RingRead) -> Option<Vec<i64>> {
        match found {
            RingRead::Next(next, _) => Some(next.iter().map(|it| it.cursor.0).collect()),
            RingRead::Behind => None,
        }
    }

    #[test]
    fn late_reader_is_behind() {
        let mut ring = ring(3);
        (11..=15).for_each(|cursor| push(&mut ring, cursor));
        assert_eq!(cursors(ring.read(0, 9)), None);
        assert_eq!(cursors(ring.read(2, 9)), Some(vec![13, 14, 15]));
        assert_eq!(cursors(ring.read(5, 9)), Some(vec![]));
    }

    #[test]
    fn reader_switches_from_log_to_ring_without_gap_or_repeat() {
        let mut ring = ring(3);
        assert_eq!(ring.number_after(LogCursor(10)), Some(0));
        assert_eq!(ring.number_after(LogCursor(9)), None);
        (11..=15).for_each(|cursor| push(&mut ring, cursor));
        assert_eq!(ring.number_after(LogCursor(11)), None);
        for (cursor, left) in [(12, vec![13, 14, 15]), (14, vec![15]), (15, vec![])] {
            let number = ring.number_after(LogCursor(cursor));
            assert_eq!(number.and_then(|from| cursors(ring.read(from, 9))), Some(left));
        }
    }

    #[test]
    fn large_events_are_evicted_earlier() {
        let mut ring = EventRing::new(LogCursor(0), RingBounds { entries: 100, bytes: 2_000 });
        (1..=9).for_each(|cursor| push(&mut ring, cursor));
        assert!(ring.bytes <= 2_000 && ring.next_number() == 9);
        assert_eq!(cursors(ring.read(0, 9)), None);
    }
}
