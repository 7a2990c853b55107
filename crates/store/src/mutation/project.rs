//! Mutations of projects and their approved rules.

use rusqlite::OptionalExtension;
use turnstone_core::event::EventKind;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Project, WorktreeCreationEvent, WorktreeOutcome};
use turnstone_core::permission::{PermissionRule, RuleAction};

use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::load_project;
use crate::tx::{EventDraft, Tx, WriteOutcome};

/// Writes projects and their approved rules.
#[derive(Clone, Copy)]
pub struct ProjectMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl ProjectMutations<'_> {
    /// Stores a project: all of it.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn put(&self, project: &Project) -> Result<WriteOutcome> {
        let prepared = PreparedPayload::new(project)?;
        let found: Option<(i64, i64)> = self
            .tx
            .conn
            .prepare_cached("SELECT num, image FROM project WHERE id = ?1")?
            .query_row([project.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((_, image)) = found
            && self.tx.is_payload_unchanged(image, &prepared)?
        {
            return Ok(WriteOutcome::No);
        }
        let entity = found.map(|f| f.0);
        self.tx
            .append(&EventDraft::new(None, EventKind::ProjectUpdated, entity).payload(prepared))?;
        Ok(if found.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }

    /// Changes a project from the state it has in this transaction, so that no update is lost.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    pub fn update(&self, id: &ProjectId, change: impl FnOnce(&mut Project)) -> Result<Project> {
        let mut project = load_project(self.tx.conn, self.tx.blobs, self.num(id)?)?;
        change(&mut project);
        if project.id != *id {
            return Err(StoreError::Invalid("a project keeps its id".to_owned()));
        }
        self.put(&project)?;
        Ok(project)
    }

    /// Says what became of a further checkout of a project; `update` is what clients receive.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such project.
    pub fn announce_worktree(&self, id: &ProjectId, update: &WorktreeCreationEvent) -> Result<()> {
        let num = self.num(id)?;
        let kind = match update.outcome {
            WorktreeOutcome::Ready { .. } => EventKind::WorktreeReady,
            WorktreeOutcome::Failed { .. } => EventKind::WorktreeFailed,
        };
        self.tx.append(
            &EventDraft::new(None, kind, Some(num)).payload(PreparedPayload::new(update)?),
        )?;
        Ok(())
    }

    pub(crate) fn num(&self, id: &ProjectId) -> Result<i64> {
        self.tx
            .conn
            .prepare_cached("SELECT num FROM project WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::NotFound { kind: "project", id: id.to_string() })
    }

    /// Approves a rule for a project from now on.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if there is no such project.
    pub fn approve_rule(&self, project: &ProjectId, rule: &PermissionRule) -> Result<WriteOutcome> {
        self.append_grant(project, rule, &serde_json::to_value(rule)?)
    }

    /// The same, in answer to a request of a session, which the log records.
    ///
    /// # Errors
    ///
    /// As `ProjectMutations::approve_rule`.
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
        let num = self.num(project)?;
        let found = self.approved_action(num, rule)?;
        if found == Some(rule.action) {
            return Ok(WriteOutcome::No);
        }
        let draft = EventDraft::new(None, EventKind::ApprovalGranted, Some(num));
        self.tx.append(&draft.payload(PreparedPayload::new(payload)?))?;
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
        let num = self.num(project)?;
        if self.approved_action(num, rule)?.is_none() {
            return Ok(WriteOutcome::No);
        }
        let draft = EventDraft::new(None, EventKind::ApprovalWithdrawn, Some(num));
        self.tx.append(&draft.payload(PreparedPayload::new(rule)?))?;
        Ok(WriteOutcome::Updated)
    }

    fn approved_action(&self, project: i64, rule: &PermissionRule) -> Result<Option<RuleAction>> {
        let text: Option<String> = self
            .tx
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
