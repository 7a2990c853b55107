//! Projects, sessions, and what belongs to a session as a whole.

use rusqlite::OptionalExtension;
use serde_json::{Number, json};
use turnstone_core::event::EventKind;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{
    Project, Session, SessionFileDiff, Todo, WorktreeEvent, WorktreeOutcome,
};
use turnstone_core::permission::{PermissionRule, RuleAction};

use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::{load_project, load_session};
use crate::tx::{EventDraft, Tx, WriteOutcome};

impl Tx<'_> {
    /// Stores a project: all of it.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn put_project(&self, project: &Project) -> Result<WriteOutcome> {
        let prepared = PreparedPayload::new(project)?;
        let found: Option<(i64, i64)> = self
            .conn
            .prepare_cached("SELECT num, image FROM project WHERE id = ?1")?
            .query_row([project.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((_, image)) = found
            && self.is_payload_unchanged(image, &prepared)?
        {
            return Ok(WriteOutcome::No);
        }
        let entity = found.map(|f| f.0);
        self.append(&EventDraft::new(None, EventKind::ProjectUpdated, entity).payload(prepared))?;
        Ok(if found.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }

    /// Changes a project from the state it has in this transaction, so that no update is lost.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    pub fn update_project(
        &self,
        id: &ProjectId,
        change: impl FnOnce(&mut Project),
    ) -> Result<Project> {
        let mut project = load_project(self.conn, self.blobs, self.project_num(id)?)?;
        change(&mut project);
        if project.id != *id {
            return Err(StoreError::Invalid("a project keeps its id".to_owned()));
        }
        self.put_project(&project)?;
        Ok(project)
    }

    /// Says what became of a further checkout of a project; `news` is what clients are told.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such project.
    pub fn announce_worktree(&self, id: &ProjectId, news: &WorktreeEvent) -> Result<()> {
        let num = self.project_num(id)?;
        let kind = match news.outcome {
            WorktreeOutcome::Ready { .. } => EventKind::WorktreeReady,
            WorktreeOutcome::Failed { .. } => EventKind::WorktreeFailed,
        };
        self.append(&EventDraft::new(None, kind, Some(num)).payload(PreparedPayload::new(news)?))?;
        Ok(())
    }

    pub(crate) fn project_num(&self, id: &ProjectId) -> Result<i64> {
        self.conn
            .prepare_cached("SELECT num FROM project WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::NotFound { kind: "project", id: id.to_string() })
    }

    /// Creates a session. Repeating it with the same values changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the id is taken by a session that differs,
    /// [`StoreError::Deleted`] if it was used before.
    pub fn create_session(&self, session: &Session) -> Result<WriteOutcome> {
        self.project_num(&session.project)?;
        let prepared = PreparedPayload::new(session)?;
        if let Some(num) = self.find_live_session(&session.id)? {
            // What it was created with, while the log still has it, or what it is now.
            if self.is_payload_unchanged(num, &prepared)?
                || self.is_payload_unchanged(self.session_image(num)?, &prepared)?
            {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "session", id: session.id.to_string() });
        }
        let num = self.group.cursor.get() + 1;
        self.conn
            .prepare_cached("INSERT INTO stream (session, id) VALUES (?1, ?2)")?
            .execute((num, session.id.as_str()))?;
        let draft = EventDraft::new(Some(num), EventKind::SessionCreated, None).payload(prepared);
        self.append(&draft)?;
        Ok(WriteOutcome::Created)
    }

    /// The number of a session that lives; an error if the id was used up by a deleted one.
    fn find_live_session(&self, id: &SessionId) -> Result<Option<i64>> {
        let row: Option<(i64, bool)> = self
            .conn
            .prepare_cached("SELECT session, deleted FROM stream WHERE id = ?1")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match row {
            Some((_, true)) => Err(StoreError::Deleted(id.clone())),
            Some((num, false)) => Ok(Some(num)),
            None => Ok(None),
        }
    }

    fn session_image(&self, num: i64) -> Result<i64> {
        Ok(self
            .conn
            .prepare_cached("SELECT image FROM session WHERE num = ?1")?
            .query_row([num], |row| row.get(0))?)
    }

    /// Stores a session: all of it, created if it is new.
    ///
    /// # Errors
    ///
    /// [`StoreError::Deleted`] if the id belonged to a deleted session.
    pub fn put_session(&self, session: &Session) -> Result<WriteOutcome> {
        let Some(num) = self.find_live_session(&session.id)? else {
            return self.create_session(session);
        };
        self.project_num(&session.project)?;
        let prepared = PreparedPayload::new(session)?;
        if self.is_payload_unchanged(self.session_image(num)?, &prepared)? {
            return Ok(WriteOutcome::No);
        }
        let draft =
            EventDraft::new(Some(num), EventKind::SessionUpdated, Some(num)).payload(prepared);
        self.append(&draft)?;
        Ok(WriteOutcome::Updated)
    }

    /// Changes a session from the state it has in this transaction, so that no update is lost.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`], or what `change` answers.
    pub fn update_session(
        &self,
        id: &SessionId,
        change: impl FnOnce(&mut Session) -> Result<()>,
    ) -> Result<Session> {
        let num = self.session_num(id)?;
        let mut session = load_session(self.conn, self.blobs, num)?;
        change(&mut session)?;
        if session.id != *id {
            return Err(StoreError::Invalid("a session keeps its id".to_owned()));
        }
        self.put_session(&session)?;
        Ok(session)
    }

    /// Writes a session anew as it is; `touched` if that counts as a change of it at this moment. A prompt
    /// that hides what is behind the head touches the session itself, once it is there.
    pub(super) fn rewrite_session(&self, num: i64, touched: bool) -> Result<()> {
        let mut session = load_session(self.conn, self.blobs, num)?;
        if touched {
            session.time.updated = Number::from(self.now().0);
        }
        let prepared = PreparedPayload::new(&session)?;
        let draft =
            EventDraft::new(Some(num), EventKind::SessionUpdated, Some(num)).payload(prepared);
        self.append(&draft)?;
        Ok(())
    }

    /// Replaces the to-do list of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn set_todos(&self, id: &SessionId, todos: &[Todo]) -> Result<WriteOutcome> {
        let num = self.session_num(id)?;
        let image = self.find_image("SELECT image FROM todo WHERE session = ?1", num)?;
        self.put_session_value(num, EventKind::TodoUpdated, image, &json!({ "todos": todos }))
    }

    /// Replaces the stored diff of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn put_diff(&self, id: &SessionId, diff: &[SessionFileDiff]) -> Result<WriteOutcome> {
        let num = self.session_num(id)?;
        let image = self.find_image("SELECT image FROM diff WHERE session = ?1", num)?;
        self.put_session_value(num, EventKind::DiffUpdated, image, &json!({ "diff": diff }))
    }

    fn find_image(&self, sql: &'static str, num: i64) -> Result<Option<i64>> {
        Ok(self.conn.prepare_cached(sql)?.query_row([num], |row| row.get(0)).optional()?)
    }

    fn put_session_value(
        &self,
        num: i64,
        kind: EventKind,
        image: Option<i64>,
        value: &serde_json::Value,
    ) -> Result<WriteOutcome> {
        let prepared = PreparedPayload::new(value)?;
        if let Some(image) = image
            && self.is_payload_unchanged(image, &prepared)?
        {
            return Ok(WriteOutcome::No);
        }
        self.append(&EventDraft::new(Some(num), kind, Some(num)).payload(prepared))?;
        Ok(if image.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }

    /// Approves a rule for a project from now on.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such project.
    pub fn approve_rule(&self, project: &ProjectId, rule: &PermissionRule) -> Result<WriteOutcome> {
        self.append_grant(project, rule, &serde_json::to_value(rule)?)
    }

    /// The same, in answer to a request of a session: the log says of which.
    ///
    /// # Errors
    ///
    /// As [`Tx::approve_rule`].
    pub fn approve_rule_for_session(
        &self,
        project: &ProjectId,
        rule: &PermissionRule,
        session: &SessionId,
    ) -> Result<WriteOutcome> {
        let mut grant = serde_json::to_value(rule)?;
        grant["session"] = serde_json::to_value(session)?;
        self.append_grant(project, rule, &grant)
    }

    fn append_grant(
        &self,
        project: &ProjectId,
        rule: &PermissionRule,
        payload: &serde_json::Value,
    ) -> Result<WriteOutcome> {
        let num = self.project_num(project)?;
        let found = self.approved_action(num, rule)?;
        if found == Some(rule.action) {
            return Ok(WriteOutcome::No);
        }
        let draft = EventDraft::new(None, EventKind::ApprovalGranted, Some(num));
        self.append(&draft.payload(PreparedPayload::new(payload)?))?;
        Ok(if found.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }

    /// Takes an approved rule back.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such project.
    pub fn withdraw_rule(
        &self,
        project: &ProjectId,
        rule: &PermissionRule,
    ) -> Result<WriteOutcome> {
        let num = self.project_num(project)?;
        if self.approved_action(num, rule)?.is_none() {
            return Ok(WriteOutcome::No);
        }
        let draft = EventDraft::new(None, EventKind::ApprovalWithdrawn, Some(num));
        self.append(&draft.payload(PreparedPayload::new(rule)?))?;
        Ok(WriteOutcome::Updated)
    }

    fn approved_action(&self, project: i64, rule: &PermissionRule) -> Result<Option<RuleAction>> {
        let text: Option<String> = self
            .conn
            .prepare_cached(
                "SELECT action FROM approval
                 WHERE project = ?1 AND permission = ?2 AND pattern = ?3",
            )?
            .query_row((project, &rule.permission, &rule.pattern), |row| row.get(0))
            .optional()?;
        Ok(text.map(|t| serde_json::from_value(serde_json::Value::String(t))).transpose()?)
    }
}
