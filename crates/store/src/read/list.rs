//! Lists by page: sessions by their last change, messages by their place in the stream.

use rusqlite::{Row, named_params};
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId};
use turnstone_core::model::{Message, Part, Session, SessionUsage};

use super::load::{
    find_message, find_parts, load_message, load_part, message_from_payload, part_from_payload,
    restore_row_payload,
};
use super::reader::{ReadTx, parse_id};
use crate::error::{Result, StoreError};
use crate::read::session::SessionQueries;
use crate::table_row_ids::{MessageNum, SessionNum};

/// Which sessions to list; every field narrows the list.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Of this project.
    pub project: Option<ProjectId>,
    /// In exactly this directory.
    pub directory: Option<String>,
    /// In this path below the worktree, or deeper.
    pub path: Option<String>,
    /// With a path, also sessions that have none and are in exactly this directory.
    pub pathless: Option<String>,
    /// Not started by another session.
    pub roots: bool,
    /// Changed at or after this moment.
    pub start: Option<f64>,
    /// With these characters in the title.
    pub search: Option<String>,
    /// Archived ones too.
    pub archived: bool,
    /// Created by this actor.
    pub actor: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// The session.
    pub session: Session,
    /// What its steps add up to.
    pub usage: SessionUsage,
}

/// A page of sessions, newest change first.
#[derive(Clone, Debug)]
pub struct SessionPage {
    /// The sessions.
    pub items: Vec<SessionRow>,
    /// Where the next page begins; absent on the last.
    pub next: Option<String>,
}

impl SessionPage {
    /// Where the page of what changed before a moment begins.
    #[must_use]
    pub fn cursor_before(updated: f64) -> String {
        session_cursor(updated, 0)
    }
}

/// A message with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageWithParts {
    /// The message.
    pub message: Message,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// A page of messages, in order of the stream.
#[derive(Clone, Debug)]
pub struct MessagePage {
    /// The messages.
    pub items: Vec<MessageWithParts>,
    /// Where the page before this one ends; absent on the first.
    pub before: Option<String>,
}

/// Usage columns beginning at column `N`.
pub(crate) fn usage_from_row<const N: usize>(row: &Row<'_>) -> rusqlite::Result<SessionUsage> {
    Ok(SessionUsage {
        cost: row.get(N)?,
        input: row.get(N + 1)?,
        output: row.get(N + 2)?,
        reasoning: row.get(N + 3)?,
        cache_read: row.get(N + 4)?,
        cache_write: row.get(N + 5)?,
    })
}

/// Cursors are positions, written in hex so that they need no escaping anywhere.
fn session_cursor(updated: f64, num: i64) -> String {
    format!("{:016x}{num:x}", updated.to_bits())
}

fn parse_session_cursor(text: Option<&str>) -> Result<(f64, i64)> {
    let Some(text) = text else { return Ok((f64::INFINITY, i64::MAX)) };
    let bad = || StoreError::Invalid("this is not a cursor of a session list".to_owned());
    let bits = text.get(..16).and_then(|t| u64::from_str_radix(t, 16).ok()).ok_or_else(bad)?;
    let num = text.get(16..).and_then(|t| i64::from_str_radix(t, 16).ok()).ok_or_else(bad)?;
    let updated = f64::from_bits(bits);
    if updated.is_nan() || num < 0 { Err(bad()) } else { Ok((updated, num)) }
}

/// No pattern is matched, so that no character means anything but itself, not even NUL (R44).
/// Outer joins, here and below: a missing event is an error to tell, not a row to leave out.
const SELECT_SESSIONS: &str = "
SELECT session.num, session.updated, session.image, event.payload, event.refs, session.cost,
       tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
       EXISTS (SELECT 1 FROM head WHERE head.session = session.num)
FROM session LEFT JOIN event ON event.cursor = session.image
WHERE (session.updated, session.num) < (:updated, :num) AND hidden = 0
  AND (:project IS NULL OR session.project = (SELECT num FROM project WHERE id = :project))
  AND (:directory IS NULL OR directory = :directory)
  AND (:path IS NULL OR path = :path
       OR substr(CAST(path AS BLOB), 1, octet_length(:below)) = CAST(:below AS BLOB)
       OR (path IS NULL AND directory = :pathless))
  AND (:roots = 0 OR parent IS NULL)
  AND (:start IS NULL OR session.updated >= :start)
  AND (:search IS NULL OR instr(lower(title), lower(:search)) > 0)
  AND (:archived = 1 OR session.archived IS NULL)
  AND (:actor IS NULL OR session.actor IN
         (SELECT num FROM actor
          WHERE name = :actor OR substr(name, 1, length(:actor) + 1) = :actor || char(10)))
ORDER BY session.updated DESC, session.num DESC LIMIT :limit";

pub(super) const SELECT_MESSAGES: &str = "
SELECT message.num, image, payload, refs
FROM message LEFT JOIN event ON event.cursor = message.image
WHERE message.session = ?1 AND message.num < ?2 ORDER BY message.num DESC LIMIT ?3";

pub(super) const SELECT_PARTS: &str = "
SELECT part.num, message, text_len, image, payload, refs
FROM part LEFT JOIN event ON event.cursor = part.image
WHERE part.session = ?1 AND message BETWEEN ?2 AND ?3 ORDER BY message, part.num";

/// The stored JSON in the columns `payload, refs` from `at` on, if it is all there as it is.
pub(super) fn inline_json<'a>(row: &'a Row<'_>, at: usize) -> Result<Option<&'a str>> {
    let text = |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
    Ok(match (text(at)?, text(at + 1)?) {
        (Some(json), None) => Some(json),
        _ => None,
    })
}

/// The number before which a page of messages ends.
pub(super) fn parse_message_cursor(cursor: Option<&str>) -> Result<i64> {
    let Some(text) = cursor else { return Ok(i64::MAX) };
    message_cursor_num(text)
        .ok_or_else(|| StoreError::Invalid("this is not a cursor of a message list".to_owned()))
}

/// One row more than a page holds tells whether there is a next page.
pub(super) fn limit_plus_one(limit: usize) -> i64 {
    i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX)
}

impl SessionQueries<'_> {
    /// A page of sessions, newest change first, beginning at a cursor of the page before.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the cursor is not one of ours.
    pub fn list(
        &self,
        filter: &SessionFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<SessionPage> {
        let make = |row: &Row<'_>| self.session_row(row);
        let (items, next) = self.list_with(filter, cursor, limit, make)?;
        Ok(SessionPage { items, next })
    }

    /// The session in a row of [`SELECT_SESSIONS`].
    pub(super) fn session_row(&self, row: &Row<'_>) -> Result<SessionRow> {
        let session = match inline_json(row, 3)? {
            Some(json) => serde_json::from_str(json)?,
            None => serde_json::from_value(row_payload(&self.read, row, 2)?)?,
        };
        Ok(SessionRow { session, usage: usage_from_row::<5>(row)? })
    }

    /// A page of sessions, each made from its row, and where the next page begins.
    pub(super) fn list_with<T>(
        &self,
        filter: &SessionFilter,
        cursor: Option<&str>,
        limit: usize,
        make: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<(Vec<T>, Option<String>)> {
        let (updated, num) = parse_session_cursor(cursor)?;
        let mut statement = self.read.conn.prepare_cached(SELECT_SESSIONS)?;
        let mut rows = statement.query(named_params! {
            ":updated": updated,
            ":num": num,
            ":project": filter.project.as_ref().map(ProjectId::as_str),
            ":directory": filter.directory,
            ":path": filter.path,
            ":below": filter.path.as_deref().map(|p| format!("{p}/")),
            ":pathless": filter.pathless,
            ":roots": filter.roots,
            ":start": filter.start,
            ":search": filter.search,
            ":archived": filter.archived,
            ":actor": filter.actor,
            ":limit": limit_plus_one(limit),
        })?;
        let mut items = Vec::new();
        let mut places = Vec::new();
        while let Some(row) = rows.next()? {
            items.push(make(row)?);
            places.push((row.get::<_, f64>(1)?, row.get::<_, i64>(0)?));
        }
        let more = items.len() > limit;
        items.truncate(limit);
        let last = more.then(|| limit.checked_sub(1).and_then(|i| places.get(i))).flatten();
        Ok((items, last.map(|(updated, num)| session_cursor(*updated, *num))))
    }

    /// How many live sessions match.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn count(&self, project: Option<&ProjectId>) -> Result<u64> {
        let count: i64 = self
            .read
            .conn
            .prepare_cached(
                "SELECT count(*) FROM session WHERE hidden = 0
                 AND (?1 IS NULL OR project = (SELECT num FROM project WHERE id = ?1))",
            )?
            .query_row([project.map(ProjectId::as_str)], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

/// Reads messages and their parts.
#[derive(Clone, Copy)]
pub struct MessageQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl MessageQueries<'_> {
    /// A page of messages with their parts: the newest `limit` before `before`, in stream order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`], or [`StoreError::Invalid`] if the cursor is not one of ours.
    pub fn list(
        &self,
        session: &SessionId,
        before: Option<&str>,
        limit: usize,
    ) -> Result<MessagePage> {
        let owner = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(SELECT_MESSAGES)?;
        let mut rows =
            statement.query((owner, parse_message_cursor(before)?, limit_plus_one(limit)))?;
        let (mut nums, mut items, mut more) = (Vec::new(), Vec::new(), false);
        while let Some(row) = rows.next()? {
            if items.len() == limit {
                more = true;
                break;
            }
            nums.push(row.get::<_, MessageNum>(0)?);
            let message = message_from_payload(session, row_payload(&self.read, row, 1)?)?;
            items.push(MessageWithParts { message, parts: Vec::new() });
        }
        nums.reverse();
        items.reverse();
        self.load_parts_into(owner, session, &nums, &mut items)?;
        let oldest = nums.first().filter(|_| more);
        Ok(MessagePage { items, before: oldest.map(|num| message_cursor(*num)) })
    }

    /// Reads the parts of all listed messages in one go.
    pub(super) fn load_parts_into(
        &self,
        owner: SessionNum,
        session: &SessionId,
        nums: &[MessageNum],
        items: &mut [MessageWithParts],
    ) -> Result<()> {
        let (Some(first), Some(last)) = (nums.first(), nums.last()) else { return Ok(()) };
        let mut statement = self.read.conn.prepare_cached(SELECT_PARTS)?;
        let mut rows = statement.query((owner, first, last))?;
        let mut at = 0;
        while let Some(row) = rows.next()? {
            let message: MessageNum = row.get(1)?;
            while nums.get(at).is_some_and(|num| *num < message) {
                at += 1;
            }
            let Some(item) = items.get_mut(at) else { break };
            let owner = (session, &item.message.id);
            let value = row_payload(&self.read, row, 3)?;
            item.parts.push(part_from_payload(
                self.read.conn,
                owner,
                row.get(0)?,
                value,
                row.get(2)?,
            )?);
        }
        Ok(())
    }

    /// One message with its parts.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`] if the session has no such message.
    pub fn get(&self, session: &SessionId, message: &MessageId) -> Result<MessageWithParts> {
        let owner = self.read.session_num(session)?;
        let missing =
            || StoreError::NoMessage { session: session.clone(), message: message.clone() };
        let found = find_message(self.read.conn, message)?.ok_or_else(missing)?;
        if found.session != owner {
            return Err(missing());
        }
        let message = load_message(self.read.conn, self.read.blobs, session, found.image)?;
        let parts = find_parts(self.read.conn, owner, found.num)?
            .into_iter()
            .map(|part| load_part(self.read.conn, self.read.blobs, (session, &message.id), part))
            .collect::<Result<_>>()?;
        Ok(MessageWithParts { message, parts })
    }

    /// One part.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoPart`] if the session has no such part.
    pub fn get_part(&self, session: &SessionId, part: &PartId) -> Result<Part> {
        let owner = self.read.session_num(session)?;
        let missing = || StoreError::NoPart { session: session.clone(), part: part.clone() };
        let found = super::load::find_part(self.read.conn, part)?.ok_or_else(missing)?;
        if found.session != owner {
            return Err(missing());
        }
        let message: String = self
            .read
            .conn
            .prepare_cached("SELECT id FROM message WHERE num = ?1")?
            .query_row([found.message], |row| row.get(0))?;
        load_part(self.read.conn, self.read.blobs, (session, &parse_id(message)?), found)
    }
}

/// The payload in the columns `image, payload, refs` beginning at column `at`.
pub(super) fn row_payload(
    read: &ReadTx<'_>,
    row: &Row<'_>,
    at: usize,
) -> Result<serde_json::Value> {
    let text = |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
    restore_row_payload(read.conn, read.blobs, row.get(at)?, text(at + 1)?, text(at + 2)?)
}

/// The cursor of a place in a list of messages: of one length, so that a word that was made up is none.
pub(super) fn message_cursor(num: MessageNum) -> String {
    format!("m{:016x}", num.0)
}

/// The place a cursor of [`message_cursor`] stands for.
fn message_cursor_num(cursor: &str) -> Option<i64> {
    let digits = cursor.strip_prefix('m').filter(|digits| digits.len() == 16)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !digits.bytes().all(is_digit) {
        return None;
    }
    i64::from_str_radix(digits, 16).ok()
}
