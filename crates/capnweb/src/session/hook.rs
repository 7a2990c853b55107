//! What can be referred to: objects of ours, objects of the peer's, promises, streams.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::cell::Cell;
use super::mailbox::{Command, Mailbox};
use super::pipe::WriteEnd;
use super::stub::Stub;
use crate::error::Failure;
use crate::value::Value;

/// What a method gives back when it is not done yet.
pub type Later = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send>>;

/// What a method gives back.
pub enum Reply {
    /// The result.
    Now(Result<Value, Failure>),
    /// A future of it; the session goes on meanwhile.
    Later(Later),
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
pub trait Target: Send + Sync + 'static {
    /// Returns what the object has under that name. What it does not name is not there.
    fn member(&self, name: &str) -> Option<MemberKind>;

    /// Tells whether the object can itself be called.
    fn is_function(&self) -> bool {
        false
    }

    /// Starts a call. Called in the order in which the peer called.
    fn invoke(self: Arc<Self>, member: Member, args: Vec<Value>) -> Reply;
}

/// The peer's object or promise of that id; dropping the last clone gives it back.
#[derive(Clone)]
pub(crate) struct RemoteRef(Arc<Remote>);

struct Remote {
    id: i64,
    mailbox: Arc<Mailbox>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.mailbox.push(Command::Release(self.id));
    }
}

impl RemoteRef {
    pub(crate) fn new(id: i64, mailbox: &Arc<Mailbox>) -> Self {
        let mailbox = Arc::clone(mailbox);
        Self(Arc::new(Remote { id, mailbox }))
    }

    pub(crate) fn id(&self) -> i64 {
        self.0.id
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn downgrade(&self) -> WeakRemote {
        WeakRemote(Arc::downgrade(&self.0))
    }
}

pub(crate) struct WeakRemote(std::sync::Weak<Remote>);

impl WeakRemote {
    pub(crate) fn upgrade(&self) -> Option<RemoteRef> {
        self.0.upgrade().map(RemoteRef)
    }
}

/// Anything that a path can start from.
#[derive(Clone)]
pub(crate) enum Hook {
    Target(Arc<dyn Target>),
    /// A method taken off its object.
    Method(Arc<dyn Target>, Arc<str>),
    Remote(RemoteRef),
    Cell(Cell),
    Sink(WriteEnd),
    /// Something that belongs to another session.
    Foreign(Box<Stub>),
}

impl fmt::Debug for Hook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(_) => out.write_str("Target"),
            Self::Method(_, name) => write!(out, "Method({name})"),
            Self::Remote(remote) => write!(out, "Remote({})", remote.id()),
            Self::Cell(_) => out.write_str("Cell"),
            Self::Sink(_) => out.write_str("Sink"),
            Self::Foreign(_) => out.write_str("Foreign"),
        }
    }
}
