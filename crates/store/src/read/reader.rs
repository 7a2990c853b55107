//! A reader: one consistent view of the store.

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;
use turnstone_core::id::{MessageId, ProjectId, SessionId, TurnId};
use turnstone_core::model::{
    Project, RequestState, Session, SessionFileDiff, SessionStatus, SessionUsage, Todo, UserRequest,
};
use turnstone_core::permission::PermissionRule;
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_core::turn::TurnState;

use super::load::{find_open_turn, is_abort_requested, load_payload, load_project, load_session};
use crate::actor_name;
use crate::blob::BlobDir;
use crate::context::OwnerId;
use crate::error::{Result, StoreError};
use crate::mutation::{PromptDelivery, PromptReceipt, ShareRecord, find_share};

/// One consistent view: everything read through it is of the same moment.
pub struct ReadTx<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) blobs: &'a BlobDir,
}

/// A turn as readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Names the turn.
    pub id: TurnId,
    /// The message that began it.
    pub message: MessageId,
    /// How far it got.
    pub state: TurnState,
    /// When it began to run.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: Option<i64>,
    /// True if its message was hidden by a branch, or removed.
    pub hidden: bool,
    /// Where in the log it was accepted and where it last moved: its end, once it has ended.
    pub span: (LogCursor, LogCursor),
}

impl ReadTx<'_> {
    pub(crate) fn session_num(&self, id: &SessionId) -> Result<i64> {
        self.find_session_num(id)?.ok_or_else(|| StoreError::NoSession(id.clone()))
    }

    fn find_session_num(&self, id: &SessionId) -> Result<Option<i64>> {
        Ok(self
            .conn
            .prepare_cached("SELECT num FROM session WHERE id = ?1 AND hidden = 0")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?)
    }

    /// A session, if it exists.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find_session(&self, id: &SessionId) -> Result<Option<Session>> {
        self.find_session_num(id)?.map(|num| load_session(self.conn, self.blobs, num)).transpose()
    }

    /// A session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn get_session(&self, id: &SessionId) -> Result<Session> {
        load_session(self.conn, self.blobs, self.session_num(id)?)
    }

    /// The ids of live sessions that begin with `prefix`, at most `limit`.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>> {
        let mut statement = self.conn.prepare_cached(
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
    /// [`StoreError::NoSession`].
    pub fn session_seq(&self, id: &SessionId) -> Result<SessionSeq> {
        let num = self.session_num(id)?;
        let seq = self
            .conn
            .prepare_cached("SELECT seq FROM stream WHERE session = ?1")?
            .query_row([num], |row| row.get(0))?;
        Ok(SessionSeq(seq))
    }

    /// The newest cursor of the log.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn last_cursor(&self) -> Result<LogCursor> {
        let cursor = self
            .conn
            .prepare_cached("SELECT coalesce(max(cursor), 0) FROM event")?
            .query_row([], |row| row.get(0))?;
        Ok(LogCursor(cursor))
    }

    /// What a session's finished steps add up to.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn session_usage(&self, id: &SessionId) -> Result<SessionUsage> {
        let num = self.session_num(id)?;
        Ok(self
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
    pub fn child_sessions(&self, id: &SessionId) -> Result<Vec<Session>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT num FROM session WHERE parent = ?1 AND hidden = 0 ORDER BY num",
        )?;
        let nums: Vec<i64> = statement
            .query_map([id.as_str()], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        nums.into_iter().map(|num| load_session(self.conn, self.blobs, num)).collect()
    }

    /// The to-do list of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn todos(&self, id: &SessionId) -> Result<Vec<Todo>> {
        let image = self.find_image(id, "SELECT image FROM todo WHERE session = ?1")?;
        self.load_list(image, "todos")
    }

    /// The stored diff of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn session_diff(&self, id: &SessionId) -> Result<Option<Vec<SessionFileDiff>>> {
        match self.find_image(id, "SELECT image FROM diff WHERE session = ?1")? {
            Some(image) => Ok(Some(self.load_list(Some(image), "diff")?)),
            None => Ok(None),
        }
    }

    fn find_image(&self, id: &SessionId, sql: &'static str) -> Result<Option<i64>> {
        let num = self.session_num(id)?;
        Ok(self.conn.prepare_cached(sql)?.query_row([num], |row| row.get(0)).optional()?)
    }

    fn load_list<T>(&self, image: Option<i64>, field: &str) -> Result<Vec<T>>
    where
        T: serde::de::DeserializeOwned,
    {
        let Some(image) = image else { return Ok(Vec::new()) };
        Ok(serde_json::from_value(load_payload(self.conn, self.blobs, image)?[field].take())?)
    }

    /// How a session is shared, with its secret.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn session_share(&self, id: &SessionId) -> Result<Option<ShareRecord>> {
        find_share(self.conn, self.session_num(id)?)
    }

    /// A project, if it exists.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find_project(&self, id: &ProjectId) -> Result<Option<Project>> {
        let num: Option<i64> = self
            .conn
            .prepare_cached("SELECT num FROM project WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        num.map(|num| load_project(self.conn, self.blobs, num)).transpose()
    }

    /// All projects, oldest first.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn projects(&self) -> Result<Vec<Project>> {
        let mut statement = self.conn.prepare_cached("SELECT num FROM project ORDER BY num")?;
        let nums: Vec<i64> =
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        nums.into_iter().map(|num| load_project(self.conn, self.blobs, num)).collect()
    }

    /// The rules approved for a project, oldest first.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn approved_rules(&self, project: &ProjectId) -> Result<Vec<PermissionRule>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT permission, pattern, action FROM approval
             WHERE project = (SELECT num FROM project WHERE id = ?1) ORDER BY granted",
        )?;
        let rows = statement.query_map([project.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })?;
        rows.map(|row| {
            let (permission, pattern, action) = row?;
            let action = serde_json::from_value(Value::String(action))?;
            Ok(PermissionRule::new(&permission, &pattern, action))
        })
        .collect()
    }

    /// The requests nobody has answered yet, of one session or of all.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn pending_requests(&self, session: Option<&SessionId>) -> Result<Vec<UserRequest>> {
        let num = session.map(|id| self.session_num(id)).transpose()?;
        let mut statement = self.conn.prepare_cached(
            "SELECT asked FROM request WHERE pending = 1 AND (?1 IS NULL OR session = ?1)
             ORDER BY num",
        )?;
        let asked: Vec<i64> =
            statement.query_map([num], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        asked
            .into_iter()
            .map(|cursor| Ok(serde_json::from_value(load_payload(self.conn, self.blobs, cursor)?)?))
            .collect()
    }

    /// The answer to a request, `Pending` while there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    pub fn request_state(&self, id: &str) -> Result<RequestState> {
        let row: Option<Option<i64>> = self
            .conn
            .prepare_cached("SELECT resolved FROM request WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        match row {
            None => Err(StoreError::NotFound { kind: "request", id: id.to_owned() }),
            Some(None) => Ok(RequestState::Pending),
            Some(Some(at)) => {
                let mut value = load_payload(self.conn, self.blobs, at)?;
                Ok(serde_json::from_value(value["state"].take())?)
            }
        }
    }

    /// A request as it stands, if there is one of that id.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find_request(&self, id: &str) -> Result<Option<UserRequest>> {
        let asked: Option<i64> = self
            .conn
            .prepare_cached("SELECT asked FROM request WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let Some(asked) = asked else {
            return Ok(None);
        };
        let mut request: UserRequest =
            serde_json::from_value(load_payload(self.conn, self.blobs, asked)?)?;
        request.state = self.request_state(id)?;
        Ok(Some(request))
    }

    /// Who asked a request, if there is one of that id.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn request_actor(&self, id: &str) -> Result<Option<String>> {
        let name: Option<String> = self
            .conn
            .prepare_cached(
                "SELECT actor.name FROM request JOIN event ON event.cursor = request.asked
                 JOIN actor ON actor.num = event.actor WHERE request.id = ?1",
            )?
            .query_row([id], |row| row.get(0))
            .optional()?;
        Ok(name.map(|name| actor_name::split_actor_client(name).0))
    }

    /// Who created a session (R43).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn session_actor(&self, session: &SessionId) -> Result<String> {
        let num = self.session_num(session)?;
        let name: String = self
            .conn
            .prepare_cached(
                "SELECT actor.name FROM session JOIN actor ON actor.num = session.actor
                 WHERE session.num = ?1",
            )?
            .query_row([num], |row| row.get(0))?;
        Ok(actor_name::split_actor_client(name).0)
    }

    /// The turns of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn turns(&self, session: &SessionId) -> Result<Vec<TurnRow>> {
        let num = self.session_num(session)?;
        let mut statement = self.conn.prepare_cached(
            "SELECT id, message, state, started, ended, num, image,
                    NOT EXISTS (SELECT 1 FROM message WHERE message.id = turn.message)
             FROM turn WHERE session = ?1 ORDER BY num",
        )?;
        let mut rows = statement.query([num])?;
        let mut turns = Vec::new();
        while let Some(row) = rows.next()? {
            let state: String = row.get(2)?;
            turns.push(TurnRow {
                id: parse_id(row.get(0)?)?,
                message: parse_id(row.get(1)?)?,
                state: TurnState::parse(&state)
                    .ok_or_else(|| StoreError::Internal(format!("turn state {state:?}")))?,
                started: row.get(3)?,
                ended: row.get(4)?,
                hidden: row.get(7)?,
                span: (LogCursor(row.get(5)?), LogCursor(row.get(6)?)),
            });
        }
        Ok(turns)
    }

    /// The running turns of all sessions: session number, turn, owner.
    pub(crate) fn running_turns(&self) -> Result<Vec<(i64, String, Option<OwnerId>)>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT turn.session, turn.id, stream.owner FROM turn
             JOIN stream ON stream.session = turn.session
             WHERE turn.ended IS NULL AND turn.state = 'running' ORDER BY turn.num",
        )?;
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?.map(OwnerId)))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Tells whether somebody asked for the open turn of a session to be aborted.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn is_abort_requested(&self, session: &SessionId) -> Result<bool> {
        let num = self.session_num(session)?;
        match find_open_turn(self.conn, num)? {
            Some(turn) => is_abort_requested(self.conn, num, turn),
            None => Ok(false),
        }
    }

    /// Who holds the lease on a session, if somebody does.
    pub(crate) fn lease_holder(&self, session: &SessionId) -> Result<Option<OwnerId>> {
        let num = self.session_num(session)?;
        let owner: Option<String> = self
            .conn
            .prepare_cached("SELECT owner FROM stream WHERE session = ?1")?
            .query_row([num], |row| row.get(0))?;
        Ok(owner.map(OwnerId))
    }

    /// The sessions with a turn that has not ended.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_with_open_turn(&self) -> Result<Vec<SessionId>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT session.id FROM turn JOIN session ON session.num = turn.session
             WHERE turn.ended IS NULL AND session.hidden = 0 ORDER BY turn.num",
        )?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        let wrong = |_| StoreError::Invalid("a session has an id that is none".to_owned());
        rows.map(|id| SessionId::try_from(id?).map_err(wrong)).collect()
    }

    /// What a session is doing, from its turn (R45).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn session_status(&self, session: &SessionId) -> Result<SessionStatus> {
        let num = self.session_num(session)?;
        let row: Option<(String, Option<i64>)> = self
            .conn
            .prepare_cached("SELECT state, status FROM turn WHERE session = ?1 AND ended IS NULL")?
            .query_row([num], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match row {
            None => Ok(SessionStatus::Idle),
            Some((_, Some(at))) => {
                let mut value = load_payload(self.conn, self.blobs, at)?;
                Ok(serde_json::from_value(value["status"].take())?)
            }
            Some(_) => Ok(SessionStatus::Busy),
        }
    }

    /// The prompts of a session that no turn has taken up, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn waiting_prompts(&self, session: &SessionId) -> Result<Vec<PromptReceipt>> {
        let num = self.session_num(session)?;
        let mut statement = self.conn.prepare_cached(
            "SELECT message, delivery, admitted FROM input
             WHERE session = ?1 AND promoted IS NULL ORDER BY num",
        )?;
        let mut rows = statement.query([num])?;
        let mut waiting = Vec::new();
        while let Some(row) = rows.next()? {
            let queue = row.get::<_, String>(1)? == "queue";
            waiting.push(PromptReceipt {
                message: parse_id(row.get(0)?)?,
                delivery: if queue { PromptDelivery::Queue } else { PromptDelivery::Steer },
                admitted: SessionSeq(row.get(2)?),
                promoted: None,
            });
        }
        Ok(waiting)
    }

    /// The outbox rows of a session after `num`: `(num, cursor)`, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn outbox_rows(
        &self,
        session: &SessionId,
        num: i64,
        limit: usize,
    ) -> Result<Vec<(i64, LogCursor)>> {
        let session = self.session_num(session)?;
        let mut statement = self.conn.prepare_cached(
            "SELECT num, cursor FROM outbox WHERE session = ?1 AND num > ?2 ORDER BY num LIMIT ?3",
        )?;
        let rows = statement.query_map((session, num, limit as i64), |row| {
            Ok((row.get(0)?, LogCursor(row.get(1)?)))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// Parses an id that was checked when it was stored.
pub(crate) fn parse_id<T>(text: String) -> Result<T>
where
    T: TryFrom<String>,
    T::Error: std::fmt::Display,
{
    T::try_from(text).map_err(|e| StoreError::Internal(e.to_string()))
}
