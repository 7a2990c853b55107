//! What happens to a running turn from outside: an abort, answers, prompts that come in (R29, R45).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use turnstone_core::event::EventKind;
use turnstone_store::{Context, LogEvent, Store, StoreError};

use crate::error::{EngineError, Result};
use crate::turns::exec::Aborts;
use crate::turns::turn::Turn;

/// Events read at once.
const PAGE: usize = 200;
/// How often the log is read even without a wake.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What a running turn receives from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnSignal {
    /// Its abort was requested, or its session was deleted.
    AbortRequested,
    /// A request of its session was answered or withdrawn.
    RequestResolved,
    /// A prompt was put into the inbox of its session.
    PromptAdmitted,
}

/// Watches running turns for what happens to them from outside.
#[derive(Clone)]
pub struct TurnWatches {
    pub(crate) store: Arc<Store>,
    pub(crate) aborts: Aborts,
}

impl TurnWatches {
    /// Reports what happens to a turn from outside until `over` is set; what happened before the call counts
    /// too. The caller that sets `over` also calls [`Self::cancel`].
    ///
    /// # Errors
    ///
    /// The database cannot be read: the caller must not rely on the watch any more.
    pub fn watch(
        &self,
        ctx: &Context,
        turn: &Turn,
        over: &AtomicBool,
        report: &mut dyn FnMut(TurnSignal),
    ) -> Result<()> {
        match self.follow(ctx, turn, over, report) {
            Err(EngineError::Store(StoreError::NoSession(_) | StoreError::Deleted(_))) => {
                report(TurnSignal::AbortRequested);
                Ok(())
            }
            other => other,
        }
    }

    fn follow(
        &self,
        ctx: &Context,
        turn: &Turn,
        over: &AtomicBool,
        report: &mut dyn FnMut(TurnSignal),
    ) -> Result<()> {
        let watch = self.store.commit_watch();
        // Read before the first look: what comes later is in the stream after it.
        let mut at = self.store.read(ctx, |r| r.sessions().seq(&turn.session))?;
        if self.aborts.is_requested(ctx, turn)? {
            report(TurnSignal::AbortRequested);
        }
        // Whatever was answered or admitted before is found by a caller that looks now.
        report(TurnSignal::RequestResolved);
        report(TurnSignal::PromptAdmitted);
        loop {
            let mark = watch.mark();
            if over.load(Ordering::SeqCst) {
                return Ok(());
            }
            let page = self.store.read(ctx, |r| r.log().stream_after(&turn.session, at, PAGE))?;
            at = page.events.last().and_then(|event| event.seq).unwrap_or(at);
            page.events.iter().filter_map(turn_signal).for_each(&mut *report);
            if page.events.is_empty() {
                // Woken or not: the log is looked at again.
                let _woken = watch.wait(mark, POLL_INTERVAL);
            }
        }
    }

    /// Ends [`Self::watch`] of a turn that is over.
    pub fn cancel(&self, over: &AtomicBool) {
        over.store(true, Ordering::SeqCst);
        self.store.commit_watch().wake_local();
    }
}

/// What an event means to the running turn of its session.
fn turn_signal(event: &LogEvent) -> Option<TurnSignal> {
    if matches!(event.kind, EventKind::TurnAbortAsked | EventKind::SessionDeleted) {
        return Some(TurnSignal::AbortRequested);
    }
    match event.kind == EventKind::RequestResolved {
        true => Some(TurnSignal::RequestResolved),
        false => (event.kind == EventKind::InputAdmitted).then_some(TurnSignal::PromptAdmitted),
    }
}
