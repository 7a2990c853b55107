//! One thing at a time: sessions, messages, parts by their numbers.

use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::Value;
use turnstone_core::event::EventKind;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, Part, PartBody, Project, Session};

use crate::blob::BlobDir;
use crate::error::{Result, StoreError};
use crate::payload;
use crate::table_row_ids::{MessageNum, PartNum, SessionNum, TurnNum};

/// The payload of an event, long strings put back.
pub(crate) fn load_payload(conn: &Connection, blobs: &BlobDir, cursor: i64) -> Result<Value> {
    let row: Option<(Option<String>, Option<String>)> = conn
        .prepare_cached("SELECT payload, refs FROM event WHERE cursor = ?1")?
        .query_row([cursor], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (json, refs) = row.unwrap_or_default();
    restore_row_payload(conn, blobs, cursor, json.as_deref(), refs.as_deref())
}

/// The payload of the event at `cursor` from the columns of its row, which may be missing.
pub(super) fn restore_row_payload(
    conn: &Connection,
    blobs: &BlobDir,
    cursor: i64,
    json: Option<&str>,
    refs: Option<&str>,
) -> Result<Value> {
    let json = json.ok_or_else(|| StoreError::Corrupt {
        file: "turnstone.db".into(),
        reason: format!("event {cursor} is missing; `turnstone doctor` can tell more"),
    })?;
    payload::restore_long_strings(conn, blobs, json, refs)
}

/// A session by its number.
pub(crate) fn load_session(conn: &Connection, blobs: &BlobDir, num: SessionNum) -> Result<Session> {
    let image: i64 = conn
        .prepare_cached("SELECT image FROM session WHERE num = ?1")?
        .query_row([num], |row| row.get(0))?;
    Ok(serde_json::from_value(load_payload(conn, blobs, image)?)?)
}

/// A project by its number.
pub(crate) fn load_project(conn: &Connection, blobs: &BlobDir, num: i64) -> Result<Project> {
    let image: i64 = conn
        .prepare_cached("SELECT image FROM project WHERE num = ?1")?
        .query_row([num], |row| row.get(0))?;
    Ok(serde_json::from_value(load_payload(conn, blobs, image)?)?)
}

/// Where a message is, and the turn it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageLocation {
    pub(crate) num: MessageNum,
    pub(crate) session: SessionNum,
    pub(crate) image: i64,
    pub(crate) turn: Option<TurnNum>,
}

/// Where a message is.
pub(crate) fn find_message(conn: &Connection, id: &MessageId) -> Result<Option<MessageLocation>> {
    Ok(conn
        .prepare_cached("SELECT num, session, image, turn FROM message WHERE id = ?1")?
        .query_row([id.as_str()], |row| {
            Ok(MessageLocation {
                num: row.get(0)?,
                session: row.get(1)?,
                image: row.get(2)?,
                turn: row.get(3)?,
            })
        })
        .optional()?)
}

/// A message from its stored image.
pub(crate) fn load_message(
    conn: &Connection,
    blobs: &BlobDir,
    session: &SessionId,
    image: i64,
) -> Result<Message> {
    message_from_payload(session, load_payload(conn, blobs, image)?)
}

/// A message from its stored payload.
pub(super) fn message_from_payload(session: &SessionId, mut value: Value) -> Result<Message> {
    let id = take_id(&mut value)?;
    let body = serde_json::from_value(value["data"].take())?;
    let id = MessageId::try_from(id).map_err(|e| StoreError::Internal(e.to_string()))?;
    Ok(Message { id, session: session.clone(), body })
}

pub(super) fn take_id(value: &mut Value) -> Result<String> {
    let Value::String(id) = value["id"].take() else {
        return Err(StoreError::Internal("a stored payload has no id".to_owned()));
    };
    Ok(id)
}

/// Where a part is and what of its text was streamed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartLocation {
    pub(crate) num: PartNum,
    pub(crate) message: MessageNum,
    pub(crate) session: SessionNum,
    pub(crate) image: i64,
    pub(crate) text_len: Option<i64>,
}

impl PartLocation {
    /// Reads the columns `num, message, session, image, text_len`, which a query names first.
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            num: row.get(0)?,
            message: row.get(1)?,
            session: row.get(2)?,
            image: row.get(3)?,
            text_len: row.get(4)?,
        })
    }
}

/// Where a part is.
pub(crate) fn find_part(conn: &Connection, id: &PartId) -> Result<Option<PartLocation>> {
    Ok(conn
        .prepare_cached("SELECT num, message, session, image, text_len FROM part WHERE id = ?1")?
        .query_row([id.as_str()], PartLocation::from_row)
        .optional()?)
}

/// A part with its text.
pub(crate) fn load_part(
    conn: &Connection,
    blobs: &BlobDir,
    owner: (&SessionId, &MessageId),
    found: PartLocation,
) -> Result<Part> {
    let value = load_payload(conn, blobs, found.image)?;
    part_from_payload(conn, owner, found.num, value, found.text_len)
}

/// A part from its stored payload and the length its streamed text had at the time.
pub(super) fn part_from_payload(
    conn: &Connection,
    owner: (&SessionId, &MessageId),
    num: PartNum,
    mut value: Value,
    text_len: Option<i64>,
) -> Result<Part> {
    let id = take_id(&mut value)?;
    let mut data = value["data"].take();
    if let Some(len) = text_len {
        data["text"] = Value::String(load_part_text(conn, num, len)?);
    }
    let id = PartId::try_from(id).map_err(|e| StoreError::Internal(e.to_string()))?;
    Ok(Part {
        id,
        session: owner.0.clone(),
        message: owner.1.clone(),
        body: PartBody::parse_lenient(data)?,
    })
}

/// The first `len` bytes of a part's streamed text.
pub(crate) fn load_part_text(conn: &Connection, part: PartNum, len: i64) -> Result<String> {
    let len = usize::try_from(len).unwrap_or(0);
    let mut text = String::with_capacity(len);
    let mut statement =
        conn.prepare_cached("SELECT text FROM chunk WHERE part = ?1 ORDER BY start")?;
    let mut rows = statement.query([part])?;
    while text.len() < len {
        let Some(row) = rows.next()? else { break };
        text.push_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    }
    if text.len() < len || !text.is_char_boundary(len) {
        return Err(StoreError::Corrupt {
            file: "turnstone.db".into(),
            reason: format!("the text of part {part} is shorter than its event says"),
        });
    }
    text.truncate(len);
    Ok(text)
}

/// The parts of a message, in order.
pub(crate) fn find_parts(
    conn: &Connection,
    session: SessionNum,
    message: MessageNum,
) -> Result<Vec<PartLocation>> {
    let mut statement = conn.prepare_cached(
        "SELECT num, message, session, image, text_len FROM part
         WHERE session = ?1 AND message = ?2 ORDER BY num",
    )?;
    let rows = statement.query_map((session, message), PartLocation::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The open turn of a session, if any.
pub(crate) fn find_open_turn(conn: &Connection, session: SessionNum) -> Result<Option<TurnNum>> {
    Ok(conn
        .prepare_cached("SELECT num FROM turn WHERE session = ?1 AND ended IS NULL")?
        .query_row([session], |row| row.get(0))
        .optional()?)
}

/// Tells whether somebody asked for a turn to be aborted; looks at what happened since it began.
pub(crate) fn is_abort_requested(
    conn: &Connection,
    session: SessionNum,
    turn: TurnNum,
) -> Result<bool> {
    Ok(conn
        .prepare_cached(
            "SELECT 1 FROM event WHERE cursor > ?2 AND session = ?1 AND entity = ?2 AND kind = ?3",
        )?
        .exists((session, turn, EventKind::TurnAbortAsked.code()))?)
}
