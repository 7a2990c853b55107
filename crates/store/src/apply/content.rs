//! Projections of messages and parts.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use serde_json::Number;
use turnstone_core::event::EventKind;
use turnstone_core::model::{Tokens, Usage};

use super::Applied;
use super::place::{head, session_of};
use crate::error::Result;

#[derive(Deserialize)]
struct MessageHead {
    id: String,
    turn: Option<i64>,
    data: MessageData,
}

#[derive(Deserialize)]
struct MessageData {
    role: String,
    time: MessageTime,
}

#[derive(Deserialize)]
struct MessageTime {
    created: Number,
}

pub(super) fn message(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    if event.kind == EventKind::MessageRemoved {
        let lost = parts_usage(conn, event.entity)?;
        if let Some(session) = event.session {
            count(conn, session, Usage::default().minus(lost))?;
        }
        conn.prepare_cached("DELETE FROM message WHERE num = ?1")?.execute([event.entity])?;
        return Ok(());
    }
    let head: MessageHead = head(event)?;
    let session = session_of(event)?;
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

#[derive(Deserialize)]
struct PartHead<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    message: i64,
    text: Option<TextHead>,
    #[serde(borrow)]
    data: PartData<'a>,
}

#[derive(Deserialize)]
struct TextHead {
    len: i64,
}

#[derive(Deserialize)]
struct PartData<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    tool: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    state: Option<StateData<'a>>,
    cost: Option<Number>,
    tokens: Option<Tokens>,
    time: Option<TimeData>,
}

#[derive(Deserialize)]
struct TimeData {
    start: Option<Number>,
    end: Option<Number>,
}

#[derive(Deserialize)]
struct StateData<'a> {
    #[serde(borrow)]
    status: Option<std::borrow::Cow<'a, str>>,
}

impl PartData<'_> {
    fn usage(&self) -> Usage {
        match (&*self.kind, &self.cost, &self.tokens) {
            ("step-finish", Some(cost), Some(tokens)) => Usage::of_step(cost, tokens),
            _ => Usage::default(),
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

pub(super) fn part(conn: &Connection, event: &Applied<'_>) -> Result<()> {
    let session = session_of(event)?;
    match event.kind {
        EventKind::PartDelta => {
            conn.prepare_cached("UPDATE part SET text_len = ?2 WHERE num = ?1")?
                .execute((event.entity, event.text.map(|t| t.1)))?;
            Ok(())
        }
        EventKind::PartRemoved => {
            let lost = image_usage(conn, event.entity)?;
            count(conn, session, Usage::default().minus(lost))?;
            conn.prepare_cached("DELETE FROM part WHERE num = ?1")?.execute([event.entity])?;
            Ok(())
        }
        _ => image(conn, event, session),
    }
}

fn image(conn: &Connection, event: &Applied<'_>, session: i64) -> Result<()> {
    let head: PartHead<'_> = head(event)?;
    let usage = head.data.usage();
    let before = if head.data.kind == "step-finish" {
        image_usage(conn, event.entity)?
    } else {
        Usage::default()
    };
    let written = conn
        .prepare_cached(
            "INSERT INTO part (num, id, message, session, type, tool, open, text_len, image)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
             WHERE EXISTS (SELECT 1 FROM message WHERE num = ?3 AND session = ?4)
             ON CONFLICT (num) DO UPDATE SET type = excluded.type, tool = excluded.tool,
               open = excluded.open, text_len = excluded.text_len, image = excluded.image",
        )?
        .execute(params![
            event.entity,
            head.id,
            head.message,
            session,
            head.data.kind,
            head.data.tool,
            head.data.is_open(),
            head.text.map(|t| t.len),
            event.cursor,
        ])?;
    // On a rebuild the message may have been removed later in the stream: its parts are gone too.
    if written > 0 && usage != before {
        count(conn, session, usage.minus(before))?;
    }
    Ok(())
}

/// What the stored image of a part counted; zero for anything but a finished step.
fn image_usage(conn: &Connection, part: i64) -> Result<Usage> {
    let json: Option<Option<String>> = conn
        .prepare_cached(
            "SELECT event.payload FROM part JOIN event ON event.cursor = part.image
             WHERE part.num = ?1 AND part.type = 'step-finish'",
        )?
        .query_row([part], |row| row.get(0))
        .optional()?;
    json.flatten().map_or(Ok(Usage::default()), |json| step_usage(&json))
}

/// What the parts of a message counted.
fn parts_usage(conn: &Connection, message: i64) -> Result<Usage> {
    let mut statement = conn.prepare_cached(
        "SELECT event.payload FROM message
         JOIN part ON part.session = message.session AND part.message = message.num
         JOIN event ON event.cursor = part.image
         WHERE message.num = ?1 AND part.type = 'step-finish'",
    )?;
    let mut rows = statement.query([message])?;
    let mut sum = Usage::default();
    while let Some(row) = rows.next()? {
        sum = sum.plus(step_usage(&row.get::<_, String>(0)?)?);
    }
    Ok(sum)
}

/// The usage in a stored part payload.
fn step_usage(json: &str) -> Result<Usage> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        data: PartData<'a>,
    }
    Ok(serde_json::from_str::<Head<'_>>(json)?.data.usage())
}

/// The casts saturate where a sum would leave the whole numbers.
fn count(conn: &Connection, session: i64, change: Usage) -> Result<()> {
    if change == Usage::default() {
        return Ok(());
    }
    conn.prepare_cached(
        "UPDATE session SET cost = CAST(cost + ?2 AS INTEGER),
           tokens_input = CAST(tokens_input + ?3 AS INTEGER),
           tokens_output = CAST(tokens_output + ?4 AS INTEGER),
           tokens_reasoning = CAST(tokens_reasoning + ?5 AS INTEGER),
           tokens_cache_read = CAST(tokens_cache_read + ?6 AS INTEGER),
           tokens_cache_write = CAST(tokens_cache_write + ?7 AS INTEGER)
         WHERE num = ?1",
    )?
    .execute((
        session,
        change.cost,
        change.input,
        change.output,
        change.reasoning,
        change.cache_read,
        change.cache_write,
    ))?;
    Ok(())
}
