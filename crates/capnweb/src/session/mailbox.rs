//! What the application asks of a session, from any thread, in order.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::cell::{Cell, Outcome};
use super::pipe::Pipe;
use super::work::{Access, Waiter};
use crate::error::RpcError;

pub(crate) enum Command {
    /// Nobody here refers to that import any more.
    Release(i64),
    /// Call or read something.
    Access(Box<Access>),
    /// Tell how a promise settles.
    Wait(Cell, Waiter),
    /// A promise of ours settled.
    Settle(Cell, Outcome),
    /// A stream has something to send.
    Pump(Pipe),
    /// The main stub was dropped: the application is done with the session.
    Shutdown,
}

/// The queue of one session; also its identity.
#[derive(Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    commands: Vec<Command>,
    closed: Option<Box<RpcError>>,
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a command; what a closed session can no longer do fails at once.
    pub(crate) fn push(&self, command: Command) {
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
        refuse(command, &reason);
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        std::mem::take(&mut self.lock().commands)
    }

    /// Wakes that task at the next command, or now if there is one already.
    pub(crate) fn watch(&self, waker: &Waker) {
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
            refuse(command, reason);
        }
    }

    pub(crate) fn is(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
    }
}

fn refuse(command: Command, reason: &RpcError) {
    match command {
        Command::Access(access) => access.result.clear(reason),
        Command::Wait(cell, waiter) => {
            // Settled promises can still be read when the session is gone.
            let settled = cell.root().settled();
            waiter.finish_alone(settled.unwrap_or_else(|| Err(reason.clone())));
        }
        Command::Pump(pipe) => pipe.fail(reason),
        Command::Release(_) | Command::Settle(..) | Command::Shutdown => {}
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Mailbox")
    }
}
