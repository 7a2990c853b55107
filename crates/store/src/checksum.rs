//! Check sums of what is stored only once: events, and the rows of streamed text.
//!
//! SQLite does not notice a changed byte inside a value. With the sum `doctor` does, and `salvage`
//! never passes a damaged value on as a sound one. FNV-1a finds every single changed byte, and it
//! can go on from a stored sum, so that growing a row needs no look at what it holds already.

use crate::table_row_ids::{PartNum, SessionNum};
use rusqlite::Row;
use turnstone_core::event::EventKind;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A sum in the making.
#[derive(Clone, Copy)]
struct Checksum(u64);

impl Checksum {
    const fn new() -> Self {
        Self(OFFSET)
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
        self
    }

    fn number(self, number: i64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    fn maybe_number(self, number: Option<i64>) -> Self {
        number.map_or(self.bytes(&[0]), |n| self.bytes(&[1]).number(n))
    }

    fn maybe_text(self, text: Option<&str>) -> Self {
        text.map_or(self.bytes(&[0]), |t| {
            self.bytes(&[1]).number(t.len() as i64).bytes(t.as_bytes())
        })
    }

    /// As the database stores it.
    const fn to_stored(self) -> i64 {
        self.0.cast_signed()
    }
}

/// What of an event is covered: all but its span, which only stubs have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChecksummedEvent<'a> {
    pub(crate) cursor: i64,
    pub(crate) session: Option<SessionNum>,
    pub(crate) seq: Option<i64>,
    pub(crate) sync_seq: Option<i64>,
    pub(crate) kind: i64,
    pub(crate) entity: i64,
    pub(crate) actor: i64,
    pub(crate) time: i64,
    pub(crate) version: i64,
    pub(crate) payload: Option<&'a str>,
    pub(crate) refs: Option<&'a str>,
    pub(crate) text: Option<(i64, i64)>,
}

impl ChecksummedEvent<'_> {
    /// The sum to store with the event.
    pub(crate) fn checksum(&self) -> i64 {
        Checksum::new()
            .number(self.cursor)
            .maybe_number(self.session.map(|session| session.0))
            .maybe_number(self.seq)
            .maybe_number(self.sync_seq)
            .number(self.kind)
            .number(self.entity)
            .number(self.actor)
            .number(self.time)
            .number(self.version)
            .maybe_text(self.payload)
            .maybe_text(self.refs)
            .maybe_number(self.text.map(|t| t.0))
            .maybe_number(self.text.map(|t| t.1))
            .to_stored()
    }

    /// True for what compaction leaves of an event: nothing but its place.
    pub(crate) fn is_stub(&self) -> bool {
        let bare = EventKind::from_code(self.kind).is_some_and(EventKind::has_no_payload);
        self.payload.is_none() && self.text.is_none() && !bare
    }

    /// True if the event is what was stored. A stub has no sum: there is nothing left to cover.
    pub(crate) fn is_intact(&self, stored: Option<i64>) -> bool {
        match stored {
            Some(sum) => sum == self.checksum(),
            None => self.is_stub(),
        }
    }
}

/// An event row as it is stored: what the sum covers, the sum, and the span.
pub(crate) struct EventRow<'a> {
    pub(crate) event: ChecksummedEvent<'a>,
    pub(crate) sum: Option<i64>,
    pub(crate) span: i64,
}

impl<'a> EventRow<'a> {
    /// Reads the columns `cursor, session, seq, sync_seq, kind, entity, actor, time, version,
    /// payload, refs, text_from, text_to, sum, span`.
    pub(crate) fn from_row(row: &'a Row<'_>) -> rusqlite::Result<Self> {
        let text: (Option<i64>, Option<i64>) = (row.get(11)?, row.get(12)?);
        Ok(Self {
            event: ChecksummedEvent {
                cursor: row.get(0)?,
                session: row.get(1)?,
                seq: row.get(2)?,
                sync_seq: row.get(3)?,
                kind: row.get(4)?,
                entity: row.get(5)?,
                actor: row.get(6)?,
                time: row.get(7)?,
                version: row.get(8)?,
                payload: row.get_ref(9)?.as_str_or_null()?,
                refs: row.get_ref(10)?.as_str_or_null()?,
                text: text.0.zip(text.1),
            },
            sum: row.get(13)?,
            span: row.get(14)?,
        })
    }

    /// True if the event is what was stored.
    pub(crate) fn is_intact(&self) -> bool {
        self.event.is_intact(self.sum) && (self.span == 1 || self.event.is_stub())
    }
}

/// The sum of a row of streamed text before its first byte.
pub(crate) fn empty_chunk_checksum(part: PartNum, start: i64) -> i64 {
    Checksum::new().number(part.0).number(start).to_stored()
}

/// The sum of such a row after `text` was appended to it.
pub(crate) fn extend_checksum(sum: i64, text: &str) -> i64 {
    Checksum(sum.cast_unsigned()).bytes(text.as_bytes()).to_stored()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_fnv_1a() {
        assert_eq!(Checksum::new().bytes(b"a").0, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Checksum::new().bytes(b"foobar").0, 0x8594_4171_f739_67e8);
    }

    #[test]
    fn extended_checksum_equals_checksum_of_whole_text() {
        let whole = extend_checksum(empty_chunk_checksum(PartNum(7), 3), "abcdef");
        assert_eq!(
            extend_checksum(extend_checksum(empty_chunk_checksum(PartNum(7), 3), "abc"), "def"),
            whole
        );
        assert_ne!(extend_checksum(empty_chunk_checksum(PartNum(7), 4), "abcdef"), whole);
    }

    #[test]
    fn stub_needs_no_checksum_but_event_does() {
        let mut event = ChecksummedEvent {
            cursor: 1,
            session: Some(SessionNum(1)),
            seq: Some(1),
            sync_seq: None,
            kind: EventKind::TodoUpdated.code(),
            entity: 1,
            actor: 1,
            time: 1,
            version: 1,
            payload: Some("{}"),
            refs: None,
            text: None,
        };
        assert!(event.is_intact(Some(event.checksum())));
        assert!(!event.is_intact(None));
        let before = event.checksum();
        event.payload = None;
        assert!(event.is_intact(None));
        assert!(!event.is_intact(Some(before)));
    }
}
