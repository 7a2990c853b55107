//! What the application asks of a session, from any thread, in order.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::promise_cell::{PromiseCell, PromiseOutcome};
use super::stream_pipe::StreamPipe;
use super::work_queue::{PendingAccess, PromiseWaiter};
use crate::error::RpcError;

pub(crate) enum QueuedCommand {
    /// No local reference to that import is left.
    Release(i64),
    /// Call or read something.
    Access(Box<PendingAccess>),
    /// Tell how a promise settles.
    Wait(PromiseCell, PromiseWaiter),
    /// A promise of ours settled.
    Settle(PromiseCell, PromiseOutcome),
    /// A stream has something to send.
    Pump(StreamPipe),
    /// The main stub was dropped: the application is done with the session.
    Shutdown,
}

/// The queue of one session; also its identity.
#[derive(Default)]
pub(crate) struct CommandQueue {
    inner: Mutex<CommandQueueState>,
}

#[derive(Default)]
struct CommandQueueState {
    commands: Vec<QueuedCommand>,
    closed: Option<Box<RpcError>>,
    waker: Option<Waker>,
}

impl CommandQueue {
    fn lock(&self) -> MutexGuard<'_, CommandQueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a command; what a closed session can no longer do fails at once.
    pub(crate) fn push(&self, command: QueuedCommand) {
        let mut inner = self.lock();
        let Some(reason) = inner.closed.clone() else {
            inner.commands.push(command);
            let waker = inner.waker.take();
            drop(inner);
            if let Some(waker) = waker {
                waker.wake();
            }
            return;
        };
        drop(inner);
        fail_command(command, &reason);
    }

    pub(crate) fn take(&self) -> Vec<QueuedCommand> {
        std::mem::take(&mut self.lock().commands)
    }

    /// Wakes that task at the next command, or now if there is one already.
    pub(crate) fn register_waker(&self, waker: &Waker) {
        let mut inner = self.lock();
        if !inner.commands.is_empty() {
            drop(inner);
            waker.wake_by_ref();
            return;
        }
        inner.waker = Some(waker.clone());
    }

    pub(crate) fn close(&self, reason: &RpcError) {
        let mut inner = self.lock();
        inner.closed.get_or_insert_with(|| Box::new(reason.clone()));
        let left = std::mem::take(&mut inner.commands);
        drop(inner);
        for command in left {
            fail_command(command, reason);
        }
    }

    pub(crate) fn is_same(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
    }
}

fn fail_command(command: QueuedCommand, reason: &RpcError) {
    match command {
        QueuedCommand::Access(access) => access.result.clear(reason),
        QueuedCommand::Wait(cell, waiter) => {
            // Settled promises can still be read when the session is gone.
            let settled = cell.resolve_forwards().outcome();
            waiter.finish_without_session(settled.unwrap_or_else(|| Err(reason.clone())));
        }
        QueuedCommand::Pump(pipe) => pipe.fail(reason),
        QueuedCommand::Release(_) | QueuedCommand::Settle(..) | QueuedCommand::Shutdown => {}
    }
}

impl fmt::Debug for CommandQueue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Mailbox")
    }
}
