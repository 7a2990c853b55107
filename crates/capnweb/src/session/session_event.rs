//! What a session wants its owner to do or know.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::object_ref::{CallReply, Member, RpcTarget};
use crate::error::RpcError;
use crate::value::Value;

/// Identifies a call until it is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u64);

/// A call of an object of ours.
pub struct IncomingCall {
    /// To be given to [`finish_call`](super::RpcSession::finish_call) with the result.
    pub id: CallId,
    /// Whose member is called.
    pub target: Arc<dyn RpcTarget>,
    /// What is called.
    pub member: Member,
    /// The arguments; they hold no promises.
    pub args: Vec<Value>,
}

impl IncomingCall {
    /// Starts the call.
    pub fn start(self) -> (CallId, CallReply) {
        (self.id, self.target.invoke(self.member, self.args))
    }
}

impl fmt::Debug for IncomingCall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Call")
            .field("id", &self.id)
            .field("member", &self.member)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

/// Something for the owner of a session.
#[derive(Debug)]
pub enum SessionEvent {
    /// Start this call; calls are started in the order of their events.
    Call(IncomingCall),
    /// A method failed in a way the peer must not see; it got only the id.
    Incident {
        /// What the peer got.
        id: String,
        /// What happened.
        error: Box<dyn Error + Send + Sync>,
    },
    /// The session is over; send what is left to send, then close.
    Closed(RpcError),
}
