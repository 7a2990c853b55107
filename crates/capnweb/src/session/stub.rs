//! What the application holds: stubs and promises.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::cell::Cell;
use super::hook::{Hook, Target};
use super::mailbox::{Command, Mailbox};
use super::record;
use super::slot::{self, Answered};
use super::work::{Access, Mapper, Op, Waiter, gone};
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::Key;

/// An object or function of either side. A clone is the same; the last one dropped gives it back.
#[derive(Clone)]
pub struct Stub {
    pub(crate) hook: Hook,
    pub(crate) home: Option<Arc<Mailbox>>,
    /// Present in the main stub of a session: dropping it ends the session.
    pub(crate) main: Option<Arc<MainGuard>>,
}

/// Ends the session when dropped.
pub(crate) struct MainGuard(pub(crate) Arc<Mailbox>);

impl Drop for MainGuard {
    fn drop(&mut self) {
        self.0.push(Command::Shutdown);
    }
}

impl Stub {
    /// Makes a stub of an object of ours, to be passed to a peer.
    pub fn new(target: impl Target) -> Self {
        Self::shared(Arc::new(target))
    }

    /// Makes a stub of a shared object of ours.
    pub fn shared(target: Arc<dyn Target>) -> Self {
        Self::of(Hook::Target(target), None)
    }

    pub(crate) fn of(hook: Hook, home: Option<&Arc<Mailbox>>) -> Self {
        Self { hook, home: home.cloned(), main: None }
    }

    /// Calls a method; the empty path calls the stub itself. Starts at once, awaited or not.
    ///
    /// A stub made by [`Stub::new`] belongs to no session and cannot be called before it has
    /// travelled: its calls fail.
    pub fn call_path(&self, path: &[&str], args: Vec<Value>) -> Promise {
        start(&self.hook, self.home.as_ref(), path, Op::Call(args))
    }

    /// Reads a property.
    pub fn get_path(&self, path: &[&str]) -> Promise {
        start(&self.hook, self.home.as_ref(), path, Op::Get)
    }
}

impl fmt::Debug for Stub {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stub({:?})", self.hook)
    }
}

/// A value that is not there yet. It can be called and passed on before it is.
///
/// Await it for the value. Dropped unawaited, the call still happens and its result is not sent.
#[derive(Clone)]
pub struct Promise {
    pub(crate) cell: Cell,
    pub(crate) home: Option<Arc<Mailbox>>,
}

impl Promise {
    pub(crate) fn of(cell: Cell, home: &Arc<Mailbox>) -> Self {
        Self { cell, home: Some(Arc::clone(home)) }
    }

    /// Calls a method of what this will be, without waiting for it.
    pub fn call_path(&self, path: &[&str], args: Vec<Value>) -> Promise {
        let hook = Hook::Cell(self.cell.clone());
        start(&hook, self.home.as_ref(), path, Op::Call(args))
    }

    /// Reads a property of what this will be, without waiting for it.
    pub fn get_path(&self, path: &[&str]) -> Promise {
        let hook = Hook::Cell(self.cell.clone());
        start(&hook, self.home.as_ref(), path, Op::Get)
    }

    /// Applies a function to every element of what this will be, where that is.
    ///
    /// The function runs once, now, with a placeholder for the element: calls made inside it, on the
    /// placeholder or on any other stub or promise, are written down and sent to be made over there.
    /// So it must have no other effects, and cannot look at the element. Its result may hold the
    /// placeholder and the promises of its calls. What is no array is passed to it whole; `null` and
    /// `undefined` stay what they are.
    pub fn map(&self, body: impl FnOnce(Promise) -> Value) -> Promise {
        let mapping = match record::record(body) {
            Ok(mapping) => mapping,
            Err(error) => {
                return Promise { cell: Cell::done(Err(error)), home: self.home.clone() };
            }
        };
        let captures = mapping.captures.into_iter().map(|stub| match (&stub.home, &self.home) {
            (Some(home), Some(own)) if home.is(own) => stub.hook,
            (None, _) => stub.hook,
            (Some(_), _) => Hook::Foreign(Box::new(stub)),
        });
        let budget = super::map::Budget::unlimited();
        let mapper = Mapper::new(captures.collect(), mapping.instructions, budget);
        let hook = Hook::Cell(self.cell.clone());
        start(&hook, self.home.as_ref(), &[], Op::Map(Box::new(mapper)))
    }

    /// Treats what this will be as a stub, to be passed on as one.
    pub fn into_stub(self) -> Stub {
        Stub::of(Hook::Cell(self.cell), self.home.as_ref())
    }
}

fn start(hook: &Hook, home: Option<&Arc<Mailbox>>, path: &[&str], op: Op) -> Promise {
    let op = match record::intercept(hook, home, path, op) {
        Ok(recorded) => return recorded,
        Err(op) => op,
    };
    let result = Cell::pending();
    let promise = Promise { cell: result.clone(), home: home.cloned() };
    let Some(mailbox) = home else {
        let message = "the stub belongs to no session yet";
        promise.cell.clear(&RpcError::coded("disconnected", message));
        return promise;
    };
    let path = path.iter().map(|part| Key::Name((*part).into()));
    mailbox.push(Command::Access(Box::new(Access {
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
    answered: Answered,
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
        let (answer, answered) = slot::answer();
        // The wait begins here, so that a promise can be awaited later than it is pulled.
        match &self.home {
            Some(mailbox) => {
                mailbox.push(Command::Wait(self.cell.clone(), Waiter::Answer(answer)));
            }
            None => answer.give(self.cell.settled().unwrap_or_else(|| Err(gone()))),
        }
        PromiseFuture { answered, promise: Some(self) }
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Promise")
    }
}
