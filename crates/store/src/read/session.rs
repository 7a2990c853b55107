//! Queries on sessions.

use crate::read::reader::{ReadTx, parse_id};
use crate::table_row_ids::SessionNum;
use rusqlite::OptionalExtension;
use std::collections::HashSet;
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, SessionFileDiff, SessionStatus, SessionUsage, Todo};
use turnstone_core::operation::SessionHead;
use turnstone_core::time::SessionSeq;

use super::load::{load_payload, load_session};
use crate::actor_name;
use crate::error::Result;

/// Reads sessions: rows, pages, status, usage and head.
#[derive(Clone, Copy)]
pub struct SessionQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl SessionQueries<'_> {
    /// Where a session stands: the first thing that is undone, or nothing at its end (R19).
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn head(&self, session: &SessionId) -> Result<Option<SessionHead>> {
        let num = self.read.session_num(session)?;
        let row: Option<(String, Option<String>)> = self
            .read
            .conn
            .prepare_cached("SELECT message, part FROM head WHERE session = ?1")?
            .query_row([num], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        row.map(|(message, part)| {
            Ok(SessionHead { message: parse_id(message)?, part: part.map(parse_id).transpose()? })
        })
        .transpose()
    }

    /// The sessions whose head is not at their end.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn not_at_tip(&self) -> Result<HashSet<SessionId>> {
        let mut statement = self
            .read
            .conn
            .prepare_cached("SELECT id FROM head JOIN session ON session.num = head.session")?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        ids.map(|id| parse_id(id?)).collect()
    }

    /// Archived sessions with a field of this name.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub(crate) fn archived_with_field(&self, field: &str) -> Result<Vec<Session>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.num FROM session JOIN event ON event.cursor = session.image
             WHERE archived IS NOT NULL AND hidden = 0 AND instr(payload, ?1) > 0",
        )?;
        let mut rows = statement.query([field])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let session = load_session(self.read.conn, self.read.blobs, row.get(0)?)?;
            found.extend(Some(session).filter(|session| session.extra.contains_key(field)));
        }
        Ok(found)
    }

    /// A session, if it exists.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find(&self, id: &SessionId) -> Result<Option<Session>> {
        self.read
            .find_session_num(id)?
            .map(|num| load_session(self.read.conn, self.read.blobs, num))
            .transpose()
    }

    /// The session that a deleted session was a fork of, if it was one and its deletion noted that.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find_origin_of_deleted(&self, id: &SessionId) -> Result<Option<SessionId>> {
        let tombstone: Option<i64> = self
            .read
            .conn
            .prepare_cached(
                "SELECT event.cursor FROM stream JOIN event ON event.session = stream.session
                 WHERE stream.id = ?1 AND stream.deleted = 1 AND event.kind = ?2",
            )?
            .query_row((id.as_str(), EventKind::SessionDeleted.code()), |row| row.get(0))
            .optional()?;
        let Some(tombstone) = tombstone else { return Ok(None) };
        let payload = load_payload(self.read.conn, self.read.blobs, tombstone)?;
        payload["originID"].as_str().map(|id| parse_id(id.to_owned())).transpose()
    }

    /// A session.
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn get(&self, id: &SessionId) -> Result<Session> {
        load_session(self.read.conn, self.read.blobs, self.read.session_num(id)?)
    }

    /// The ids of live sessions that begin with `prefix`, at most `limit`.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT id FROM session WHERE substr(id, 1, length(?1)) = ?1 AND hidden = 0
             ORDER BY updated DESC LIMIT ?2",
        )?;
        let rows = statement.query_map((prefix, limit as i64), |row| row.get::<_, String>(0))?;
        rows.map(|id| parse_id(id?)).collect()
    }

    /// Where a session's stream stands.
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn seq(&self, id: &SessionId) -> Result<SessionSeq> {
        let num = self.read.session_num(id)?;
        let seq = self
            .read
            .conn
            .prepare_cached("SELECT seq FROM stream WHERE session = ?1")?
            .query_row([num], |row| row.get(0))?;
        Ok(SessionSeq(seq))
    }

    /// What a session's finished steps add up to.
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn usage(&self, id: &SessionId) -> Result<SessionUsage> {
        let num = self.read.session_num(id)?;
        Ok(self
            .read
            .conn
            .prepare_cached(
                "SELECT cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read,
                        tokens_cache_write FROM session WHERE num = ?1",
            )?
            .query_row([num], super::list::usage_from_row::<0>)?)
    }

    /// The sessions a session started as subagents, oldest first.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn children(&self, id: &SessionId) -> Result<Vec<Session>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT num FROM session WHERE parent = ?1 AND hidden = 0 ORDER BY num",
        )?;
        let nums: Vec<i64> = statement
            .query_map([id.as_str()], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        nums.into_iter()
            .map(|num| load_session(self.read.conn, self.read.blobs, SessionNum(num)))
            .collect()
    }

    /// The to-do list of a session.
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn todos(&self, id: &SessionId) -> Result<Vec<Todo>> {
        let image = self.find_image(id, "SELECT image FROM todo WHERE session = ?1")?;
        self.load_list(image, "todos")
    }

    /// The stored diff of a session.
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn diff(&self, id: &SessionId) -> Result<Option<Vec<SessionFileDiff>>> {
        match self.find_image(id, "SELECT image FROM diff WHERE session = ?1")? {
            Some(image) => Ok(Some(self.load_list(Some(image), "diff")?)),
            None => Ok(None),
        }
    }

    fn find_image(&self, id: &SessionId, sql: &'static str) -> Result<Option<i64>> {
        let num = self.read.session_num(id)?;
        Ok(self.read.conn.prepare_cached(sql)?.query_row([num], |row| row.get(0)).optional()?)
    }

    fn load_list<T>(&self, image: Option<i64>, field: &str) -> Result<Vec<T>>
    where
        T: serde::de::DeserializeOwned,
    {
        let Some(image) = image else { return Ok(Vec::new()) };
        Ok(serde_json::from_value(
            load_payload(self.read.conn, self.read.blobs, image)?[field].take(),
        )?)
    }

    /// Who created a session (R43).
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn actor(&self, session: &SessionId) -> Result<String> {
        let num = self.read.session_num(session)?;
        let name: String = self
            .read
            .conn
            .prepare_cached(
                "SELECT actor.name FROM session JOIN actor ON actor.num = session.actor
                 WHERE session.num = ?1",
            )?
            .query_row([num], |row| row.get(0))?;
        Ok(actor_name::split_actor_client(name).0)
    }

    /// What a session is doing, from its turn (R45).
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn status(&self, session: &SessionId) -> Result<SessionStatus> {
        let num = self.read.session_num(session)?;
        let row: Option<(String, Option<i64>)> = self
            .read
            .conn
            .prepare_cached("SELECT state, status FROM turn WHERE session = ?1 AND ended IS NULL")?
            .query_row([num], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match row {
            None => Ok(SessionStatus::Idle),
            Some((_, Some(at))) => {
                let mut value = load_payload(self.read.conn, self.read.blobs, at)?;
                Ok(serde_json::from_value(value["status"].take())?)
            }
            Some(_) => Ok(SessionStatus::Busy),
        }
    }

    /// What the sessions of a directory are doing; those that do nothing are left out (R45).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn active_statuses(&self, directory: &str) -> Result<Vec<(SessionId, SessionStatus)>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.id, turn.status FROM turn JOIN session ON session.num = turn.session
             WHERE turn.ended IS NULL AND hidden = 0 AND directory = ?1 ORDER BY turn.num",
        )?;
        let mut rows = statement.query([directory])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: SessionId = parse_id(row.get(0)?)?;
            let status = match row.get::<_, Option<i64>>(1)? {
                None => SessionStatus::Busy,
                Some(at) => {
                    let mut value = load_payload(self.read.conn, self.read.blobs, at)?;
                    serde_json::from_value(value["status"].take())?
                }
            };
            found.push((id, status));
        }
        Ok(found)
    }
}
