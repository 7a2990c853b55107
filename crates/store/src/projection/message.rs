//! Projections of messages and parts.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use serde_json::Number;
use turnstone_core::event::EventKind;
use turnstone_core::model::{SessionUsage, TokenCounts};

use super::ProjectionEvent;
use super::session::{read_fields, require_session};
use crate::error::{Result, StoreError};
use crate::table_row_ids::{MessageNum, PartNum, SessionNum, TurnNum};

#[derive(Deserialize)]
struct MessageFields {
    id: String,
    turn: Option<TurnNum>,
    data: MessageDataFields,
}

#[derive(Deserialize)]
struct MessageDataFields {
    role: String,
    time: MessageTimeFields,
}

#[derive(Deserialize)]
struct MessageTimeFields {
    created: Number,
}

pub(super) fn apply_message_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    if event.kind == EventKind::MessageRemoved {
        let lost = message_usage(conn, MessageNum(event.entity))?;
        if let Some(session) = event.session {
            add_session_usage(conn, session, SessionUsage::default().minus(lost))?;
        }
        conn.prepare_cached("DELETE FROM message WHERE num = ?1")?.execute([event.entity])?;
        return Ok(());
    }
    let head: MessageFields = read_fields(event)?;
    let session = require_session(event)?;
    conn.prepare_cached(
        "INSERT INTO message (num, id, session, role, turn, created, actor, image)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6,
                 coalesce((SELECT actor FROM event WHERE cursor = ?1), ?7), ?8)
         ON CONFLICT (num) DO UPDATE SET role = excluded.role, turn = excluded.turn,
           created = excluded.created, image = excluded.image",
    )?
    .execute(params![
        event.entity,
        head.id,
        session,
        head.data.role,
        head.turn,
        head.data.time.created.as_f64().unwrap_or(0.0),
        event.actor,
        event.cursor,
    ])?;
    Ok(())
}

/// A part, and as much of its body as `D` reads.
#[derive(Deserialize)]
struct PartFields<'a, D> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    message: MessageNum,
    text: Option<PartTextFields>,
    data: D,
}

#[derive(Deserialize)]
struct PartTypeField<'a> {
    #[serde(rename = "type", borrow)]
    name: Cow<'a, str>,
}

/// True for the kinds of which more is read; what an unknown kind holds is nobody's business here.
fn has_projected_data(kind: &str) -> bool {
    matches!(kind, "tool" | "text" | "reasoning" | "step-finish")
}

#[derive(Deserialize)]
struct PartTextFields {
    len: i64,
}

#[derive(Deserialize)]
struct PartDataFields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    tool: Option<Cow<'a, str>>,
    #[serde(borrow)]
    state: Option<ToolStateFields<'a>>,
    cost: Option<Number>,
    tokens: Option<TokenCounts>,
    time: Option<PartTimeFields>,
}

#[derive(Deserialize)]
struct PartTimeFields {
    start: Option<Number>,
    end: Option<Number>,
}

#[derive(Deserialize)]
struct ToolStateFields<'a> {
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
}

impl<'a> PartDataFields<'a> {
    /// Nothing but a kind.
    fn type_only(kind: Cow<'a, str>) -> Self {
        Self { kind, tool: None, state: None, cost: None, tokens: None, time: None }
    }

    fn usage(&self) -> SessionUsage {
        match (&*self.kind, &self.cost, &self.tokens) {
            ("step-finish", Some(cost), Some(tokens)) => SessionUsage::from_step(cost, tokens),
            _ => SessionUsage::default(),
        }
    }

    /// A tool call that has not ended, or a text that is still being written.
    fn is_open(&self) -> bool {
        let status = self.state.as_ref().and_then(|s| s.status.as_deref());
        let writing = self.time.as_ref().is_some_and(|t| t.start.is_some() && t.end.is_none());
        match &*self.kind {
            "tool" => matches!(status, Some("pending" | "running")),
            "text" | "reasoning" => writing,
            _ => false,
        }
    }
}

pub(super) fn apply_part_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    let session = require_session(event)?;
    #[expect(clippy::wildcard_enum_match_arm, reason = "the class of the event leaves these three")]
    match event.kind {
        EventKind::PartDelta => {
            conn.prepare_cached("UPDATE part SET text_len = ?2 WHERE num = ?1")?
                .execute((event.entity, event.text.map(|t| t.1)))?;
            Ok(())
        }
        EventKind::PartRemoved => {
            let lost = stored_part_usage(conn, PartNum(event.entity))?;
            add_session_usage(conn, session, SessionUsage::default().minus(lost))?;
            conn.prepare_cached("DELETE FROM part WHERE num = ?1")?.execute([event.entity])?;
            Ok(())
        }
        EventKind::PartUpdated => upsert_part(conn, event, session),
        _ => Err(StoreError::Internal(format!("{} is not about a part", event.kind))),
    }
}

/// One row and nothing to go back to if it fails: SQLite keeps no journal of the statement.
const INSERT_PART: &str = "
INSERT INTO part (num, id, message, session, type, tool, open, text_len, image)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Its first image may have been compacted away.
const UPSERT_PART: &str = "
INSERT INTO part (num, id, message, session, type, tool, open, text_len, image)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE EXISTS (SELECT 1 FROM message WHERE num = ?3 AND session = ?4)
ON CONFLICT (num) DO UPDATE SET type = excluded.type, tool = excluded.tool,
  open = excluded.open, text_len = excluded.text_len, image = excluded.image";

/// True if the message of a part is not there.
fn is_orphan(error: &rusqlite::Error) -> bool {
    error
        .sqlite_error()
        .is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY)
}

/// What is wanted of a part; of an unknown kind, which may hold anything under these names, its name.
fn read_part_fields<'a>(event: &ProjectionEvent<'a>) -> Result<PartFields<'a, PartDataFields<'a>>> {
    match read_fields::<PartFields<'_, PartDataFields<'_>>>(event) {
        Ok(part) if has_projected_data(&part.data.kind) => Ok(part),
        Ok(part) => Ok(PartFields { data: PartDataFields::type_only(part.data.kind), ..part }),
        Err(error) => {
            let PartFields { id, message, text, data } =
                read_fields::<PartFields<'_, PartTypeField<'_>>>(event)?;
            match has_projected_data(&data.name) {
                true => Err(error),
                false => {
                    Ok(PartFields { id, message, text, data: PartDataFields::type_only(data.name) })
                }
            }
        }
    }
}

fn upsert_part(conn: &Connection, event: &ProjectionEvent<'_>, session: SessionNum) -> Result<()> {
    let PartFields { id, message, text, data } = read_part_fields(event)?;
    let usage = data.usage();
    // Whatever the part is now, it may have been a finished step before.
    let before = if event.entity == event.cursor {
        SessionUsage::default()
    } else {
        stored_part_usage(conn, PartNum(event.entity))?
    };
    let sql = if event.entity == event.cursor { INSERT_PART } else { UPSERT_PART };
    let written = conn.prepare_cached(sql)?.execute(params![
        event.entity,
        id,
        message,
        session,
        data.kind,
        data.tool,
        data.is_open(),
        text.map(|t| t.len),
        event.cursor,
    ]);
    let written = match written {
        Err(error) if is_orphan(&error) => 0,
        written => written?,
    };
    // On a rebuild the message may have been removed later in the stream: its parts are gone too.
    if written > 0 && usage != before {
        add_session_usage(conn, session, usage.minus(before))?;
    }
    Ok(())
}

/// What the stored image of a part counted; zero for anything but a finished step.
fn stored_part_usage(conn: &Connection, part: PartNum) -> Result<SessionUsage> {
    let json: Option<Option<String>> = conn
        .prepare_cached(
            "SELECT event.payload FROM part JOIN event ON event.cursor = part.image
             WHERE part.num = ?1 AND part.type = 'step-finish'",
        )?
        .query_row([part], |row| row.get(0))
        .optional()?;
    json.flatten().map_or(Ok(SessionUsage::default()), |json| step_usage(&json))
}

/// What the parts of a message counted.
fn message_usage(conn: &Connection, message: MessageNum) -> Result<SessionUsage> {
    let mut statement = conn.prepare_cached(
        "SELECT event.payload FROM message
         JOIN part ON part.session = message.session AND part.message = message.num
         JOIN event ON event.cursor = part.image
         WHERE message.num = ?1 AND part.type = 'step-finish'",
    )?;
    let mut rows = statement.query([message])?;
    let mut sum = SessionUsage::default();
    while let Some(row) = rows.next()? {
        sum = sum.plus(step_usage(&row.get::<_, String>(0)?)?);
    }
    Ok(sum)
}

/// The usage in a stored part payload.
fn step_usage(json: &str) -> Result<SessionUsage> {
    Ok(serde_json::from_str::<PartFields<'_, PartDataFields<'_>>>(json)?.data.usage())
}

/// Adds to what a session has counted. The sums are exact, so they do not depend on the order.
fn add_session_usage(conn: &Connection, session: SessionNum, change: SessionUsage) -> Result<()> {
    if change == SessionUsage::default() {
        return Ok(());
    }
    let row: Option<SessionUsage> = conn
        .prepare_cached(
            "SELECT cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read,
                    tokens_cache_write FROM session WHERE num = ?1",
        )?
        .query_row([session], crate::read::usage_from_row::<0>)
        .optional()?;
    let Some(before) = row else { return Ok(()) };
    let after = before.plus(change);
    if after.minus(change) != before {
        return Err(StoreError::Invalid("more usage than can be counted".to_owned()));
    }
    conn.prepare_cached(
        "UPDATE session SET cost = ?2, tokens_input = ?3, tokens_output = ?4,
           tokens_reasoning = ?5, tokens_cache_read = ?6, tokens_cache_write = ?7
         WHERE num = ?1",
    )?
    .execute((
        session,
        after.cost,
        after.input,
        after.output,
        after.reasoning,
        after.cache_read,
        after.cache_write,
    ))?;
    Ok(())
}
