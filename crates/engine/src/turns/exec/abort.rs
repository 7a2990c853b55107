//! Abort: any process may request the end of a turn; the process that runs it ends it (R45).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use turnstone_core::event::EventKind;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_store::{Context, LeaseTakeoverPolicy, Store, StoreError};

use crate::error::{EngineError, Result};
use crate::history::session_recovery::SessionRecovery;
use crate::turns::turn::{Turn, TurnLifecycle};

/// Events read at once.
const PAGE: usize = 200;
/// How often the log is read even without a wake.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What came of asking for an abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortOutcome {
    /// No turn is open.
    NoOpenTurn,
    /// The request is stored; the process that runs the turn ends it.
    Requested(TurnId),
    /// No process ran it: it waited for an answer, and was ended here.
    Ended(TurnId),
}

/// Requests to abort a turn, which any process may make.
#[derive(Clone)]
pub struct Aborts {
    pub(crate) store: Arc<Store>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) lifecycle: TurnLifecycle,
}

impl Aborts {
    /// Asks for the open turn of a session to be aborted, whichever process runs it (R27, R45).
    ///
    /// The request is durable when this returns. Repeating it changes nothing; prompts in the inbox
    /// stay (R29).
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NoSession`], or the database refused.
    pub fn request(&self, ctx: &Context, session: &SessionId) -> Result<AbortOutcome> {
        // The turn of a dead process ends as interrupted.
        self.recovery.recover(ctx, session)?;
        let name = session.clone();
        let Some(id) = self.store.write(ctx, move |tx| tx.turns().request_abort(&name)).wait()?
        else {
            return Ok(AbortOutcome::NoOpenTurn);
        };
        if self.store.leases().is_held(ctx, session)? {
            return Ok(AbortOutcome::Requested(id));
        }
        let lease = self.store.leases().acquire(ctx, session, LeaseTakeoverPolicy::IfDead)?;
        let turn = Turn { session: session.clone(), id: id.clone(), lease };
        self.lifecycle.abort(ctx, &turn)?;
        Ok(AbortOutcome::Ended(id))
    }

    /// True if an abort of this turn was requested.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn is_requested(&self, ctx: &Context, turn: &Turn) -> Result<bool> {
        Ok(self.store.read(ctx, |r| r.turns().is_abort_requested(&turn.session))?)
    }

    /// Waits until an abort of this turn is requested; false once `over` is set. Deleting the
    /// session is such a request, too (R45).
    ///
    /// The caller that sets `over` also calls [`Self::cancel_wait`], which ends the wait.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn wait(&self, ctx: &Context, turn: &Turn, over: &AtomicBool) -> Result<bool> {
        match self.poll(ctx, turn, over) {
            Err(EngineError::Store(StoreError::NoSession(_) | StoreError::Deleted(_))) => Ok(true),
            other => other,
        }
    }

    fn poll(&self, ctx: &Context, turn: &Turn, over: &AtomicBool) -> Result<bool> {
        let watch = self.store.commit_watch();
        // Read before the first look: what comes later is in the stream after it.
        let mut at = self.store.read(ctx, |r| r.sessions().seq(&turn.session))?;
        let mut asked = self.is_requested(ctx, turn)?;
        while !asked {
            let mark = watch.mark();
            if over.load(Ordering::SeqCst) {
                return Ok(false);
            }
            let page = self.store.read(ctx, |r| r.log().stream_after(&turn.session, at, PAGE))?;
            at = page.events.last().and_then(|event| event.seq).unwrap_or(at);
            let ends = [EventKind::TurnAbortAsked, EventKind::SessionDeleted];
            asked = page.events.iter().any(|event| ends.contains(&event.kind));
            if page.events.is_empty() {
                // Woken or not: the log is looked at again.
                let _woken = watch.wait(mark, POLL_INTERVAL);
            }
        }
        Ok(true)
    }

    /// Signals [`Self::wait`] that its turn has ended.
    pub fn cancel_wait(&self, over: &AtomicBool) {
        over.store(true, Ordering::SeqCst);
        self.store.commit_watch().wake_local();
    }
}
