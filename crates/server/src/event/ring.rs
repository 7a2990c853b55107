//! What happened lately: bounded, so that nobody who is slow costs anybody memory.

use std::collections::VecDeque;
use std::sync::Arc;

use turnstone_core::time::Cursor;

use super::happening::Happening;

/// The most that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Happenings.
    pub(crate) entries: usize,
    /// Bytes, about.
    pub(crate) bytes: usize,
}

/// The last happenings, each with a number that only grows.
pub(crate) struct Ring {
    entries: VecDeque<Arc<Happening>>,
    /// The number of the oldest entry.
    first: u64,
    bytes: usize,
    bounds: Bounds,
    /// The log up to here is older than the ring.
    floor: Cursor,
    /// The log was read up to here.
    end: Cursor,
}

/// What a reader finds in the ring.
pub(crate) enum Found {
    /// What came next, and the number to go on from; empty if nothing came yet.
    Next(Vec<Arc<Happening>>, u64),
    /// What came next is no longer here.
    Behind,
}

impl Ring {
    /// An empty ring behind which the log was read up to `end`.
    pub(crate) fn new(end: Cursor, bounds: Bounds) -> Self {
        Self { entries: VecDeque::new(), first: 0, bytes: 0, bounds, floor: end, end }
    }

    /// The number the next entry gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The log was read up to here.
    pub(crate) fn end(&self) -> Cursor {
        self.end
    }

    /// Puts an entry in, and what is too old out.
    pub(crate) fn push(&mut self, happening: Happening) {
        self.end = self.end.max(happening.cursor);
        if happening.is_silent() {
            return;
        }
        self.bytes += happening.weight();
        self.entries.push_back(Arc::new(happening));
        let over = |ring: &Self| {
            ring.entries.len() > ring.bounds.entries || ring.bytes > ring.bounds.bytes
        };
        while over(self) {
            let Some(old) = self.entries.pop_front() else { break };
            self.bytes -= old.weight();
            self.first += 1;
            self.floor = old.cursor;
        }
    }

    /// What came from number `from` on, at most `most`.
    pub(crate) fn read(&self, from: u64, most: usize) -> Found {
        let Some(skip) = from.checked_sub(self.first) else { return Found::Behind };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let next: Vec<_> = self.entries.iter().skip(skip).take(most).cloned().collect();
        let to = from + next.len() as u64;
        Found::Next(next, to)
    }

    /// The number to go on from for whoever has read the log up to `cursor`; none if the ring does
    /// not reach back so far.
    pub(crate) fn number_after(&self, cursor: Cursor) -> Option<u64> {
        if cursor < self.floor {
            return None;
        }
        let at = self.entries.partition_point(|entry| entry.cursor <= cursor);
        Some(self.first + at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::happening::{Scene, Told};
    use super::*;

    fn ring(entries: usize) -> Ring {
        Ring::new(Cursor(10), Bounds { entries, bytes: 1 << 20 })
    }

    fn push(ring: &mut Ring, cursor: i64) {
        let told = vec![Told::bare("evt_x", "x")];
        ring.push(Happening::logged(Cursor(cursor), None, Scene::default(), told));
    }

    fn cursors(found: Found) -> Option<Vec<i64>> {
        match found {
            Found::Next(next, _) => Some(next.iter().map(|it| it.cursor.0).collect()),
            Found::Behind => None,
        }
    }

    #[test]
    fn a_reader_who_is_too_late_is_told() {
        let mut ring = ring(3);
        (11..=15).for_each(|cursor| push(&mut ring, cursor));
        assert_eq!(cursors(ring.read(0, 9)), None);
        assert_eq!(cursors(ring.read(2, 9)), Some(vec![13, 14, 15]));
        assert_eq!(cursors(ring.read(5, 9)), Some(vec![]));
    }

    #[test]
    fn whoever_read_the_log_goes_on_without_a_gap_and_without_a_repeat() {
        let mut ring = ring(3);
        assert_eq!(ring.number_after(Cursor(10)), Some(0));
        assert_eq!(ring.number_after(Cursor(9)), None);
        (11..=15).for_each(|cursor| push(&mut ring, cursor));
        assert_eq!(ring.number_after(Cursor(11)), None);
        for (cursor, left) in [(12, vec![13, 14, 15]), (14, vec![15]), (15, vec![])] {
            let number = ring.number_after(Cursor(cursor));
            assert_eq!(number.and_then(|from| cursors(ring.read(from, 9))), Some(left));
        }
    }

    #[test]
    fn what_is_large_leaves_earlier() {
        let mut ring = Ring::new(Cursor(0), Bounds { entries: 100, bytes: 2_000 });
        (1..=9).for_each(|cursor| push(&mut ring, cursor));
        assert!(ring.bytes <= 2_000 && ring.next_number() == 9);
        assert_eq!(cursors(ring.read(0, 9)), None);
    }
}
