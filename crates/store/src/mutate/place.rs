//! Projects, sessions, and what belongs to a session as a whole.

use rusqlite::OptionalExtension;
use serde_json::{Number, json};
use turnstone_core::event::EventKind;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{FileDiff, Project, Session, Todo, WorktreeNews, WorktreeOutcome};
use turnstone_core::permission::{Action, Rule};

use crate::error::{Result, StoreError};
use crate::payload::Prepared;
use crate::read::{load_project, load_session};
use crate::tx::{Changed, Draft, Tx};

impl Tx<'_> {
    /// Stores a project: all of it.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn put_project(&self, project: &Project) -> Result<Changed> {
        let prepared = Prepared::new(project)?;
        let found: Option<(i64, i64)> = self
            .conn
            .prepare_cached("SELECT num, image FROM project WHERE id = ?1")?
            .query_row([project.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((_, image)) = found
            && self.is_same(image, &prepared)?
        {
            return Ok(Changed::No);
        }
        let entity = found.map(|f| f.0);
        self.append(&Draft::new(None, EventKind::ProjectUpdated, entity).payload(prepared))?;
        Ok(if found.is_some() { Changed::Updated } else { Changed::Created })
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
    pub fn announce_worktree(&self, id: &ProjectId, news: &WorktreeNews) -> Result<()> {
        let num = self.project_num(id)?;
        let kind = match news.outcome {
            WorktreeOutcome::Ready { .. } => EventKind::WorktreeReady,
            WorktreeOutcome::Failed { .. } => EventKind::WorktreeFailed,
        };
        self.append(&Draft::new(None, kind, Some(num)).payload(Prepared::new(news)?))?;
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
    pub fn create_session(&self, session: &Session) -> Result<Changed> {
        self.project_num(&session.project)?;
        let prepared = Prepared::new(session)?;
        if let Some(num) = self.find_session(&session.id)? {
            // What it was created with, while the log still has it, or what it is now.
            if self.is_same(num, &prepared)? || self.is_same(self.session_image(num)?, &prepared)? {
                return Ok(Changed::No);
            }
            return Err(StoreError::Conflict { kind: "session", id: session.id.to_string() });
        }
        let num = self.group.cursor.get() + 1;
        self.conn
            .prepare_cached("INSERT INTO stream (session, id) VALUES (?1, ?2)")?
            .execute((num, session.id.as_str()))?;
        let draft = Draft::new(Some(num), EventKind::SessionCreated, None).payload(prepared);
        self.append(&draft)?;
        Ok(Changed::Created)
    }

    /// The number of a session that lives; an error if the id was used up by a deleted one.
    fn find_session(&self, id: &SessionId) -> Result<Option<i64>> {
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
    pub fn put_session(&self, session: &Session) -> Result<Changed> {
        let Some(num) = self.find_session(&session.id)? else {
            return self.create_session(session);
        };
        self.project_num(&session.project)?;
        let prepared = Prepared::new(session)?;
        if self.is_same(self.session_image(num)?, &prepared)? {
            return Ok(Changed::No);
        }
        let draft = Draft::new(Some(num), EventKind::SessionUpdated, Some(num)).payload(prepared);
        self.append(&draft)?;
        Ok(Changed::Updated)
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
        let prepared = Prepared::new(&session)?;
        let draft = Draft::new(Some(num), EventKind::SessionUpdated, Some(num)).payload(prepared);
        self.append(&draft)?;
        Ok(())
    }

    /// Replaces the to-do list of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn set_todos(&self, id: &SessionId, todos: &[Todo]) -> Result<Changed> {
        let num = self.session_num(id)?;
        let image = self.side_image("SELECT image FROM todo WHERE session = ?1", num)?;
        self.put_side(num, EventKind::TodoUpdated, image, &json!({ "todos": todos }))
    }

    /// Replaces the stored diff of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn put_diff(&self, id: &SessionId, diff: &[FileDiff]) -> Result<Changed> {
        let num = self.session_num(id)?;
        let image = self.side_image("SELECT image FROM diff WHERE session = ?1", num)?;
        self.put_side(num, EventKind::DiffUpdated, image, &json!({ "diff": diff }))
    }

    fn side_image(&self, sql: &'static str, num: i64) -> Result<Option<i64>> {
        Ok(self.conn.prepare_cached(sql)?.query_row([num], |row| row.get(0)).optional()?)
    }

    fn put_side(
        &self,
        num: i64,
        kind: EventKind,
        image: Option<i64>,
        value: &serde_json::Value,
    ) -> Result<Changed> {
        let prepared = Prepared::new(value)?;
        if let Some(image) = image
            && self.is_same(image, &prepared)?
        {
            return Ok(Changed::No);
        }
        self.append(&Draft::new(Some(num), kind, Some(num)).payload(prepared))?;
        Ok(if image.is_some() { Changed::Updated } else { Changed::Created })
    }

    /// Approves a rule for a project from now on.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such project.
    pub fn approve(&self, project: &ProjectId, rule: &Rule) -> Result<Changed> {
        self.grant(project, rule, &serde_json::to_value(rule)?)
    }

    /// The same, in answer to a request of a session: the log says of which.
    ///
    /// # Errors
    ///
    /// As [`Tx::approve`].
    pub fn approve_for(
        &self,
        project: &ProjectId,
        rule: &Rule,
        session: &SessionId,
    ) -> Result<Changed> {
        let mut grant = serde_json::to_value(rule)?;
        grant["session"] = serde_json::to_value(session)?;
        self.grant(project, rule, &grant)
    }

    fn grant(
        &self,
        project: &ProjectId,
        rule: &Rule,
        payload: &serde_json::Value,
    ) -> Result<Changed> {
        let num = self.project_num(project)?;
        let found = self.approved(num, rule)?;
        if found == Some(rule.action) {
            return Ok(Changed::No);
        }
        let draft = Draft::new(None, EventKind::ApprovalGranted, Some(num));
        self.append(&draft.payload(Prepared::new(payload)?))?;
        Ok(if found.is_some() { Changed::Updated } else { Changed::Created })
    }

    /// Takes an approved rule back.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such project.
    pub fn withdraw(&self, project: &ProjectId, rule: &Rule) -> Result<Changed> {
        let num = self.project_num(project)?;
        if self.approved(num, rule)?.is_none() {
            return Ok(Changed::No);
        }
        let draft = Draft::new(None, EventKind::ApprovalWithdrawn, Some(num));
        self.append(&draft.payload(Prepared::new(rule)?))?;
        Ok(Changed::Updated)
    }

    fn approved(&self, project: i64, rule: &Rule) -> Result<Option<Action>> {
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
