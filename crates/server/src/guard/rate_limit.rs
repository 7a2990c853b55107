//! How often one peer may ask: a bucket that fills with time and is emptied by requests.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use turnstone_core::time::EpochMillis;

use super::password_failures::PasswordFailures;
use crate::peer::PeerId;

/// Peers remembered at most; all further ones share one bucket.
const MAX_PEERS: usize = 4_096;

/// A burst is this many seconds' worth of requests.
const BURST_SECONDS: f64 = 10.0;

/// What of a peer is counted.
#[derive(Debug)]
pub(crate) struct RateLimits {
    /// Requests that may do something.
    pub(super) authenticated: RateLimiter,
    /// Requests without a password, or with a wrong one: they do not use up the others.
    pub(super) anonymous: RateLimiter,
    /// Wrong passwords.
    pub(super) failures: PasswordFailures,
}

impl RateLimits {
    pub(crate) fn new(a_second: u32) -> Self {
        Self {
            authenticated: RateLimiter::new(a_second),
            anonymous: RateLimiter::new(a_second),
            failures: PasswordFailures::default(),
        }
    }
}

/// The buckets of all peers.
#[derive(Debug)]
pub(super) struct RateLimiter {
    per_second: f64,
    /// `None` is the bucket of those for whom there is no room.
    buckets: Mutex<HashMap<Option<PeerId>, (f64, EpochMillis)>>,
}

impl RateLimiter {
    pub(super) fn new(a_second: u32) -> Self {
        Self { per_second: f64::from(a_second), buckets: Mutex::default() }
    }

    /// True if the peer may ask now; the request is counted.
    pub(super) fn try_acquire(&self, peer: PeerId, now: EpochMillis) -> bool {
        let full = self.per_second * BURST_SECONDS;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Some(peer);
        if buckets.len() >= MAX_PEERS && !buckets.contains_key(&key) {
            let is_idle =
                |(_, at): &(f64, EpochMillis)| now.since(*at) >= 1_000 * BURST_SECONDS as i64;
            buckets.retain(|_, bucket| !is_idle(bucket));
            if buckets.len() >= MAX_PEERS {
                key = None;
            }
        }
        let (left, at) = buckets.entry(key).or_insert((full, now));
        let filled = *left + now.since(*at).max(0) as f64 / 1_000.0 * self.per_second;
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
    fn burst_then_rate_is_enforced_per_peer() {
        let rate = RateLimiter::new(2);
        let (one, other) = (PeerId::User(1), PeerId::User(2));
        let now = EpochMillis(1_000);
        assert_eq!((0..40).filter(|_| rate.try_acquire(one, now)).count(), 20);
        assert!(rate.try_acquire(other, now));
        assert_eq!((0..40).filter(|_| rate.try_acquire(one, now.plus(1_000))).count(), 2);
    }

    #[test]
    fn many_peers_use_bounded_memory() {
        let rate = RateLimiter::new(1);
        for n in 0..4_096 {
            assert!(rate.try_acquire(PeerId::User(n), EpochMillis(0)));
        }
        assert!(rate.try_acquire(PeerId::User(9_999), EpochMillis(0)));
        for n in 10_000..20_000 {
            rate.try_acquire(PeerId::User(n), EpochMillis(0));
        }
        assert!(rate.buckets.lock().is_ok_and(|buckets| buckets.len() <= MAX_PEERS + 1));
        assert!(rate.try_acquire(PeerId::User(30_000), EpochMillis(60_000)));
    }
}
