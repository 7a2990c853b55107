//! Projects, sessions, and what belongs to a session as a whole.

use rusqlite::OptionalExtension;
use serde_json::{Number, json};
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::model::{Session, SessionFileDiff, Todo};
use turnstone_core::operation::SessionHead;

use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::{ReadTx, load_session};
use crate::table_row_ids::SessionNum;
use crate::tx::{EventDraft, Tx, WriteOutcome};

/// Writes sessions.
#[derive(Clone, Copy)]
pub struct SessionMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl SessionMutations<'_> {
    /// Creates a session. Repeating it with the same values changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the id is taken by a session that differs,
    /// [`StoreError::Deleted`] if it was used before.
    pub fn create(&self, session: &Session) -> Result<WriteOutcome> {
        self.tx.projects().num(&session.project)?;
        let prepared = PreparedPayload::new(session)?;
        if let Some(num) = self.find_live(&session.id)? {
            // What it was created with, while the log still has it, or what it is now.
            if self.tx.is_payload_unchanged(num.0, &prepared)?
                || self.tx.is_payload_unchanged(self.image(num)?, &prepared)?
            {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "session", id: session.id.to_string() });
        }
        let num = self.tx.group.cursor.get() + 1;
        self.tx
            .conn
            .prepare_cached("INSERT INTO stream (session, id) VALUES (?1, ?2)")?
            .execute((num, session.id.as_str()))?;
        let draft = EventDraft::new(Some(SessionNum(num)), EventKind::SessionCreated, None)
            .payload(prepared);
        self.tx.append(&draft)?;
        Ok(WriteOutcome::Created)
    }

    /// The number of a session that lives; an error if the id was used up by a deleted one.
    fn find_live(&self, id: &SessionId) -> Result<Option<SessionNum>> {
        let row: Option<(i64, bool)> = self
            .tx
            .conn
            .prepare_cached("SELECT session, deleted FROM stream WHERE id = ?1")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match row {
            Some((_, true)) => Err(StoreError::Deleted(id.clone())),
            Some((num, false)) => Ok(Some(SessionNum(num))),
            None => Ok(None),
        }
    }

    fn image(&self, num: SessionNum) -> Result<i64> {
        Ok(self
            .tx
            .conn
            .prepare_cached("SELECT image FROM session WHERE num = ?1")?
            .query_row([num], |row| row.get(0))?)
    }

    /// Stores a session: all of it, created if it is new.
    ///
    /// # Errors
    ///
    /// [`StoreError::Deleted`] if the id belonged to a deleted session.
    pub fn put(&self, session: &Session) -> Result<WriteOutcome> {
        let Some(num) = self.find_live(&session.id)? else {
            return self.create(session);
        };
        self.tx.projects().num(&session.project)?;
        let prepared = PreparedPayload::new(session)?;
        if self.tx.is_payload_unchanged(self.image(num)?, &prepared)? {
            return Ok(WriteOutcome::No);
        }
        let draft =
            EventDraft::new(Some(num), EventKind::SessionUpdated, Some(num.0)).payload(prepared);
        self.tx.append(&draft)?;
        Ok(WriteOutcome::Updated)
    }

    /// Changes a session from the state it has in this transaction, so that no update is lost.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`], or what `change` answers.
    pub fn update(
        &self,
        id: &SessionId,
        change: impl FnOnce(&mut Session) -> Result<()>,
    ) -> Result<Session> {
        let num = self.tx.session_num(id)?;
        let mut session = load_session(self.tx.conn, self.tx.blobs, num)?;
        change(&mut session)?;
        if session.id != *id {
            return Err(StoreError::Invalid("a session keeps its id".to_owned()));
        }
        self.put(&session)?;
        Ok(session)
    }

    /// Writes a session again as it is; `touched` if that counts as a change of it at this moment. A prompt
    /// that hides what is behind the head touches the session itself, once it is there.
    pub(super) fn rewrite(&self, num: SessionNum, touched: bool) -> Result<()> {
        let mut session = load_session(self.tx.conn, self.tx.blobs, num)?;
        // What an import brought describes the position that the source had reached.
        let read = ReadTx { conn: self.tx.conn, blobs: self.tx.blobs };
        let head = read.sessions().head(&session.id)?;
        session.revert = session.revert.filter(|revert| {
            let position =
                SessionHead { message: revert.message.clone(), part: revert.part.clone() };
            head.as_ref() == Some(&position)
        });
        if touched {
            session.time.updated = Number::from(self.tx.now().0);
        }
        let prepared = PreparedPayload::new(&session)?;
        let draft =
            EventDraft::new(Some(num), EventKind::SessionUpdated, Some(num.0)).payload(prepared);
        self.tx.append(&draft)?;
        Ok(())
    }

    /// Replaces the to-do list of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn set_todos(&self, id: &SessionId, todos: &[Todo]) -> Result<WriteOutcome> {
        let num = self.tx.session_num(id)?;
        let image = self.find_image("SELECT image FROM todo WHERE session = ?1", num)?;
        self.put_value(num, EventKind::TodoUpdated, image, &json!({ "todos": todos }))
    }

    /// Replaces the stored diff of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn put_diff(&self, id: &SessionId, diff: &[SessionFileDiff]) -> Result<WriteOutcome> {
        let num = self.tx.session_num(id)?;
        let image = self.find_image("SELECT image FROM diff WHERE session = ?1", num)?;
        self.put_value(num, EventKind::DiffUpdated, image, &json!({ "diff": diff }))
    }

    fn find_image(&self, sql: &'static str, num: SessionNum) -> Result<Option<i64>> {
        Ok(self.tx.conn.prepare_cached(sql)?.query_row([num], |row| row.get(0)).optional()?)
    }

    fn put_value(
        &self,
        num: SessionNum,
        kind: EventKind,
        image: Option<i64>,
        value: &serde_json::Value,
    ) -> Result<WriteOutcome> {
        let prepared = PreparedPayload::new(value)?;
        if let Some(image) = image
            && self.tx.is_payload_unchanged(image, &prepared)?
        {
            return Ok(WriteOutcome::No);
        }
        self.tx.append(&EventDraft::new(Some(num), kind, Some(num.0)).payload(prepared))?;
        Ok(if image.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }
}
