//! The state of a session at a boundary, from the log alone (R25).
//!
//! A boundary is the beginning or end of a turn or a step, see [`turnstone_core::retention`]. What
//! compaction leaves is enough to rebuild the state at each of them.

use std::collections::BTreeMap;

use rusqlite::Row;
use turnstone_core::event::{EntityClass, EventKind};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, Todo};
use turnstone_core::retention::is_boundary;
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};

use super::list::MessageWithParts;
use super::load::{load_message, load_payload, part_from_payload};
use super::reader::ReadTx;
use crate::error::{Result, StoreError};
use crate::table_row_ids::{PartNum, SessionNum};

/// A place a session can be reverted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBoundary {
    /// Its place in the session's stream.
    pub seq: SessionSeq,
    /// Its place in the log.
    pub cursor: LogCursor,
    /// What happened there: a turn's event, or the first image of a step's part.
    pub kind: EventKind,
    /// The number of the turn or the part.
    pub entity: i64,
    /// When.
    pub time: EpochMillis,
}

/// What a session was at a boundary.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionAtBoundary {
    /// The session.
    pub session: Session,
    /// Its messages with their parts, in order.
    pub messages: Vec<MessageWithParts>,
    /// Its to-do list.
    pub todos: Vec<Todo>,
}

/// The newest image of each thing, by number; the numbers are in the order of the stream.
#[derive(Default)]
struct NewestImages {
    session: Option<i64>,
    todos: Option<i64>,
    messages: BTreeMap<i64, i64>,
    /// A part's image, and how long its text was streamed since.
    parts: BTreeMap<i64, (i64, Option<i64>)>,
}

impl NewestImages {
    /// Takes the next event: `(cursor, kind, entity, length of streamed text)`.
    fn push(
        &mut self,
        LogCursor(cursor): LogCursor,
        kind: EventKind,
        entity: i64,
        text: Option<i64>,
    ) {
        match kind.class() {
            EntityClass::Session => self.session = Some(cursor),
            EntityClass::Todo => self.todos = Some(cursor),
            EntityClass::Message if kind == EventKind::MessageRemoved => {
                self.messages.remove(&entity);
            }
            EntityClass::Message => {
                self.messages.insert(entity, cursor);
            }
            EntityClass::Part if kind == EventKind::PartRemoved => {
                self.parts.remove(&entity);
            }
            EntityClass::Part if kind == EventKind::PartDelta => {
                if let Some(part) = self.parts.get_mut(&entity) {
                    part.1 = text;
                }
            }
            EntityClass::Part => {
                self.parts.insert(entity, (cursor, None));
            }
            EntityClass::Project
            | EntityClass::Turn
            | EntityClass::Status
            | EntityClass::Request
            | EntityClass::Approval
            | EntityClass::Input
            | EntityClass::Share
            | EntityClass::Diff
            | EntityClass::Change
            | EntityClass::Operation => {}
        }
    }
}

const BOUNDARIES: &str = "
SELECT seq, cursor, kind, entity, time,
       CASE WHEN cursor = entity THEN payload ->> '$.data.type' END
FROM event WHERE session = ?1 AND seq > ?2 ORDER BY seq";

/// Reads what a session was at an earlier point of its stream.
#[derive(Clone, Copy)]
pub struct HistoryQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl HistoryQueries<'_> {
    /// The boundaries of a session after `seq`, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn boundaries(
        &self,
        session: &SessionId,
        seq: SessionSeq,
        limit: usize,
    ) -> Result<Vec<StreamBoundary>> {
        let num = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(BOUNDARIES)?;
        let mut rows = statement.query((num, seq.0))?;
        let mut found = Vec::new();
        while let (true, Some(row)) = (found.len() < limit, rows.next()?) {
            found.extend(boundary_from_row(row)?);
        }
        Ok(found)
    }

    /// What a session was at the boundary `seq`: after the event there, before the next one.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoBoundary`] for another place than a boundary, [`StoreError::BeyondEnd`] for
    /// one the session has not reached, [`StoreError::NoSession`].
    pub fn session_at_boundary(
        &self,
        session: &SessionId,
        seq: SessionSeq,
    ) -> Result<SessionAtBoundary> {
        let num = self.read.session_num(session)?;
        let end = self.read.sessions().seq(session)?;
        if seq > end {
            return Err(StoreError::BeyondEnd { session: session.clone(), seq, end });
        }
        let found = self.boundaries(session, SessionSeq(seq.0.saturating_sub(1)), 1)?;
        if found.first().is_none_or(|boundary| boundary.seq != seq) {
            return Err(StoreError::NoBoundary { session: session.clone(), seq });
        }
        self.assemble_session(session, &self.newest_images(num, seq)?)
    }

    fn newest_images(&self, session: SessionNum, seq: SessionSeq) -> Result<NewestImages> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT cursor, kind, entity, text_to FROM event
             WHERE session = ?1 AND seq <= ?2 AND (payload IS NOT NULL OR text_to IS NOT NULL)
             ORDER BY seq",
        )?;
        let mut rows = statement.query((session, seq.0))?;
        let mut images = NewestImages::default();
        while let Some(row) = rows.next()? {
            images.push(
                LogCursor(row.get(0)?),
                parse_event_kind(row.get(1)?)?,
                row.get(2)?,
                row.get(3)?,
            );
        }
        Ok(images)
    }

    fn assemble_session(&self, id: &SessionId, images: &NewestImages) -> Result<SessionAtBoundary> {
        let image = images.session.ok_or_else(|| StoreError::NoSession(id.clone()))?;
        let session =
            serde_json::from_value(load_payload(self.read.conn, self.read.blobs, image)?)?;
        let todos = match images.todos {
            Some(image) => {
                let mut value = load_payload(self.read.conn, self.read.blobs, image)?;
                serde_json::from_value(value["todos"].take())?
            }
            None => Vec::new(),
        };
        let mut messages = BTreeMap::new();
        for (num, image) in &images.messages {
            let message = load_message(self.read.conn, self.read.blobs, id, *image)?;
            messages.insert(*num, MessageWithParts { message, parts: Vec::new() });
        }
        for (num, (image, streamed)) in &images.parts {
            let value = load_payload(self.read.conn, self.read.blobs, *image)?;
            let owner = value["message"].as_i64().and_then(|num| messages.get_mut(&num));
            // A removed message took its parts with it.
            let Some(owner) = owner else { continue };
            let len = streamed.or_else(|| value["text"]["len"].as_i64());
            let part = part_from_payload(
                self.read.conn,
                (id, &owner.message.id),
                PartNum(*num),
                value,
                len,
            )?;
            owner.parts.push(part);
        }
        Ok(SessionAtBoundary { session, messages: messages.into_values().collect(), todos })
    }
}

fn parse_event_kind(code: i64) -> Result<EventKind> {
    EventKind::from_code(code).ok_or_else(|| StoreError::Internal(format!("event kind {code}")))
}

/// The boundary in a row, if it is one.
fn boundary_from_row(row: &Row<'_>) -> Result<Option<StreamBoundary>> {
    let kind = parse_event_kind(row.get(2)?)?;
    let first_type: Option<String> = row.get(5)?;
    if !is_boundary(kind, first_type.as_deref()) {
        return Ok(None);
    }
    Ok(Some(StreamBoundary {
        seq: SessionSeq(row.get(0)?),
        cursor: LogCursor(row.get(1)?),
        kind,
        entity: row.get(3)?,
        time: EpochMillis(row.get(4)?),
    }))
}
