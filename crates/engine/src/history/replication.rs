//! Events of another server, stored with the numbers they have there (R25).

use std::sync::Arc;

use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::time::EpochMillis;
use turnstone_store::{Context, PendingWrite, ReplicationOutcome, Store, SyncBody};

use crate::error::Result;
use crate::projects::Projects;

/// One numbered event of another server.
#[derive(Clone, Debug)]
pub struct ReplicatedEvent {
    /// Its number in the session.
    pub seq: i64,
    /// When it happened there; `None` means now.
    pub time: Option<EpochMillis>,
    /// Its payload.
    pub body: SyncBody,
}

/// Stores events of other servers.
#[derive(Clone)]
pub struct Replication {
    pub(crate) store: Arc<Store>,
    pub(crate) projects: Projects,
}

impl Replication {
    /// Stores events of one session in the order of their numbers; an event whose number is taken changes nothing.
    ///
    /// A session whose project is unknown here gets the project `fallback`.
    ///
    /// # Errors
    ///
    /// The first event that was refused; the events before it are stored, those after it are not.
    pub fn replicate_events(
        &self,
        ctx: &Context,
        session: &SessionId,
        fallback: &ProjectId,
        events: Vec<ReplicatedEvent>,
    ) -> Result<()> {
        let mut pending = Vec::new();
        for event in events {
            if matches!(event.body, SyncBody::SessionDeleted) {
                wait_for_all(std::mem::take(&mut pending))?;
                self.projects.delete_session(ctx, session)?;
                continue;
            }
            let body = self.with_local_project(ctx, fallback, event.body)?;
            let mut at = ctx.clone();
            at.now = event.time.unwrap_or(ctx.now);
            // Each event is its own mutation and needs the one before it, so they are stored in order or not at all.
            let (id, seq) = (session.clone(), event.seq);
            pending.push(self.store.write(&at, move |tx| tx.sync().replicate(&id, seq, &body)));
        }
        wait_for_all(pending)
    }

    fn with_local_project(
        &self,
        ctx: &Context,
        fallback: &ProjectId,
        mut body: SyncBody,
    ) -> Result<SyncBody> {
        if let SyncBody::Session(session) = &mut body {
            // Derived here, never read back (R21).
            session.revert = None;
            if self.store.read(ctx, |r| r.projects().find(&session.project))?.is_none() {
                session.project = fallback.clone();
            }
        }
        Ok(body)
    }
}

/// Waits for every write, so that none is still under way when the first error is returned.
fn wait_for_all(pending: Vec<PendingWrite<ReplicationOutcome>>) -> Result<()> {
    let mut failed = None;
    for write in pending {
        if let Err(error) = write.wait() {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
