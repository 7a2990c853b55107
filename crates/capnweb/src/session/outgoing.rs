//! Messages that wait to be sent, counted in bytes.
//!
//! The session never waits: what does not fit fails, and the owner reads nothing from a peer while
//! [`RpcSession::is_congested`].

use std::collections::VecDeque;

use super::command_queue::QueuedCommand;
use super::rpc_session::{RpcSession, limit_error};
use super::session_event::SessionEvent;
use super::stream_pipe::StreamPipe;
use crate::error::RpcError;
use crate::wire::{EncodeError, WireMessage};

/// Bytes that a session keeps for printing its messages.
const MAX_KEPT_SCRATCH: usize = 512;

/// What a queued message costs besides its text.
const QUEUED_BYTES: usize = size_of::<QueuedMessage>();

struct QueuedMessage {
    text: String,
    /// The peer caused it: as long as it takes none of them, nothing more is read from it.
    is_answer: bool,
}

/// What goes to the owner.
#[derive(Default)]
pub(super) struct OutgoingQueue {
    texts: VecDeque<QueuedMessage>,
    /// Bytes of all texts, and of those that the peer caused.
    bytes: usize,
    answer_bytes: usize,
    /// Among the texts is one that the peer may be waiting for.
    urgent: bool,
    /// Where messages are printed before their length is known.
    scratch: String,
    /// Streams that wait until less is queued.
    stalled: Vec<StreamPipe>,
    pub(super) events: VecDeque<SessionEvent>,
    pub(super) incidents: u64,
}

impl OutgoingQueue {
    /// Takes the streams that wait: the session is over.
    pub(super) fn take_stalled(&mut self) -> Vec<StreamPipe> {
        std::mem::take(&mut self.stalled)
    }
}

impl RpcSession {
    /// Returns the next message for the peer.
    pub fn poll_text(&mut self) -> Option<String> {
        let was_full = is_outgoing_full(self);
        let queued = self.outgoing.texts.pop_front();
        if let Some(queued) = &queued {
            let bytes = queued.text.len() + QUEUED_BYTES;
            self.outgoing.bytes -= bytes;
            self.outgoing.answer_bytes -= if queued.is_answer { bytes } else { 0 };
        }
        self.outgoing.urgent &= !self.outgoing.texts.is_empty();
        if was_full && !is_outgoing_full(self) {
            for pipe in std::mem::take(&mut self.outgoing.stalled) {
                self.mailbox.push(QueuedCommand::Pump(pipe));
            }
        }
        queued.map(|queued| queued.text)
    }

    /// Tells whether one of the messages does more than give things back.
    ///
    /// The peer does not wait for the others: they can be sent with the next message.
    pub fn has_urgent_message(&self) -> bool {
        self.outgoing.urgent
    }

    /// Tells whether there is no message for the peer.
    pub fn is_outgoing_empty(&self) -> bool {
        self.outgoing.texts.is_empty()
    }

    /// Returns the bytes of the messages that wait to be sent.
    pub fn outgoing_bytes(&self) -> usize {
        self.outgoing.bytes
    }

    /// Tells whether the peer takes its answers too slowly: read nothing more from it until it does.
    ///
    /// Calls of our own do not count: two peers that call each other must not stop reading for them.
    pub fn is_congested(&self) -> bool {
        self.outgoing.answer_bytes >= self.options.limits.pause_bytes
    }
}

/// Tells whether streams have to wait.
fn is_outgoing_full(session: &RpcSession) -> bool {
    session.outgoing.bytes >= session.options.limits.pause_bytes
}

/// Tells whether that stream has to wait until messages were sent; it is pumped again then.
pub(super) fn stall_if_full(session: &mut RpcSession, pipe: &StreamPipe) -> bool {
    let full = is_outgoing_full(session);
    if full && !session.outgoing.stalled.iter().any(|stalled| stalled.is_same(pipe)) {
        session.outgoing.stalled.push(pipe.clone());
    }
    full
}

/// Queues a message. Nothing is sent when the session is over.
///
/// # Errors
///
/// A value that the peer would not understand, or that is longer than what may still be queued.
pub(super) fn queue_message(
    session: &mut RpcSession,
    message: &WireMessage,
) -> Result<usize, RpcError> {
    if session.activity.closed.is_some() {
        return Ok(0);
    }
    let (is_answer, has_limit) = match message {
        WireMessage::Resolve(..) | WireMessage::Reject(..) => (true, true),
        WireMessage::Push(_) | WireMessage::Stream(_) => (false, true),
        // Short, and the session would be wrong without them.
        WireMessage::Release(..) | WireMessage::Abort(_) => (true, false),
        WireMessage::Pull(_) | WireMessage::Pipe => (false, false),
    };
    let out = &mut session.outgoing;
    let limits = &session.options.limits;
    let room = limits.outgoing_bytes.saturating_sub(out.bytes + QUEUED_BYTES);
    let most = if has_limit { room } else { usize::MAX };
    let encoded =
        message.encode_into(session.options.profile, &limits.wire, most, &mut out.scratch);
    if let Err(error) = encoded {
        out.scratch = String::new();
        return Err(match error {
            EncodeError::TooLong => limit_error("too many bytes wait to be sent to the peer"),
            EncodeError::UnknownToPeer(_) | EncodeError::TooDeep => {
                RpcError::type_error(error.to_string())
            }
        });
    }
    let bytes = out.scratch.len();
    // Short texts are copied at their size; a long one takes the buffer with it.
    let short = out.scratch.capacity() <= MAX_KEPT_SCRATCH;
    let text = if short { out.scratch.clone() } else { std::mem::take(&mut out.scratch) };
    out.urgent |= !matches!(message, WireMessage::Release(..));
    out.bytes += bytes + QUEUED_BYTES;
    out.answer_bytes += if is_answer { bytes + QUEUED_BYTES } else { 0 };
    out.texts.push_back(QueuedMessage { text, is_answer });
    Ok(bytes)
}
