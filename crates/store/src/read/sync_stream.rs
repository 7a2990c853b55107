//! The stream as OpenCode numbers it (R25): its durable types only, from 0 without a gap.

use std::collections::HashMap;

use turnstone_core::event::{EntityClass, EventKind};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, Part, Session};
use turnstone_core::time::{EpochMillis, LogCursor};

use super::load::{load_message, load_payload, part_from_payload, take_id};
use super::reader::{ReadTx, parse_id};
use crate::error::{Result, StoreError};
use crate::table_row_ids::{MessageNum, PartNum, SessionNum};

/// One event of the numbered stream.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncEvent {
    /// Its number: 0, 1, 2 … within the session.
    pub sync_seq: i64,
    /// The place of the number in the log; stays the same when what it said is compacted.
    pub cursor: LogCursor,
    /// When it happened.
    pub time: EpochMillis,
    /// What it is served as; for a compacted place the kind of the event that stands in.
    pub kind: EventKind,
    /// What it says.
    pub body: SyncBody,
    /// True if the event at this place was compacted and a later one of the same thing stands in.
    pub compacted: bool,
}

/// What an event of the numbered stream says: all of a thing, or that it is gone.
#[derive(Clone, Debug, PartialEq)]
pub enum SyncBody {
    /// A session was created or changed.
    Session(Box<Session>),
    /// The session was deleted.
    SessionDeleted,
    /// A message was written.
    Message(Box<Message>),
    /// A message was removed with its parts.
    MessageRemoved(MessageId),
    /// A part was written.
    Part(Box<Part>),
    /// A part was removed.
    PartRemoved {
        /// The message it belonged to.
        message: MessageId,
        /// The part.
        part: PartId,
    },
}

/// A number, and the event that is served for it.
struct SyncSlot {
    sync_seq: i64,
    cursor: i64,
    time: i64,
    served: Option<(i64, EventKind, i64)>,
}

const SYNC_EVENTS: &str = "
SELECT cursor, sync_seq, kind, entity, time, payload IS NULL FROM event
WHERE session = ?1 AND sync_seq > ?2 ORDER BY sync_seq";

/// Reads the numbered stream of OpenCode's durable events.
#[derive(Clone, Copy)]
pub struct SyncQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl SyncQueries<'_> {
    /// The events of a session numbered after `after` (-1 for all), at most `limit`, without a gap.
    ///
    /// A place that was compacted is served with the next retained event of the same thing: its
    /// next image, or its removal. That event comes before the next boundary, so a reader that applies
    /// the stream in order has the right state at each of them.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`] if there never was such a session.
    pub fn after(&self, session: &SessionId, after: i64, limit: usize) -> Result<Vec<SyncEvent>> {
        let num = super::log::stream_num(&self.read, session)?;
        let slots = self.slots(num, after, limit)?;
        let mut names = HashMap::new();
        let mut events = Vec::with_capacity(slots.len());
        for slot in slots {
            let (cursor, kind, entity) = slot.served.ok_or_else(|| StoreError::Corrupt {
                file: "turnstone.db".into(),
                reason: format!("nothing stands for number {} of {session}", slot.sync_seq),
            })?;
            let body = self.body((session, num), (LogCursor(cursor), kind, entity), &mut names)?;
            events.push(SyncEvent {
                sync_seq: slot.sync_seq,
                cursor: LogCursor(slot.cursor),
                time: EpochMillis(slot.time),
                kind,
                body,
                compacted: cursor != slot.cursor,
            });
        }
        Ok(events)
    }

    /// Reads on behind the last wanted number until something stands for each.
    fn slots(&self, session: SessionNum, after: i64, limit: usize) -> Result<Vec<SyncSlot>> {
        let mut statement = self.read.conn.prepare_cached(SYNC_EVENTS)?;
        let mut rows = statement.query((session, after))?;
        let mut slots: Vec<SyncSlot> = Vec::new();
        let mut open: HashMap<(EntityClass, i64), Vec<usize>> = HashMap::new();
        while slots.len() < limit || !open.is_empty() {
            let Some(row) = rows.next()? else { break };
            let (cursor, sync_seq): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (code, entity, time): (i64, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
            let kind = EventKind::from_code(code)
                .ok_or_else(|| StoreError::Internal(format!("event kind {code}")))?;
            let stub = row.get::<_, bool>(5)? && kind != EventKind::SessionDeleted;
            let key = (kind.class(), entity);
            let expected = slots.last().map_or(after, |slot| slot.sync_seq) + 1;
            // What a deleted session had is purged; its tombstone stands for all of it.
            for missing in expected..sync_seq {
                if slots.len() == limit {
                    break;
                }
                open.entry((EntityClass::Session, session.0)).or_default().push(slots.len());
                slots.push(SyncSlot { sync_seq: missing, cursor, time, served: None });
            }
            if slots.len() < limit {
                if stub {
                    open.entry(key).or_default().push(slots.len());
                }
                let served = (!stub).then_some((cursor, kind, entity));
                slots.push(SyncSlot { sync_seq, cursor, time, served });
            }
            if !stub {
                for index in open.remove(&key).unwrap_or_default() {
                    slots[index].served = Some((cursor, kind, entity));
                }
            }
        }
        Ok(slots)
    }

    fn body(
        &self,
        (session, owner): (&SessionId, SessionNum),
        (cursor, kind, entity): (LogCursor, EventKind, i64),
        names: &mut HashMap<MessageNum, MessageId>,
    ) -> Result<SyncBody> {
        if kind == EventKind::SessionDeleted {
            return Ok(SyncBody::SessionDeleted);
        }
        if kind == EventKind::MessageUpdated {
            let message = load_message(self.read.conn, self.read.blobs, session, cursor.0)?;
            names.insert(MessageNum(entity), message.id.clone());
            return Ok(SyncBody::Message(Box::new(message)));
        }
        let mut value = load_payload(self.read.conn, self.read.blobs, cursor.0)?;
        if kind.class() == EntityClass::Session {
            return Ok(SyncBody::Session(Box::new(serde_json::from_value(value)?)));
        }
        if kind == EventKind::MessageRemoved {
            return Ok(SyncBody::MessageRemoved(parse_id(take_id(&mut value)?)?));
        }
        let message =
            message_id(&self.read, owner, value["message"].as_i64().map(MessageNum), names)?;
        if kind == EventKind::PartRemoved {
            let part = parse_id(take_id(&mut value)?)?;
            return Ok(SyncBody::PartRemoved { message, part });
        }
        let len = value["text"]["len"].as_i64();
        let part =
            part_from_payload(self.read.conn, (session, &message), PartNum(entity), value, len)?;
        Ok(SyncBody::Part(Box::new(part)))
    }

    /// All sessions that live, oldest first, each with the number of its newest event.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_with_seq(&self) -> Result<Vec<(SessionId, i64)>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.id, stream.sync_seq FROM session
             JOIN stream ON stream.session = session.num WHERE hidden = 0 ORDER BY session.num",
        )?;
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let parsed = |row: rusqlite::Result<(String, i64)>| {
            let (id, number) = row?;
            Ok((parse_id(id)?, number))
        };
        rows.map(parsed).collect()
    }
}

/// The id of a message that exists or existed.
pub(super) fn message_id(
    read: &ReadTx<'_>,
    session: SessionNum,
    num: Option<MessageNum>,
    names: &mut HashMap<MessageNum, MessageId>,
) -> Result<MessageId> {
    let num = num.ok_or_else(|| StoreError::Internal("a part of no message".to_owned()))?;
    if let Some(id) = names.get(&num) {
        return Ok(id.clone());
    }
    // A removed message is still named by its events; the removal itself is never compacted.
    let id: String = read
        .conn
        .prepare_cached(
            "SELECT id FROM message WHERE num = ?2
             UNION ALL
             SELECT payload ->> '$.id' FROM event WHERE session = ?1 AND entity = ?2
               AND seq >= (SELECT seq FROM event WHERE cursor = ?2) AND payload IS NOT NULL
             LIMIT 1",
        )?
        .query_row((session, num), |row| row.get(0))?;
    let id: MessageId = parse_id(id)?;
    names.insert(num, id.clone());
    Ok(id)
}
