//! Sends events to the streams that wait for them, without waking a task for each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;

use super::stream_event::{StreamEvent, StreamFormat};
use crate::connection::{DeliveryOutcome, RingMark, StreamSocket, encode_chunk};

/// The open streams whose sockets take frames directly.
#[derive(Default)]
pub(super) struct DirectStreams {
    streams: Mutex<Vec<Arc<DirectStream>>>,
}

/// One of them.
pub(super) struct DirectStream {
    pub(super) socket: Arc<StreamSocket>,
    pub(super) format: StreamFormat,
    /// Only this directory.
    pub(super) directory: Option<String>,
    /// The number up to which the ring was sent.
    pub(super) progress: Arc<AtomicU64>,
}

impl DirectStreams {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<DirectStream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, stream: Arc<DirectStream>) {
        self.lock().push(stream);
    }

    pub(super) fn remove(&self, stream: &Arc<DirectStream>) {
        self.lock().retain(|known| !Arc::ptr_eq(known, stream));
    }

    /// Wakes all that wait.
    pub(super) fn wake_all(&self) {
        // A copy, here and below: streams open and close meanwhile.
        let streams = self.lock().clone();
        streams.iter().for_each(|stream| stream.socket.wake());
    }

    /// Sends `events`, which have the numbers from `from` up to `to`, to all that wait. Calls must come in the
    /// order of the ring.
    pub(super) fn deliver(&self, events: &[Arc<StreamEvent>], from: u64, to: RingMark) {
        // After these a stream has to do more than to send frames.
        if events.iter().any(|event| event.gap.is_some() || event.is_instance_disposed()) {
            return self.wake_all();
        }
        let streams = self.lock().clone();
        let mut chunks: HashMap<(StreamFormat, Option<&str>), Bytes> = HashMap::new();
        for stream in &streams {
            let directory = stream.directory.as_deref();
            let chunk = match chunks.entry((stream.format, directory)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(encode_chunk(&join_frames(events, stream.format, directory)))
                }
            };
            if stream.socket.deliver(from, to, chunk) == DeliveryOutcome::Sent {
                stream.progress.store(to.number, Ordering::Relaxed);
            }
        }
    }
}

/// The frames of the events that a stream of this format and directory is to see.
fn join_frames(
    events: &[Arc<StreamEvent>],
    format: StreamFormat,
    directory: Option<&str>,
) -> Vec<u8> {
    let mut frames = Vec::new();
    for event in events {
        if directory.is_none_or(|directory| event.is_in_directory(directory)) {
            event.frames(format).iter().for_each(|shown| frames.extend_from_slice(&shown.bytes));
        }
    }
    frames
}
