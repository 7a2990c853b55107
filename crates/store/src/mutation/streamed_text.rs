//! Streamed text: appended durably, stored once (R24).

use std::ops::Range;

use rusqlite::OptionalExtension;
use turnstone_core::event::EventKind;
use turnstone_core::id::{PartId, SessionId};
use turnstone_core::model::PartBody;
use turnstone_core::time::{LogCursor, SessionSeq};

use crate::checksum::{self, ChecksummedEvent};
use crate::error::{Result, StoreError};
use crate::mutation::message::MessageMutations;
use crate::read::{PartLocation, load_part};
use crate::table_row_ids::{MessageNum, PartNum, SessionNum};
use crate::tx::{EventDraft, EventPosition};

/// Deltas fill a row in place up to this size: it stays within one page, so it costs one page.
const GROWING_CHUNK_BYTES: usize = 1800;
/// The longest row.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

impl MessageMutations<'_> {
    /// Appends `delta` to the text of a text or reasoning part.
    ///
    /// Deltas of one part that meet in one group become one event. An empty delta changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPart`], or [`StoreError::Invalid`] if the part has no text to append to or its
    /// text was replaced or cut back since it was streamed.
    pub fn append_text(
        &self,
        session: &SessionId,
        part: &PartId,
        delta: &str,
    ) -> Result<Option<EventPosition>> {
        if delta.is_empty() {
            return Ok(None);
        }
        let found = self.require_part(session, part)?;
        let from = match found.text_len {
            Some(len) => len,
            None => self.move_text_to_chunks(session, part, found)?,
        };
        self.tx.count_bytes(delta.len() as u64);
        self.store_chunks(found.num, from, delta)?;
        let to = from + delta.len() as i64;
        if let Some(extended) = self.extend_delta(found, from..to)? {
            return Ok(Some(extended));
        }
        let draft = EventDraft::new(Some(found.session), EventKind::PartDelta, Some(found.num.0));
        self.tx.append(&draft.text(from..to)).map(Some)
    }

    /// Moves the text a part was created with into its first rows; returns its length.
    fn move_text_to_chunks(
        &self,
        session: &SessionId,
        part: &PartId,
        found: PartLocation,
    ) -> Result<i64> {
        let message = self.id_of(found.message)?;
        let stored = load_part(self.tx.conn, self.tx.blobs, (session, &message), found)?;
        #[expect(clippy::wildcard_enum_match_arm, reason = "whatever has no text is refused")]
        let text = match stored.body {
            PartBody::Text(text) => text.text,
            PartBody::Reasoning(text) => text.text,
            _ => return Err(StoreError::Invalid(format!("part {part} has no text to append to"))),
        };
        let replaced = self
            .tx
            .conn
            .prepare_cached("SELECT 1 FROM chunk WHERE part = ?1")?
            .exists([found.num])?;
        if replaced {
            let why = format!("the text of part {part} was replaced; write it whole");
            return Err(StoreError::Invalid(why));
        }
        self.tx.count_bytes(text.len() as u64);
        self.store_chunks(found.num, 0, &text)?;
        Ok(text.len() as i64)
    }

    fn id_of(&self, num: MessageNum) -> Result<turnstone_core::id::MessageId> {
        let text: String = self
            .tx
            .conn
            .prepare_cached("SELECT id FROM message WHERE num = ?1")?
            .query_row([num], |row| row.get(0))?;
        text.parse().map_err(|e| StoreError::Internal(format!("{e}")))
    }

    /// Writes `text` at byte `start`: grows the last row while it is small, then starts new ones.
    fn store_chunks(&self, part: PartNum, mut start: i64, mut text: &str) -> Result<()> {
        let last: Option<(i64, i64, i64, Option<i64>)> = self
            .tx
            .conn
            .prepare_cached(
                "SELECT num, start, octet_length(text), sum FROM chunk WHERE part = ?1
                 ORDER BY start DESC LIMIT 1",
            )?
            .query_row([part], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        if let Some((num, at, len, sum)) = last {
            // What was streamed stays as it was: earlier events refer to it by its length.
            if at + len != start {
                let why = "the text of the part was cut back; write it whole".to_owned();
                return Err(StoreError::Invalid(why));
            }
            if len as usize + text.len() <= GROWING_CHUNK_BYTES {
                self.tx
                    .conn
                    .prepare_cached("UPDATE chunk SET text = text || ?2, sum = ?3 WHERE num = ?1")?
                    .execute((num, text, sum.map(|sum| checksum::extend_checksum(sum, text))))?;
                return Ok(());
            }
        }
        while !text.is_empty() {
            let (head, rest) = text.split_at(floor_boundary(text, MAX_CHUNK_BYTES));
            self.insert_chunk(part, start, head)?;
            start += head.len() as i64;
            text = rest;
        }
        Ok(())
    }

    fn insert_chunk(&self, part: PartNum, start: i64, text: &str) -> Result<()> {
        self.tx
            .conn
            .prepare_cached("INSERT INTO chunk (part, start, text, sum) VALUES (?1, ?2, ?3, ?4)")?
            .execute((
                part,
                start,
                text,
                checksum::extend_checksum(checksum::empty_chunk_checksum(part, start), text),
            ))?;
        Ok(())
    }

    /// Lets the session's newest event, if it is an unseen delta of this part, reach further.
    fn extend_delta(
        &self,
        found: PartLocation,
        Range { start: from, end: to }: Range<i64>,
    ) -> Result<Option<EventPosition>> {
        if self.tx.ctx.expected_seq.is_some() {
            return Ok(None);
        }
        let Some(mut event) = self.find_extendable_delta(found, from)? else { return Ok(None) };
        event.text = event.text.map(|(begin, _)| (begin, to));
        self.tx
            .conn
            .prepare_cached("UPDATE event SET text_to = ?2, sum = ?3 WHERE cursor = ?1")?
            .execute((event.cursor, to, event.checksum()))?;
        self.check_lease(found.session)?;
        self.tx
            .conn
            .prepare_cached("UPDATE part SET text_len = ?2 WHERE num = ?1")?
            .execute((found.num, to))?;
        let appended =
            EventPosition { cursor: LogCursor(event.cursor), seq: event.seq.map(SessionSeq) };
        self.tx.set_last_appended(appended);
        Ok(Some(appended))
    }

    /// The session's newest event, if it is a delta of this part up to `to` that nobody has seen.
    fn find_extendable_delta(
        &self,
        found: PartLocation,
        to: i64,
    ) -> Result<Option<ChecksummedEvent<'static>>> {
        let kind = EventKind::PartDelta.code();
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT cursor, seq, sync_seq, actor, time, version, text_from FROM event
                 WHERE cursor = (SELECT cursor FROM event WHERE session = ?1
                                 ORDER BY seq DESC LIMIT 1)
                   AND cursor > ?2 AND kind = ?4 AND entity = ?3 AND text_to = ?5",
            )?
            .query_row(
                (found.session, self.tx.group.committed_cursor, found.num, kind, to),
                |row| {
                    Ok(ChecksummedEvent {
                        cursor: row.get(0)?,
                        session: Some(found.session),
                        seq: row.get(1)?,
                        sync_seq: row.get(2)?,
                        kind,
                        entity: found.num.0,
                        actor: row.get(3)?,
                        time: row.get(4)?,
                        version: row.get(5)?,
                        payload: None,
                        refs: None,
                        text: Some((row.get(6)?, to)),
                    })
                },
            )
            .optional()?)
    }

    /// An extended event assigns no new number, so the lease is compared by itself.
    fn check_lease(&self, session: SessionNum) -> Result<()> {
        let Some(lease) = &self.tx.ctx.lease else { return Ok(()) };
        let holds = self
            .tx
            .conn
            .prepare_cached(
                "SELECT 1 FROM stream WHERE session = ?1 AND epoch = ?2 AND owner = ?3",
            )?
            .exists((session, lease.epoch, lease.owner.as_str()))?;
        if holds { Ok(()) } else { Err(StoreError::Fenced(lease.session.clone())) }
    }
}

/// The largest index not over `limit` that does not split a character.
fn floor_boundary(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::floor_boundary;

    #[test]
    fn chunk_boundary_never_splits_a_character() {
        assert_eq!(floor_boundary("aäb", 2), 1);
        assert_eq!(floor_boundary("aäb", 3), 3);
        assert_eq!(floor_boundary("ab", 9), 2);
    }
}
