//! What the application holds: stubs and promises.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::command_queue::{CommandQueue, QueuedCommand};
use super::map_recording;
use super::object_ref::{ObjectRef, RpcTarget};
use super::oneshot::{self, OneshotReceiver};
use super::promise_cell::PromiseCell;
use super::work_queue::{AccessOp, MapFunction, PendingAccess, PromiseWaiter, disconnected_error};
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::PathKey;

/// An object or function of either side. A clone is the same; the last one dropped gives it back.
#[derive(Clone)]
pub struct Stub {
    pub(crate) reference: ObjectRef,
    pub(crate) home: Option<Arc<CommandQueue>>,
    /// Present in the main stub of a session: dropping it ends the session.
    pub(crate) main: Option<Arc<MainGuard>>,
}

/// Ends the session when dropped.
pub(crate) struct MainGuard(pub(crate) Arc<CommandQueue>);

impl Drop for MainGuard {
    fn drop(&mut self) {
        self.0.push(QueuedCommand::Shutdown);
    }
}

impl Stub {
    /// Makes a stub of an object of ours, to be passed to a peer.
    pub fn new(target: impl RpcTarget) -> Self {
        Self::shared(Arc::new(target))
    }

    /// Makes a stub of a shared object of ours.
    pub fn shared(target: Arc<dyn RpcTarget>) -> Self {
        Self::from_ref(ObjectRef::Target(target), None)
    }

    pub(crate) fn from_ref(hook: ObjectRef, home: Option<&Arc<CommandQueue>>) -> Self {
        Self { reference: hook, home: home.cloned(), main: None }
    }

    /// Calls a method; the empty path calls the stub itself. Starts at once, awaited or not.
    ///
    /// A stub made by [`Stub::new`] belongs to no session and cannot be called before it has
    /// travelled: its calls fail.
    pub fn call_path(&self, path: &[&str], args: Vec<Value>) -> Promise {
        start_access(&self.reference, self.home.as_ref(), path, AccessOp::Call(args))
    }

    /// Reads a property.
    pub fn get_path(&self, path: &[&str]) -> Promise {
        start_access(&self.reference, self.home.as_ref(), path, AccessOp::Get)
    }
}

impl fmt::Debug for Stub {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stub({:?})", self.reference)
    }
}

/// A value that is not there yet. It can be called and passed on before it is.
///
/// Await it for the value. Dropped unawaited, the call still happens and its result is not sent.
#[derive(Clone)]
pub struct Promise {
    pub(crate) cell: PromiseCell,
    pub(crate) home: Option<Arc<CommandQueue>>,
}

impl Promise {
    pub(crate) fn from_cell(cell: PromiseCell, home: &Arc<CommandQueue>) -> Self {
        Self { cell, home: Some(Arc::clone(home)) }
    }

    /// Calls a method of what this will be, without waiting for it.
    pub fn call_path(&self, path: &[&str], args: Vec<Value>) -> Promise {
        let hook = ObjectRef::Promise(self.cell.clone());
        start_access(&hook, self.home.as_ref(), path, AccessOp::Call(args))
    }

    /// Reads a property of what this will be, without waiting for it.
    pub fn get_path(&self, path: &[&str]) -> Promise {
        let hook = ObjectRef::Promise(self.cell.clone());
        start_access(&hook, self.home.as_ref(), path, AccessOp::Get)
    }

    /// Applies a function to every element of what this will be, where that is.
    ///
    /// The function runs once, now, with a placeholder for the element: calls made inside it, on the
    /// placeholder or on any other stub or promise, are written down and sent to be made over there.
    /// So it must have no other effects, and cannot look at the element. Its result may hold the
    /// placeholder and the promises of its calls. What is no array is passed to it whole; `null` and
    /// `undefined` stay what they are.
    pub fn map(&self, body: impl FnOnce(Promise) -> Value) -> Promise {
        let mapping = match map_recording::record_map(body) {
            Ok(mapping) => mapping,
            Err(error) => {
                return Promise {
                    cell: PromiseCell::already_settled(Err(error)),
                    home: self.home.clone(),
                };
            }
        };
        let captures = mapping.captures.into_iter().map(|stub| match (&stub.home, &self.home) {
            (Some(home), Some(own)) if home.is_same(own) => stub.reference,
            (None, _) => stub.reference,
            (Some(_), _) => ObjectRef::Foreign(Box::new(stub)),
        });
        let budget = super::remote_map::MapBudget::unlimited();
        let mapper = MapFunction::new(captures.collect(), mapping.instructions, budget);
        let hook = ObjectRef::Promise(self.cell.clone());
        start_access(&hook, self.home.as_ref(), &[], AccessOp::Map(Box::new(mapper)))
    }

    /// Treats what this will be as a stub, to be passed on as one.
    pub fn into_stub(self) -> Stub {
        Stub::from_ref(ObjectRef::Promise(self.cell), self.home.as_ref())
    }
}

fn start_access(
    hook: &ObjectRef,
    home: Option<&Arc<CommandQueue>>,
    path: &[&str],
    op: AccessOp,
) -> Promise {
    let op = match map_recording::record_access(hook, home, path, op) {
        Ok(recorded) => return recorded,
        Err(op) => op,
    };
    let result = PromiseCell::pending();
    let promise = Promise { cell: result.clone(), home: home.cloned() };
    let Some(mailbox) = home else {
        let message = "the stub belongs to no session yet";
        promise.cell.clear(&RpcError::with_code("disconnected", message));
        return promise;
    };
    let path = path.iter().map(|part| PathKey::Name((*part).into()));
    mailbox.push(QueuedCommand::Access(Box::new(PendingAccess {
        hook: hook.clone(),
        path: path.collect(),
        start: 0,
        at: 0,
        op,
        result,
        charge: None,
        compared: 0,
        budget: None,
    })));
    promise
}

/// Waits for a promise that was pulled.
#[must_use = "nothing is waited for until it is awaited"]
pub struct PromiseFuture {
    answered: OneshotReceiver,
    /// Held until it settles: given back, the peer would not answer.
    promise: Option<Promise>,
}

impl Future for PromiseFuture {
    type Output = Result<Value, RpcError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.answered).poll(context);
        if polled.is_ready() {
            self.promise = None;
        }
        polled
    }
}

impl IntoFuture for Promise {
    type Output = Result<Value, RpcError>;
    type IntoFuture = PromiseFuture;

    fn into_future(self) -> PromiseFuture {
        let (answer, answered) = oneshot::oneshot();
        // The wait begins here, so that a promise can be awaited later than it is pulled.
        match &self.home {
            Some(mailbox) => {
                mailbox
                    .push(QueuedCommand::Wait(self.cell.clone(), PromiseWaiter::Receiver(answer)));
            }
            None => answer.send(self.cell.outcome().unwrap_or_else(|| Err(disconnected_error()))),
        }
        PromiseFuture { answered, promise: Some(self) }
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Promise")
    }
}
