//! The outline of a session: which messages and parts there are, without what they say.

use crate::error::StoreError;
use rusqlite::OptionalExtension;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::time::LogCursor;

use super::reader::parse_id;
use crate::error::Result;
use crate::read::list::MessageQueries;

/// How many of the newest messages are searched for the greatest id.
const RECENT_MESSAGES: i64 = 64;

/// A message and its parts, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageOutlineRow {
    /// The message.
    pub message: MessageId,
    /// True if a person wrote it.
    pub is_user: bool,
    /// Its parts and their types, in stream order.
    pub parts: Vec<(PartId, String)>,
    /// Where in the log each part appeared, in the same order.
    pub part_cursors: Vec<LogCursor>,
}

impl MessageQueries<'_> {
    /// The messages of a session with their parts, in stream order.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn outline(&self, session: &SessionId) -> Result<Vec<MessageOutlineRow>> {
        let num = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(
            "SELECT message.id, message.role, part.id, part.type, part.num FROM message
             LEFT JOIN part ON part.session = message.session AND part.message = message.num
             WHERE message.session = ?1 ORDER BY message.num, part.num",
        )?;
        let mut rows = statement.query([num])?;
        let mut found: Vec<MessageOutlineRow> = Vec::new();
        while let Some(row) = rows.next()? {
            let message: MessageId = parse_id(row.get(0)?)?;
            if found.last().is_none_or(|last| last.message != message) {
                let is_user = row.get::<_, String>(1)? == "user";
                let (parts, appeared) = (Vec::new(), Vec::new());
                found.push(MessageOutlineRow { message, is_user, parts, part_cursors: appeared });
            }
            let part: Option<String> = row.get(2)?;
            if let (Some(part), Some(last)) = (part, found.last_mut()) {
                last.parts.push((parse_id(part)?, row.get(3)?));
                last.part_cursors.push(LogCursor(row.get(4)?));
            }
        }
        Ok(found)
    }

    /// The message that a part is of.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPart`].
    pub fn of_part(&self, session: &SessionId, part: &PartId) -> Result<MessageId> {
        let num = self.read.session_num(session)?;
        let message: Option<String> = self
            .read
            .conn
            .prepare_cached(
                "SELECT message.id FROM part JOIN message ON message.num = part.message
                 WHERE part.id = ?1 AND part.session = ?2",
            )?
            .query_row((part.as_str(), num), |row| row.get(0))
            .optional()?;
        let missing = || StoreError::NoPart { session: session.clone(), part: part.clone() };
        parse_id(message.ok_or_else(missing)?)
    }

    /// The greatest id among the newest messages of a session: what a new one has to sort after.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn greatest_recent_id(&self, session: &SessionId) -> Result<Option<MessageId>> {
        let num = self.read.session_num(session)?;
        let id: Option<String> = self
            .read
            .conn
            .prepare_cached(
                "SELECT max(id) FROM
                   (SELECT id FROM message WHERE session = ?1 ORDER BY num DESC LIMIT ?2)",
            )?
            .query_row((num, RECENT_MESSAGES), |row| row.get(0))?;
        id.map(parse_id).transpose()
    }
}
