//! A conversation to be copied: the bodies of parts as they are stored.

use rusqlite::Row;
use turnstone_core::fork::CopiedMessage;
use turnstone_core::id::{MessageId, PartId, SessionId};

use super::list::{SELECT_MESSAGES, SELECT_PARTS};
use super::load::{message_from_payload, part_from_payload};
use super::reader::parse_id;
use super::wire_json::inline_entity;
use crate::error::Result;
use crate::read::list::MessageQueries;

impl MessageQueries<'_> {
    /// All messages of a session in stream order, with their parts in JSON as a
    /// [`turnstone_core::model::PartBody`] is written.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn list_with_raw_parts(&self, session: &SessionId) -> Result<Vec<CopiedMessage<String>>> {
        let owner = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(SELECT_MESSAGES)?;
        let mut rows = statement.query((owner, i64::MAX, i64::MAX))?;
        let mut found: Vec<(i64, CopiedMessage<String>)> = Vec::new();
        while let Some(row) = rows.next()? {
            let message =
                message_from_payload(session, super::list::row_payload(&self.read, row, 1)?)?;
            found.push((row.get(0)?, (message, Vec::new())));
        }
        found.reverse();
        let mut statement = self.read.conn.prepare_cached(SELECT_PARTS)?;
        let mut rows = statement.query((owner, i64::MIN, i64::MAX))?;
        let mut at = 0;
        while let Some(row) = rows.next()? {
            let owner: i64 = row.get(1)?;
            while found.get(at).is_some_and(|(num, _)| *num < owner) {
                at += 1;
            }
            let Some((_, (message, parts))) = found.get_mut(at) else { break };
            parts.push(self.raw_part((session, &message.id), row)?);
        }
        Ok(found.into_iter().map(|(_, message)| message).collect())
    }

    fn raw_part(&self, owner: (&SessionId, &MessageId), row: &Row<'_>) -> Result<(PartId, String)> {
        let text_len: Option<i64> = row.get(2)?;
        if let (None, Some(stored)) = (text_len, inline_entity(row, 4)?) {
            return Ok((parse_id(stored.id.into_owned())?, stored.data.get().to_owned()));
        }
        let part = part_from_payload(
            self.read.conn,
            owner,
            row.get(0)?,
            super::list::row_payload(&self.read, row, 3)?,
            text_len,
        )?;
        Ok((part.id, serde_json::to_string(&part.body)?))
    }
}
