//! Edits that clients make to stored records outside of a turn: sessions, projects, messages and parts.
//!
//! Each edit is one transaction. What deletes or overwrites passes the permission gate of its session first.

use std::sync::Arc;

use serde_json::{Number, Value};
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId};
use turnstone_core::model::{ExtraFields, Part, Project, Session, SessionModel};
use turnstone_core::permission::{GatedOperation, PermissionRule};
use turnstone_core::time::EpochMillis;
use turnstone_store::{Context, Store, StoreError, Tx};

use crate::error::{EngineError, Result};
use crate::permissions::OperationGates;

/// The fields of a session that a client sets; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct SessionPatch {
    /// The title.
    pub title: Option<String>,
    /// When the session was archived, in milliseconds.
    pub archived: Option<Number>,
    /// Replaces the metadata.
    pub metadata: Option<ExtraFields>,
    /// Appended to the rules of the session.
    pub added_rules: Option<Vec<PermissionRule>>,
    /// The agent of the next prompt.
    pub agent: Option<String>,
    /// The model of the next prompt.
    pub model: Option<SessionModel>,
}

impl SessionPatch {
    fn apply(self, session: &mut Session, now: EpochMillis) {
        // As OpenCode: a title, an archiving, an agent or a model does not make a session newer.
        if self.metadata.is_some() || self.added_rules.is_some() {
            session.time.updated = Number::from(now.0);
        }
        if let Some(title) = self.title {
            session.title = title;
        }
        if let Some(archived) = self.archived {
            session.time.archived = Some(archived);
        }
        if let Some(metadata) = self.metadata {
            session.metadata = Some(metadata);
        }
        if let Some(rules) = self.added_rules {
            session.permission.get_or_insert_default().extend(rules);
        }
        if let Some(agent) = self.agent {
            session.agent = Some(agent);
        }
        if let Some(model) = self.model {
            session.model = Some(model);
        }
    }
}

/// The fields of a project that a client sets; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct ProjectPatch {
    /// The name shown to people.
    pub name: Option<String>,
    /// Replaces the icon.
    pub icon: Option<Value>,
    /// Replaces the commands.
    pub commands: Option<Value>,
}

impl ProjectPatch {
    fn apply(self, project: &mut Project, now: EpochMillis) {
        if let Some(name) = self.name {
            project.name = Some(name);
        }
        if let Some(icon) = self.icon {
            project.icon = Some(icon);
        }
        if let Some(commands) = self.commands {
            project.commands = Some(commands);
        }
        project.time.updated = Number::from(now.0);
    }
}

/// Edits of stored records by clients, outside of a turn.
#[derive(Clone)]
pub struct ClientEdits {
    pub(crate) store: Arc<Store>,
    pub(crate) gates: OperationGates,
}

impl ClientEdits {
    /// Changes fields of a session. Whether the caller may set rules or archive is for the caller to check.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn patch_session(&self, ctx: &Context, id: &SessionId, patch: SessionPatch) -> Result<()> {
        let (id, now) = (id.clone(), ctx.now);
        let write = move |tx: &Tx<'_>| {
            tx.sessions().update(&id, |session| {
                patch.clone().apply(session, now);
                Ok(())
            })
        };
        self.store.write(ctx, write).wait()?;
        Ok(())
    }

    /// Changes fields of a project; returns it as it is now.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoProject`].
    pub fn patch_project(
        &self,
        ctx: &Context,
        id: &ProjectId,
        patch: ProjectPatch,
    ) -> Result<Project> {
        let (name, now) = (id.clone(), ctx.now);
        let write = move |tx: &Tx<'_>| {
            tx.projects().update(&name, |project| patch.clone().apply(project, now))
        };
        match self.store.write(ctx, write).wait() {
            Err(StoreError::NotFound { .. }) => Err(EngineError::NoProject(id.clone())),
            done => Ok(done?),
        }
    }

    /// Stores a part outside of a turn. Overwriting a part that differs needs the permission to delete it.
    ///
    /// # Errors
    ///
    /// As `MessageMutations::put_part`; [`EngineError::PermissionRefused`] or [`EngineError::PermissionPending`], then the
    /// part is unchanged.
    pub fn replace_part(&self, ctx: &Context, part: &Part) -> Result<()> {
        let known = match self.store.read(ctx, |r| r.messages().get_part(&part.session, &part.id)) {
            Ok(known) => Some(known),
            Err(StoreError::NoPart { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let ctx = match known.is_some_and(|known| known.body != part.body) {
            true => self.require_record_removal(ctx, &part.session, part.id.as_str())?,
            false => ctx.clone(),
        };
        let part = part.clone();
        self.store.write(&ctx, move |tx| tx.messages().put_part(&part)).wait()?;
        Ok(())
    }

    /// Removes a part of a message; a part that does not exist changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`]; [`EngineError::PermissionRefused`] or [`EngineError::PermissionPending`].
    pub fn remove_part(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
        part: &PartId,
    ) -> Result<()> {
        let exists = self.store.read(ctx, |r| {
            r.sessions().get(session)?;
            match r.messages().get_part(session, part) {
                Ok(found) => Ok(found.message == *message),
                Err(StoreError::NoPart { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })?;
        if !exists {
            return Ok(());
        }
        let ctx = self.require_record_removal(ctx, session, part.as_str())?;
        let (session, part) = (session.clone(), part.clone());
        let remove = move |tx: &Tx<'_>| match tx.messages().remove_part(&session, &part) {
            Err(StoreError::NoPart { .. }) => Ok(()),
            done => done,
        };
        Ok(self.store.write(&ctx, remove).wait()?)
    }

    /// Removes a message with its parts; a message that does not exist changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`]; [`EngineError::PermissionRefused`] or [`EngineError::PermissionPending`].
    pub fn remove_message(
        &self,
        ctx: &Context,
        session: &SessionId,
        message: &MessageId,
    ) -> Result<()> {
        let ctx = self.require_record_removal(ctx, session, message.as_str())?;
        let (session, message) = (session.clone(), message.clone());
        let remove = move |tx: &Tx<'_>| match tx.messages().remove(&session, &message) {
            Err(StoreError::NoMessage { .. }) => Ok(()),
            done => done,
        };
        Ok(self.store.write(&ctx, remove).wait()?)
    }

    /// Removes the messages of a compaction that failed, in one transaction. They are no part of
    /// the conversation, so no permission is needed; what does not exist changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn discard_compaction(
        &self,
        ctx: &Context,
        session: &SessionId,
        messages: &[MessageId],
    ) -> Result<()> {
        let (session, messages) = (session.clone(), messages.to_vec());
        let remove = move |tx: &Tx<'_>| {
            for message in &messages {
                match tx.messages().remove(&session, message) {
                    Ok(()) | Err(StoreError::NoMessage { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        Ok(self.store.write(&ctx.without_preconditions(), remove).wait()?)
    }

    /// Stores the response of a request under the idempotency key of `ctx`; the first one counts (R43).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn record_response(&self, ctx: &Context, response: String) -> Result<()> {
        Ok(self.store.idempotency().store_answer(ctx, response)?)
    }

    /// Passes the gate that protects the records of a session; returns the context to remove one with.
    fn require_record_removal(
        &self,
        ctx: &Context,
        session: &SessionId,
        record: &str,
    ) -> Result<Context> {
        let patterns = [session.to_string(), record.to_owned()];
        self.gates.require(ctx, session, GatedOperation::Delete, &patterns)
    }
}
