//! The log by cursor: pages of history, and a tail that hands over to live without a gap.

use std::ops::Range;

use std::time::Duration;

use rusqlite::Row;
use serde_json::Value;
use turnstone_core::call_context::Context;
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};

use super::reader::{ReadTx, parse_id};
use crate::actor_name;
use crate::error::{Result, StoreError};
use crate::payload;
use crate::store::Store;
use crate::table_row_ids::{PartNum, SessionNum};

/// One event of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// Its place in the log.
    pub cursor: LogCursor,
    /// Its session, if it belongs to one.
    pub session: Option<SessionId>,
    /// Its place in the session's stream.
    pub seq: Option<SessionSeq>,
    /// Its number among OpenCode's durable types (R25).
    pub sync_seq: Option<i64>,
    /// What happened.
    pub kind: EventKind,
    /// The number of the thing it is about: the cursor of the event that first named it.
    pub entity: i64,
    /// Who did it.
    pub actor: String,
    /// By which program, if it was said.
    pub client: Option<String>,
    /// When.
    pub time: EpochMillis,
    /// The version of its payload.
    pub version: u16,
    /// How many sequence numbers it stands for; more than one only for stubs.
    pub span: i64,
    /// What it says; absent for deltas and stubs.
    pub payload: Option<Value>,
    /// The text a delta appended, and where.
    pub delta: Option<TextDelta>,
}

impl LogEvent {
    /// True if compaction removed what the event said; its entity has a later image (R25).
    #[must_use]
    pub const fn is_stub(&self) -> bool {
        self.payload.is_none() && self.delta.is_none() && !self.kind.has_no_payload()
    }
}

/// Text appended to a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDelta {
    /// Byte offset where the text begins.
    pub from: i64,
    /// The text.
    pub text: String,
}

/// A page of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogPage {
    /// The events, in order.
    pub events: Vec<LogEvent>,
    /// Where to go on.
    pub next: LogCursor,
    /// True if the page contains a stub: some events of this range were compacted, and a reader that
    /// needs every step has to read the whole state again. What a stub no longer says is contained in a
    /// later event of the same entity, so a reader that fetches what an event names may go on.
    pub resync: bool,
}

const COLUMNS_AFTER: &str = "
SELECT cursor, stream.id, event.seq, event.sync_seq, kind, entity, actor.name, time, version, span,
       payload, refs, text_from, text_to
FROM event LEFT JOIN stream ON stream.session = event.session
JOIN actor ON actor.num = event.actor
WHERE cursor > ?1 ORDER BY cursor LIMIT ?2";

const COLUMNS_STREAM: &str = "
SELECT cursor, stream.id, event.seq, event.sync_seq, kind, entity, actor.name, time, version, span,
       payload, refs, text_from, text_to
FROM event JOIN stream ON stream.session = event.session
JOIN actor ON actor.num = event.actor
WHERE event.session = ?3 AND event.seq > ?1 ORDER BY event.seq LIMIT ?2";

/// Reads the log as it is stored.
#[derive(Clone, Copy)]
pub struct LogQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl LogQueries<'_> {
    /// The events after `cursor`, at most `limit`.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn after(&self, cursor: LogCursor, limit: usize) -> Result<LogPage> {
        let mut statement = self.read.conn.prepare_cached(COLUMNS_AFTER)?;
        let mut rows = statement.query((cursor.0, limit as i64))?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            events.push(self.event_from_row(row)?);
        }
        Ok(log_page(events, cursor))
    }

    /// The events of a session after `seq`, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`] if there never was such a session.
    pub fn stream_after(
        &self,
        session: &SessionId,
        seq: SessionSeq,
        limit: usize,
    ) -> Result<LogPage> {
        let num = stream_num(&self.read, session)?;
        let mut statement = self.read.conn.prepare_cached(COLUMNS_STREAM)?;
        let mut rows = statement.query((seq.0, limit as i64, num))?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            events.push(self.event_from_row(row)?);
        }
        Ok(log_page(events, LogCursor(0)))
    }

    fn event_from_row(&self, row: &Row<'_>) -> Result<LogEvent> {
        let (kind, payload) = kind_and_payload(&self.read, row, 4, 10)?;
        let entity: i64 = row.get(5)?;
        let (from, to): (Option<i64>, Option<i64>) = (row.get(12)?, row.get(13)?);
        let delta = match (from, to) {
            (Some(from), Some(to)) => load_delta(&self.read, PartNum(entity), from..to)?,
            _ => None,
        };
        let (actor, client) = actor_name::split_actor_client(row.get(6)?);
        Ok(LogEvent {
            cursor: LogCursor(row.get(0)?),
            session: row.get::<_, Option<String>>(1)?.map(parse_id).transpose()?,
            seq: row.get::<_, Option<i64>>(2)?.map(SessionSeq),
            sync_seq: row.get(3)?,
            kind,
            entity,
            actor,
            client,
            time: EpochMillis(row.get(7)?),
            version: row.get(8)?,
            span: row.get(9)?,
            payload,
            delta,
        })
    }

    /// The newest cursor of the log.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn last_cursor(&self) -> Result<LogCursor> {
        let cursor = self
            .read
            .conn
            .prepare_cached("SELECT coalesce(max(cursor), 0) FROM event")?
            .query_row([], |row| row.get(0))?;
        Ok(LogCursor(cursor))
    }
}

/// The number of a session that lives or lived.
pub(super) fn stream_num(read: &ReadTx<'_>, session: &SessionId) -> Result<SessionNum> {
    let num: Option<SessionNum> = rusqlite::OptionalExtension::optional(
        read.conn
            .prepare_cached("SELECT session FROM stream WHERE id = ?1")?
            .query_row([session.as_str()], |row| row.get(0)),
    )?;
    num.ok_or_else(|| StoreError::NoSession(session.clone()))
}

/// The text a delta appended; absent if the text was replaced since.
pub(super) fn load_delta(
    read: &ReadTx<'_>,
    part: PartNum,
    Range { start: from, end: to }: Range<i64>,
) -> Result<Option<TextDelta>> {
    let mut statement = read.conn.prepare_cached(
        "SELECT start, text FROM chunk
         WHERE part = ?1 AND start < ?3 AND start + octet_length(text) > ?2 ORDER BY start",
    )?;
    let mut rows = statement.query((part, from, to))?;
    let mut text = String::new();
    while let Some(row) = rows.next()? {
        let start: i64 = row.get(0)?;
        let chunk = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        let begin = usize::try_from(from - start).unwrap_or(0);
        let end = usize::try_from(to - start).unwrap_or(0).min(chunk.len());
        match chunk.get(begin..end) {
            Some(piece) => text.push_str(piece),
            None => return Ok(None),
        }
    }
    let whole = text.len() as i64 == to - from;
    Ok(whole.then_some(TextDelta { from, text }))
}

fn log_page(events: Vec<LogEvent>, from: LogCursor) -> LogPage {
    let next = events.last().map_or(from, |event| event.cursor);
    let resync = events.iter().any(LogEvent::is_stub);
    LogPage { events, next, resync }
}

/// Follows the log from a cursor: first history, then what is being written.
pub struct LogTail<'s> {
    store: &'s Store,
    ctx: Context,
    cursor: LogCursor,
}

impl<'s> LogTail<'s> {
    pub(crate) fn new(store: &'s Store, ctx: &Context, after: LogCursor) -> Self {
        Self { store, ctx: ctx.clone(), cursor: after }
    }

    /// Where the tail has come to.
    #[must_use]
    pub const fn cursor(&self) -> LogCursor {
        self.cursor
    }

    /// Returns what came after the last call, at most `limit`; waits up to `wait` if there is
    /// nothing yet. The mark is taken before the log is read, so nothing is missed in between.
    ///
    /// # Errors
    ///
    /// Only what the database refuses; the tail stays where it is.
    pub fn next(&mut self, limit: usize, wait: Duration) -> Result<LogPage> {
        let mut left = wait;
        loop {
            let mark = self.store.commit_watch().mark();
            let page = self.store.read(&self.ctx, |r| r.log().after(self.cursor, limit))?;
            if !page.events.is_empty() || left.is_zero() {
                self.cursor = page.next;
                return Ok(page);
            }
            let step = self.store.commit_watch().wait_step(left);
            if !self.store.commit_watch().wait(mark, step) {
                left = left.saturating_sub(step);
            }
        }
    }
}

/// The kind of the event in a row, and its payload with the long values in it; `payload` is the column of
/// the payload, which that of the references follows.
pub(super) fn kind_and_payload(
    read: &ReadTx<'_>,
    row: &Row<'_>,
    kind: usize,
    payload: usize,
) -> Result<(EventKind, Option<Value>)> {
    let code: i64 = row.get(kind)?;
    let kind = EventKind::from_code(code)
        .ok_or_else(|| StoreError::Internal(format!("event kind {code}")))?;
    let json: Option<String> = row.get(payload)?;
    let refs: Option<String> = row.get(payload + 1)?;
    let restore =
        |json: String| payload::restore_long_strings(read.conn, read.blobs, &json, refs.as_deref());
    Ok((kind, json.map(restore).transpose()?))
}
