//! Projections of messages and parts.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use serde_json::Number;
use turnstone_core::event::EventKind;
use turnstone_core::model::{Tokens, Usage};

use super::Applied;
use super::place::{head, session_of};
use crate::error::{Result, StoreError};

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
    data: PartKind<'a>,
}

#[derive(Deserialize)]
struct PartKind<'a> {
    #[serde(rename = "type", borrow)]
    name: std::borrow::Cow<'a, str>,
}

impl PartKind<'_> {
    /// The kinds of which more is read; what an unknown kind holds is nobody's business here.
    fn has_data(&self) -> bool {
        matches!(&*self.name, "tool" | "text" | "reasoning" | "step-finish")
    }
}

/// A part of which all that is wanted can be read.
#[derive(Deserialize)]
struct PartWhole<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    message: i64,
    text: Option<TextHead>,
    #[serde(borrow)]
    data: PartData<'a>,
}

#[derive(Deserialize)]
struct PartRest<'a> {
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
    #[expect(clippy::wildcard_enum_match_arm, reason = "the class of the event leaves these three")]
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
        EventKind::PartUpdated => image(conn, event, session),
        _ => Err(StoreError::Internal(format!("{} is not about a part", event.kind))),
    }
}

fn image(conn: &Connection, event: &Applied<'_>, session: i64) -> Result<()> {
    let (id, message, text, kind, data) = match head::<PartWhole<'_>>(event) {
        Ok(PartWhole { id, message, text, data }) => {
            let kind = PartKind { name: data.kind.clone() };
            let data = kind.has_data().then_some(data);
            (id, message, text, kind, data)
        }
        // An unknown kind may hold anything under these names.
        Err(_) => {
            let PartHead { id, message, text, data: kind } = head(event)?;
            let data = match kind.has_data() {
                true => Some(head::<PartRest<'_>>(event)?.data),
                false => None,
            };
            (id, message, text, kind, data)
        }
    };
    let usage = data.as_ref().map(PartData::usage).unwrap_or_default();
    // Whatever the part is now, it may have been a finished step before.
    let before = if event.entity == event.cursor {
        Usage::default()
    } else {
        image_usage(conn, event.entity)?
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
            id,
            message,
            session,
            kind.name,
            data.as_ref().and_then(|data| data.tool.as_deref()),
            data.as_ref().is_some_and(PartData::is_open),
            text.map(|t| t.len),
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
    Ok(serde_json::from_str::<PartRest<'_>>(json)?.data.usage())
}

/// Adds to what a session has counted. The sums are exact, so they do not depend on the order.
fn count(conn: &Connection, session: i64, change: Usage) -> Result<()> {
    if change == Usage::default() {
        return Ok(());
    }
    let row: Option<Usage> = conn
        .prepare_cached(
            "SELECT cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read,
                    tokens_cache_write FROM session WHERE num = ?1",
        )?
        .query_row([session], crate::read::usage_at::<0>)
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
