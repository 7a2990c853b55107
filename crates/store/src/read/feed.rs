//! The log resolved: each event as the thing it is about, ready to be sent to clients.
//!
//! What an event says does not depend on when it is read: a session's usage is counted up to the event
//! (see `usage_cache`), a part has the text it had. Only what compaction took away is missing, and seen to be.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, Row};
use serde_json::Value;
use turnstone_core::event::{EntityClass, EventKind};
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId, TurnId};
use turnstone_core::model::{
    Message, MessageFailure, Part, Project, RequestId, RequestState, Session, SessionFileDiff,
    SessionStatus, SessionUsage, Todo, UserRequest, WorktreeCreationEvent,
};
use turnstone_core::operation::{HeadTarget, SessionHead};
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};
use turnstone_core::turn::TurnEvent;

use super::event_decoding::{decode_session_event, decode_turn_event, row_bytes};
use super::historical_usage::UsageCache;
use super::load::{load_session, message_from_payload, part_from_payload, take_id};
use super::log::kind_and_payload;
use super::reader::{ReadTx, parse_id};
use crate::error::{Result, StoreError};
use crate::mutation::PromptDelivery;
use crate::table_row_ids::{MessageNum, PartNum, SessionNum};

/// A page ends when it holds this many bytes.
pub(super) const PAGE_BYTES: usize = 1 << 20;
/// Names that are remembered from page to page.
const MAX_CACHED_NAMES: usize = 4_096;

/// One event of the log, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedEvent {
    /// Its place in the log.
    pub cursor: LogCursor,
    /// When it happened.
    pub time: EpochMillis,
    /// What happened.
    pub kind: EventKind,
    /// True if it is the first event of the thing it is about.
    pub is_first: bool,
    /// Its session and its places there, if it belongs to one.
    pub session: Option<FeedSession>,
    /// What it says.
    pub body: FeedBody,
}

/// The session of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSession {
    /// The session.
    pub id: SessionId,
    /// The event's place in the session's stream.
    pub seq: SessionSeq,
    /// Its number among OpenCode's durable types (R25).
    pub sync_seq: Option<i64>,
    /// The directory and the project of the session; absent once it was deleted and purged.
    pub location: Option<(String, ProjectId)>,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedBody {
    /// A project was seen first or changed.
    Project(Box<Project>),
    /// A further checkout of a project was made, or could not be.
    Worktree {
        /// The project.
        project: ProjectId,
        /// What became of it.
        event: WorktreeCreationEvent,
    },
    /// A session was created or changed.
    Session(Box<HistoricalSession>),
    /// A session was deleted; what it last was, while that is still there.
    SessionDeleted(Option<Box<HistoricalSession>>),
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
    /// Text was appended to a part.
    PartDelta {
        /// The message.
        message: MessageId,
        /// The part.
        part: PartId,
        /// What was appended.
        text: String,
    },
    /// The to-do list was replaced.
    Todos(Vec<Todo>),
    /// The stored diff was replaced.
    Diff(Vec<SessionFileDiff>),
    /// A turn was accepted.
    TurnAccepted {
        /// The turn.
        turn: TurnId,
        /// The message that begins it.
        message: MessageId,
    },
    /// A turn moved.
    Turn {
        /// The turn.
        turn: TurnId,
        /// How it moved.
        event: TurnEvent,
        /// Why it did not end well, if it did not.
        error: Option<MessageFailure>,
    },
    /// What the session shows it is doing.
    Status(SessionStatus),
    /// Somebody is asked.
    RequestAsked(Box<UserRequest>),
    /// A request was answered or withdrawn.
    RequestResolved {
        /// The request.
        id: RequestId,
        /// How.
        state: RequestState,
    },
    /// A prompt was put into the inbox.
    PromptAdmitted {
        /// Its message.
        message: MessageId,
        /// When it is taken up.
        delivery: PromptDelivery,
    },
    /// A prompt was taken from the inbox.
    PromptPromoted(MessageId),
    /// Something with nothing to resolve: its kind says it.
    Other,
    /// Compaction took what it said; a later event of the same thing contains it (R25).
    Stub {
        /// True if its session was deleted: the tombstone says all that is left to say.
        is_deleted: bool,
    },
}

/// A session as it was after an event.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoricalSession {
    /// The session.
    pub session: Session,
    /// What its finished steps added up to.
    pub usage: SessionUsage,
    /// Where it stood, if not at its end.
    pub head: Option<SessionHead>,
    /// True if it stands there still.
    pub is_head_current: bool,
}

/// A page of the resolved log.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedPage {
    /// The events, in order.
    pub events: Vec<FeedEvent>,
    /// Where to go on.
    pub next: LogCursor,
}

/// What a reader remembers from page to page, so that nothing is looked up or summed twice.
#[derive(Default)]
pub struct FeedCache {
    pub(super) usage_cache: UsageCache,
    pub(super) messages: HashMap<MessageNum, MessageId>,
    parts: HashMap<PartNum, (PartId, MessageId)>,
}

impl FeedCache {
    fn trim(&mut self) {
        if self.messages.len() > MAX_CACHED_NAMES {
            self.messages.clear();
        }
        if self.parts.len() > MAX_CACHED_NAMES {
            self.parts.clear();
        }
        self.usage_cache.trim(MAX_CACHED_NAMES);
    }
}

const EVENTS_AFTER: &str = "
SELECT cursor, event.session, stream.id, stream.deleted, event.seq, event.sync_seq, kind, entity,
       time, payload, refs, text_from, text_to, session.directory, project.id
FROM event LEFT JOIN stream ON stream.session = event.session
LEFT JOIN session ON session.num = event.session
LEFT JOIN project ON project.num = session.project
WHERE cursor > ?1 ORDER BY cursor LIMIT ?2";

/// The columns of a row that say what the event is.
pub(super) struct FeedRow {
    pub(super) cursor: i64,
    pub(super) owner: Option<SessionNum>,
    pub(super) id: Option<SessionId>,
    is_deleted: bool,
    pub(super) seq: i64,
    sync_seq: Option<i64>,
    pub(super) kind: EventKind,
    pub(super) entity: i64,
    time: i64,
    payload: Option<Value>,
    text: Option<(i64, i64)>,
    place: Option<(String, ProjectId)>,
}

impl FeedRow {
    fn position(&self) -> (SessionNum, SessionSeq, LogCursor) {
        (
            self.owner.unwrap_or(SessionNum(self.entity)),
            SessionSeq(self.seq),
            LogCursor(self.cursor),
        )
    }
}

/// Reads the log resolved: each event as the entity it is about.
#[derive(Clone, Copy)]
pub struct FeedQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl FeedQueries<'_> {
    /// The events after `cursor`, resolved, at most `limit` and about a mebibyte.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn after(&self, cursor: LogCursor, limit: usize, memo: &mut FeedCache) -> Result<FeedPage> {
        memo.trim();
        let mut statement = self.read.conn.prepare_cached(EVENTS_AFTER)?;
        let mut rows = statement.query((cursor.0, limit as i64))?;
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let (true, Some(row)) = (bytes < PAGE_BYTES, rows.next()?) {
            bytes += row_bytes(row)?;
            let entry = self.row(row)?;
            events.push(self.resolve_row(entry, memo)?);
        }
        let next = events.last().map_or(cursor, |event| event.cursor);
        Ok(FeedPage { events, next })
    }

    pub(super) fn row(&self, row: &Row<'_>) -> Result<FeedRow> {
        let (kind, payload) = kind_and_payload(&self.read, row, 6, 9)?;
        let (directory, project): (Option<String>, Option<String>) = (row.get(13)?, row.get(14)?);
        let place = match (directory, project) {
            (Some(directory), Some(project)) => Some((directory, parse_id(project)?)),
            _ => None,
        };
        let (from, to): (Option<i64>, Option<i64>) = (row.get(11)?, row.get(12)?);
        Ok(FeedRow {
            cursor: row.get(0)?,
            owner: row.get(1)?,
            id: row.get::<_, Option<String>>(2)?.map(parse_id).transpose()?,
            is_deleted: row.get::<_, Option<bool>>(3)?.unwrap_or(false),
            seq: row.get::<_, Option<i64>>(4)?.unwrap_or(0),
            sync_seq: row.get(5)?,
            kind,
            entity: row.get(7)?,
            time: row.get(8)?,
            payload,
            text: from.zip(to),
            place,
        })
    }

    pub(super) fn resolve_row(
        &self,
        mut entry: FeedRow,
        memo: &mut FeedCache,
    ) -> Result<FeedEvent> {
        let body = self.body(&mut entry, memo)?;
        Ok(self.event(entry, body))
    }

    pub(super) fn event(&self, entry: FeedRow, body: FeedBody) -> FeedEvent {
        let (seq, sync_seq, place) = (SessionSeq(entry.seq), entry.sync_seq, entry.place);
        FeedEvent {
            cursor: LogCursor(entry.cursor),
            time: EpochMillis(entry.time),
            kind: entry.kind,
            is_first: entry.cursor == entry.entity,
            session: entry.id.map(|id| FeedSession { id, seq, sync_seq, location: place }),
            body,
        }
    }

    fn body(&self, entry: &mut FeedRow, memo: &mut FeedCache) -> Result<FeedBody> {
        if entry.kind == EventKind::PartDelta && entry.text.is_some() {
            return self.delta_body(entry, memo);
        }
        if entry.kind.has_no_payload() {
            return Ok(FeedBody::Other);
        }
        let Some(value) = entry.payload.take() else {
            return Ok(FeedBody::Stub { is_deleted: entry.is_deleted });
        };
        match entry.kind.class() {
            EntityClass::Project => self.project_body(entry, value),
            EntityClass::Session => self.session_body(entry, value, memo),
            EntityClass::Message | EntityClass::Part => self.message_body(entry, value, memo),
            EntityClass::Turn => decode_turn_event(entry.kind, value),
            EntityClass::Todo
            | EntityClass::Diff
            | EntityClass::Status
            | EntityClass::Request
            | EntityClass::Input => decode_session_event(entry.kind, value),
            EntityClass::Approval
            | EntityClass::Share
            | EntityClass::Change
            | EntityClass::Operation => Ok(FeedBody::Other),
        }
    }

    fn project_body(&self, entry: &FeedRow, value: Value) -> Result<FeedBody> {
        if entry.kind == EventKind::ProjectUpdated {
            return Ok(FeedBody::Project(Box::new(serde_json::from_value(value)?)));
        }
        let id: String = self
            .read
            .conn
            .prepare_cached("SELECT id FROM project WHERE num = ?1")?
            .query_row([entry.entity], |row| row.get(0))?;
        let event = serde_json::from_value(value)?;
        Ok(FeedBody::Worktree { project: parse_id(id)?, event })
    }

    fn session_body(
        &self,
        entry: &mut FeedRow,
        value: Value,
        memo: &mut FeedCache,
    ) -> Result<FeedBody> {
        if entry.kind != EventKind::SessionDeleted {
            let then =
                self.historical_session(entry.position(), serde_json::from_value(value)?, memo)?;
            return Ok(FeedBody::Session(Box::new(then)));
        }
        if entry.place.is_none() {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            entry.place = Some((text("directory"), parse_id(text("projectID"))?));
            return Ok(FeedBody::SessionDeleted(None));
        }
        let session = load_session(self.read.conn, self.read.blobs, SessionNum(entry.entity))?;
        let then = self.historical_session(entry.position(), session, memo)?;
        Ok(FeedBody::SessionDeleted(Some(Box::new(then))))
    }

    /// The session with what belongs to it but is not in its image.
    ///
    /// It is named by its number, the event by its places in the session's stream and in the log.
    pub(super) fn historical_session(
        &self,
        (owner, seq, cursor): (SessionNum, SessionSeq, LogCursor),
        session: Session,
        memo: &mut FeedCache,
    ) -> Result<HistoricalSession> {
        let usage =
            super::historical_usage::usage_at_seq(&self.read, owner, seq, &mut memo.usage_cache)?;
        let (head, is_still_there) = self.head_at(owner, cursor)?;
        Ok(HistoricalSession { session, usage, head, is_head_current: is_still_there })
    }

    /// Where a session stood after an event, and whether it stands there still.
    pub(super) fn head_at(
        &self,
        session: SessionNum,
        cursor: LogCursor,
    ) -> Result<(Option<SessionHead>, bool)> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT event.payload ->> '$.head', operation.done <= ?2
             FROM operation JOIN event ON event.cursor = operation.done
             WHERE operation.session = ?1 ORDER BY operation.done DESC",
        )?;
        let mut rows = statement.query((session, cursor.0))?;
        let mut is_still_there = true;
        while let Some(row) = rows.next()? {
            let (json, is_past): (String, bool) = (row.get(0)?, row.get(1)?);
            // A word is shown bare by the database, an object as JSON.
            let moved = serde_json::from_str(&json)
                .or_else(|_| serde_json::from_value::<HeadTarget>(Value::String(json)))?;
            match moved {
                HeadTarget::Stay => {}
                HeadTarget::Tip if is_past => return Ok((None, is_still_there)),
                HeadTarget::To(head) if is_past => return Ok((Some(head), is_still_there)),
                HeadTarget::Tip | HeadTarget::To(_) => is_still_there = false,
            }
        }
        Ok((None, is_still_there))
    }

    fn message_body(
        &self,
        entry: &FeedRow,
        mut value: Value,
        memo: &mut FeedCache,
    ) -> Result<FeedBody> {
        let (Some(owner), Some(session)) = (entry.owner, &entry.id) else {
            return Err(StoreError::Internal(format!("{} without a session", entry.kind)));
        };
        if entry.kind == EventKind::MessageRemoved {
            return Ok(FeedBody::MessageRemoved(parse_id(take_id(&mut value)?)?));
        }
        if entry.kind == EventKind::MessageUpdated {
            let message = message_from_payload(session, value)?;
            memo.messages.insert(MessageNum(entry.entity), message.id.clone());
            return Ok(FeedBody::Message(Box::new(message)));
        }
        let message = super::sync_stream::message_id(
            &self.read,
            owner,
            value["message"].as_i64().map(MessageNum),
            &mut memo.messages,
        )?;
        if entry.kind == EventKind::PartRemoved {
            return Ok(FeedBody::PartRemoved { message, part: parse_id(take_id(&mut value)?)? });
        }
        let len = value["text"]["len"].as_i64();
        let part = part_from_payload(
            self.read.conn,
            (session, &message),
            PartNum(entry.entity),
            value,
            len,
        )?;
        memo.parts.insert(PartNum(entry.entity), (part.id.clone(), message));
        Ok(FeedBody::Part(Box::new(part)))
    }

    fn delta_body(&self, entry: &FeedRow, memo: &mut FeedCache) -> Result<FeedBody> {
        let stub = FeedBody::Stub { is_deleted: entry.is_deleted };
        let (Some((from, to)), Some(owner)) = (entry.text, entry.owner) else { return Ok(stub) };
        let Some(delta) = super::log::load_delta(&self.read, PartNum(entry.entity), from..to)?
        else {
            return Ok(stub);
        };
        if let Some((part, message)) = memo.parts.get(&PartNum(entry.entity)) {
            let (message, part) = (message.clone(), part.clone());
            return Ok(FeedBody::PartDelta { message, part, text: delta.text });
        }
        // A removed part is still named by its events; the removal itself is never compacted.
        let named: Option<(String, MessageNum)> = self
            .read
            .conn
            .prepare_cached(
                "SELECT id, message FROM part WHERE num = ?2
                 UNION ALL
                 SELECT payload ->> '$.id', payload ->> '$.message' FROM event
                 WHERE session = ?1 AND entity = ?2 AND payload IS NOT NULL AND kind IN (30, 31)
                   AND seq >= (SELECT seq FROM event WHERE cursor = ?2)
                 LIMIT 1",
            )?
            .query_row((owner, entry.entity), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((part, message)) = named else { return Ok(stub) };
        let part: PartId = parse_id(part)?;
        let message =
            super::sync_stream::message_id(&self.read, owner, Some(message), &mut memo.messages)?;
        memo.parts.insert(PartNum(entry.entity), (part.clone(), message.clone()));
        Ok(FeedBody::PartDelta { message, part, text: delta.text })
    }
}
