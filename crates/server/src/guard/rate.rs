//! How often one peer may ask: a bucket that fills with time and is emptied by requests.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use turnstone_core::time::Millis;

use super::failures::Failures;
use crate::peer::PeerId;

/// Peers remembered at most; all further ones share one bucket.
const MOST: usize = 4_096;

/// A burst is this many seconds' worth of requests.
const BURST: f64 = 10.0;

/// What of a peer is counted.
#[derive(Debug)]
pub(crate) struct Rates {
    /// Requests that may do something.
    pub(super) authenticated: Rate,
    /// Requests without a password, or with a wrong one: they do not use up the others.
    pub(super) anonymous: Rate,
    /// Wrong passwords.
    pub(super) failures: Failures,
}

impl Rates {
    pub(crate) fn new(a_second: u32) -> Self {
        Self {
            authenticated: Rate::new(a_second),
            anonymous: Rate::new(a_second),
            failures: Failures::default(),
        }
    }
}

/// The buckets of all peers.
#[derive(Debug)]
pub(super) struct Rate {
    a_second: f64,
    /// `None` is the bucket of those for whom there is no room.
    buckets: Mutex<HashMap<Option<PeerId>, (f64, Millis)>>,
}

impl Rate {
    pub(super) fn new(a_second: u32) -> Self {
        Self { a_second: f64::from(a_second), buckets: Mutex::default() }
    }

    /// True if the peer may ask now; the request is counted.
    pub(super) fn allows(&self, peer: PeerId, now: Millis) -> bool {
        let full = self.a_second * BURST;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(peer);
        if buckets.len() >= MOST && !buckets.contains_key(&key) {
            let is_idle = |(_, at): &(f64, Millis)| now.since(*at) >= 1_000 * BURST as i64;
            buckets.retain(|_, bucket| !is_idle(bucket));
            if buckets.len() >= MOST {
                key = None;
            }
        }
        let (left, at) = buckets.entry(key).or_insert((full, now));
        let filled = *left + now.since(*at).max(0) as f64 / 1_000.0 * self.a_second;
        *left = filled.min(full);
        *at = now;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_then_the_rate_and_others_are_not_affected() {
        let rate = Rate::new(2);
        let (one, other) = (PeerId::User(1), PeerId::User(2));
        let now = Millis(1_000);
        assert_eq!((0..40).filter(|_| rate.allows(one, now)).count(), 20);
        assert!(rate.allows(other, now));
        assert_eq!((0..40).filter(|_| rate.allows(one, now.plus(1_000))).count(), 2);
    }

    #[test]
    fn many_peers_fill_no_memory_and_a_newcomer_may_still_ask() {
        let rate = Rate::new(1);
        for n in 0..4_096 {
            assert!(rate.allows(PeerId::User(n), Millis(0)));
        }
        assert!(rate.allows(PeerId::User(9_999), Millis(0)));
        for n in 10_000..20_000 {
            rate.allows(PeerId::User(n), Millis(0));
        }
        assert!(rate.buckets.lock().is_ok_and(|buckets| buckets.len() <= MOST + 1));
        assert!(rate.allows(PeerId::User(30_000), Millis(60_000)));
    }
}
