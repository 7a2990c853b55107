//! How far the streams are: an answer that closes a turn is given after what was told of it.
//!
//! OpenCode's `run --attach` prints what it hears and ends with the answer to its prompt, whatever is on its
//! way by then; its own server tells everything first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::hub::Hub;
use super::ring::Ring;

/// A stream that reads the log: nobody waits for it.
pub(super) const FAR: u64 = u64::MAX;
/// The longest an answer waits for streams that are slow.
const LONGEST: Duration = Duration::from_millis(500);
/// How often it is looked.
const TICK: Duration = Duration::from_millis(2);
/// How long a client gets to read what lies before it.
const PAUSE: Duration = Duration::from_millis(25);

/// The streams that are open, and the number up to which each has handed the ring on.
#[derive(Default)]
pub(super) struct Heard {
    places: Mutex<Vec<Weak<AtomicU64>>>,
}

impl Heard {
    /// A new stream; forgotten when it is dropped.
    pub(super) fn join(&self, from: u64) -> Arc<AtomicU64> {
        let place = Arc::new(AtomicU64::new(from));
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|known| known.strong_count() > 0);
        places.push(Arc::downgrade(&place));
        place
    }

    /// The least number of all streams; nothing if nobody listens.
    fn least(&self) -> Option<u64> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let live = places.iter().filter_map(Weak::upgrade);
        live.map(|place| place.load(Ordering::Relaxed)).min()
    }
}

impl Hub {
    /// Hands on all that is durable by now; returns when every stream had time to take it, and its
    /// client to read it.
    pub(crate) async fn hand_on(&self) {
        if self.shared.heard().least().is_none() {
            return;
        }
        let shared = self.shared.clone();
        let draining = tokio::task::spawn_blocking(move || {
            if let Some(Err(error)) = shared.follow() {
                tracing::warn!("the log could not be read before an answer was given: {error}");
            }
            shared.ring(Ring::next_number)
        });
        let Ok(upto) = draining.await else { return };
        let until = tokio::time::Instant::now() + LONGEST;
        while self.shared.heard().least().is_some_and(|least| least < upto)
            && tokio::time::Instant::now() < until
        {
            tokio::time::sleep(TICK).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
