//! What can be referred to: objects of ours, objects of the peer's, promises, streams.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::command_queue::{CommandQueue, QueuedCommand};
use super::promise_cell::PromiseCell;
use super::stream_pipe::WriteEnd;
use super::stub::Stub;
use crate::error::CallFailure;
use crate::value::Value;

/// What a method gives back when it is not done yet.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Result<Value, CallFailure>> + Send>>;

/// What a method gives back.
pub enum CallReply {
    /// The result.
    Ready(Result<Value, CallFailure>),
    /// A future of it; the session goes on meanwhile.
    Pending(ReplyFuture),
}

/// What kind of member an object has under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// It can be called.
    Method,
    /// It can be read.
    Getter,
}

/// What the peer wants of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// To call the method of that name.
    Method(Arc<str>),
    /// To read the property of that name.
    Getter(Arc<str>),
    /// To call the object itself: it is a function.
    Itself,
}

/// An object of ours that peers may call.
///
/// It is disposed of by dropping: when the last session has given it back, `Drop` runs.
pub trait RpcTarget: Send + Sync + 'static {
    /// Returns what the object has under that name. What it does not name is not there.
    fn member(&self, name: &str) -> Option<MemberKind>;

    /// Tells whether the object can itself be called.
    fn is_function(&self) -> bool {
        false
    }

    /// Starts a call. Called in the order in which the peer called.
    fn invoke(self: Arc<Self>, member: Member, args: Vec<Value>) -> CallReply;
}

/// The peer's object or promise of that id; dropping the last clone gives it back.
#[derive(Clone)]
pub(crate) struct RemoteRef(Arc<RemoteEntry>);

struct RemoteEntry {
    id: i64,
    mailbox: Arc<CommandQueue>,
}

impl Drop for RemoteEntry {
    fn drop(&mut self) {
        self.mailbox.push(QueuedCommand::Release(self.id));
    }
}

impl RemoteRef {
    pub(crate) fn new(id: i64, mailbox: &Arc<CommandQueue>) -> Self {
        let mailbox = Arc::clone(mailbox);
        Self(Arc::new(RemoteEntry { id, mailbox }))
    }

    pub(crate) fn id(&self) -> i64 {
        self.0.id
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn downgrade(&self) -> WeakRemote {
        WeakRemote(Arc::downgrade(&self.0))
    }
}

pub(crate) struct WeakRemote(std::sync::Weak<RemoteEntry>);

impl WeakRemote {
    pub(crate) fn upgrade(&self) -> Option<RemoteRef> {
        self.0.upgrade().map(RemoteRef)
    }
}

/// Anything that a path can start from.
#[derive(Clone)]
pub(crate) enum ObjectRef {
    Target(Arc<dyn RpcTarget>),
    /// A method taken off its object.
    Method(Arc<dyn RpcTarget>, Arc<str>),
    Remote(RemoteRef),
    Promise(PromiseCell),
    Writable(WriteEnd),
    /// Something that belongs to another session.
    Foreign(Box<Stub>),
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(_) => out.write_str("Target"),
            Self::Method(_, name) => write!(out, "Method({name})"),
            Self::Remote(remote) => write!(out, "Remote({})", remote.id()),
            Self::Promise(_) => out.write_str("Cell"),
            Self::Writable(_) => out.write_str("Sink"),
            Self::Foreign(_) => out.write_str("Foreign"),
        }
    }
}
