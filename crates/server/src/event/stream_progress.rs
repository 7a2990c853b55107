//! How far the streams are: the response that ends a turn is sent after the events of the turn.
//!
//! OpenCode's `run --attach` prints the events it receives and ends with the answer to its prompt, whatever is on its
//! way by then; its own server tells everything first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::event_ring::EventRing;
use super::hub::EventHub;

/// A stream that reads the log: no request waits for it.
pub(super) const READING_LOG: u64 = u64::MAX;
/// The longest an answer waits for streams that are slow.
const MAX_FLUSH_WAIT: Duration = Duration::from_millis(500);
/// How often it is looked.
const FLUSH_POLL: Duration = Duration::from_millis(2);
/// How long a client gets to read what lies before it.
const CLIENT_READ_PAUSE: Duration = Duration::from_millis(25);

/// The streams that are open, and the number up to which each has handed the ring on.
#[derive(Default)]
pub(super) struct StreamProgress {
    watermarks: Mutex<Vec<Weak<AtomicU64>>>,
}

impl StreamProgress {
    /// A new stream; forgotten when it is dropped.
    pub(super) fn register(&self, from: u64) -> Arc<AtomicU64> {
        let place = Arc::new(AtomicU64::new(from));
        let mut places = self.watermarks.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|known| known.strong_count() > 0);
        places.push(Arc::downgrade(&place));
        place
    }

    /// The least number of all streams; `None` without streams.
    fn slowest(&self) -> Option<u64> {
        let places = self.watermarks.lock().unwrap_or_else(PoisonError::into_inner);
        let live = places.iter().filter_map(Weak::upgrade);
        live.map(|place| place.load(Ordering::Relaxed)).min()
    }
}

/// Sends everything that is durable by now to all streams; returns when every stream had time to send it, and
/// its client to read it.
pub(crate) async fn flush_streams(hub: &EventHub) {
    if hub.shared.progress().slowest().is_none() {
        return;
    }
    let shared = hub.shared.clone();
    let draining = tokio::task::spawn_blocking(move || {
        if let Some(Err(error)) = shared.follow_once() {
            tracing::warn!("the log could not be read before an answer was given: {error}");
        }
        shared.with_ring(EventRing::next_number)
    });
    let Ok(upto) = draining.await else { return };
    let until = tokio::time::Instant::now() + MAX_FLUSH_WAIT;
    while hub.shared.progress().slowest().is_some_and(|least| least < upto)
        && tokio::time::Instant::now() < until
    {
        tokio::time::sleep(FLUSH_POLL).await;
    }
    tokio::time::sleep(CLIENT_READ_PAUSE).await;
}
