//! Messages of a server on their way to the protocol: decoded, counted, and cut off where a server floods.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::service::{RoleClient, RxJsonRpcMessage};
use serde_json::value::RawValue;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::{ToolServerError, clock};

/// The largest message: an image of 10 MiB in base64, and room.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Messages that wait to be read; then the server has to wait.
const WAITING_MESSAGES: usize = 4;
/// The most messages in one array, which an older version of the protocol allows.
const MAX_BATCH: usize = 100;
/// Lines that are no messages, such as greetings of programs, before the server is given up.
const MAX_INVALID: usize = 100;
/// The most notifications and requests of a server in a period: more notifications are dropped, more requests end
/// the connection.
const MAX_UNASKED: usize = 1_000;
/// The period.
const RATE_PERIOD: Duration = Duration::from_secs(5);

/// A message of a server.
pub(crate) type ServerMessage = RxJsonRpcMessage<RoleClient>;

/// Why a connection ended. The first reason stays.
#[derive(Clone, Default)]
pub(crate) struct FaultSlot(Arc<Mutex<Option<ToolServerError>>>);

impl FaultSlot {
    /// Notes why the connection ends, unless something else ended it before.
    pub(crate) fn set(&self, fault: ToolServerError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// Returns why the connection ended.
    pub(crate) fn get(&self) -> Option<ToolServerError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The end of the connection that a reader of a server's output writes to. Its methods block.
pub(crate) struct InboxSender {
    sender: Sender<ServerMessage>,
    faults: FaultSlot,
    rate: Mutex<MessageRate>,
}

/// The connection is over: nothing more is to be read.
#[derive(Debug)]
pub(crate) struct InboxClosed;

/// Returns both ends of a queue of messages.
pub(crate) fn open_inbox(faults: &FaultSlot) -> (InboxSender, Receiver<ServerMessage>) {
    let (sender, receiver) = channel(WAITING_MESSAGES);
    (InboxSender { sender, faults: faults.clone(), rate: Mutex::default() }, receiver)
}

impl InboxSender {
    /// Passes on what a server sent: a message, or an array of messages. True if a response was among them.
    pub(crate) fn receive(&self, bytes: &[u8]) -> Result<bool, InboxClosed> {
        let bytes = bytes.trim_ascii();
        match bytes.first() {
            None => Ok(false),
            Some(b'[') => match serde_json::from_slice::<Vec<&RawValue>>(bytes) {
                Ok(batch) if batch.len() <= MAX_BATCH => {
                    batch.iter().try_fold(false, |is_response, it| {
                        Ok(self.receive_one(it.get().as_bytes())? | is_response)
                    })
                }
                Ok(_) => Err(self.fail("it sent too many messages at once")),
                Err(_) => self.note_invalid(),
            },
            Some(_) => self.receive_one(bytes),
        }
    }

    /// Ends the connection.
    pub(crate) fn fail(&self, reason: &str) -> InboxClosed {
        self.faults.set(ToolServerError::Closed { reason: reason.to_owned() });
        InboxClosed
    }

    fn receive_one(&self, bytes: &[u8]) -> Result<bool, InboxClosed> {
        let Ok(message) = serde_json::from_slice::<ServerMessage>(bytes) else {
            return self.note_invalid();
        };
        let is_response = match &message {
            ServerMessage::Notification(_) if !self.rate().has_room() => return Ok(false),
            ServerMessage::Request(_) if !self.rate().has_room() => {
                return Err(self.fail("it floods this program with requests"));
            }
            ServerMessage::Notification(_) | ServerMessage::Request(_) => false,
            ServerMessage::Response(_) | ServerMessage::Error(_) => true,
        };
        self.sender.blocking_send(message).map_err(|_| InboxClosed)?;
        Ok(is_response)
    }

    fn note_invalid(&self) -> Result<bool, InboxClosed> {
        let mut rate = self.rate();
        rate.invalid += 1;
        let is_hopeless = rate.invalid > MAX_INVALID;
        drop(rate);
        if is_hopeless { Err(self.fail("what it sends is no MCP")) } else { Ok(false) }
    }

    fn rate(&self) -> std::sync::MutexGuard<'_, MessageRate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many messages came that were not asked for.
#[derive(Default)]
struct MessageRate {
    began: Option<Instant>,
    count: usize,
    invalid: usize,
}

impl MessageRate {
    /// Counts a message; false if there are too many.
    fn has_room(&mut self) -> bool {
        let now = clock::now();
        if self.began.is_none_or(|began| now.duration_since(began) >= RATE_PERIOD) {
            self.began = Some(now);
            self.count = 0;
        }
        self.count += 1;
        self.count <= MAX_UNASKED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

    /// Sends from another thread, as a reader does, and counts what arrives.
    fn count_received(send: impl FnOnce(&InboxSender) -> bool + Send) -> (usize, bool, FaultSlot) {
        let faults = FaultSlot::default();
        let (sender, mut receiver) = open_inbox(&faults);
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || send(&sender));
            let mut count = 0;
            while receiver.blocking_recv().is_some() {
                count += 1;
            }
            (count, sent.join().expect("joined"), faults)
        })
    }

    #[test]
    fn arrays_and_greetings_are_accepted() {
        let (count, is_open, _) = count_received(|inbox| {
            let batch = [b"[", NOTE, b",", NOTE, b"]"].concat();
            [&b"Server started!"[..], b"", b"[1, 2", &batch, NOTE]
                .iter()
                .all(|bytes| inbox.receive(bytes).is_ok())
        });
        assert_eq!((count, is_open), (3, true));
    }

    #[test]
    fn server_that_sends_no_mcp_is_given_up() {
        let (count, is_open, faults) =
            count_received(|inbox| (0..200).all(|_| inbox.receive(b"{\"a\":1}").is_ok()));
        assert_eq!((count, is_open), (0, false));
        assert!(faults.get().expect("a reason").to_string().contains("no MCP"));
    }

    #[test]
    fn flood_of_notifications_is_dropped_and_flood_of_requests_ends() {
        let (count, is_open, _) =
            count_received(|inbox| (0..1_500).all(|_| inbox.receive(NOTE).is_ok()));
        assert!(is_open && count >= MAX_UNASKED, "{count}");
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let (_, is_open, faults) =
            count_received(|inbox| (0..1_000_000).all(|_| inbox.receive(ping).is_ok()));
        assert!(!is_open);
        assert!(faults.get().expect("a reason").to_string().contains("floods"));
    }
}
