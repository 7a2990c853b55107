//! How often one address may ask: a bucket that fills with time and is emptied by requests.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use turnstone_core::time::Millis;

/// Addresses remembered at most.
const MOST: usize = 4_096;

/// A burst is this many seconds' worth of requests.
const BURST: f64 = 10.0;

/// Wrong passwords a second from one address; a burst may be ten times that, for clients that ask for
/// many things at their start.
const WRONG: u32 = 10;

/// What of an address is counted.
#[derive(Debug)]
pub(crate) struct Rates {
    /// Its requests.
    pub(crate) asked: Rate,
    /// Those with a wrong password.
    pub(crate) wrong: Rate,
}

impl Rates {
    pub(crate) fn new(a_second: u32) -> Self {
        Self { asked: Rate::new(a_second), wrong: Rate::new(WRONG) }
    }
}

/// The buckets of all addresses.
#[derive(Debug)]
pub(crate) struct Rate {
    a_second: f64,
    buckets: Mutex<HashMap<IpAddr, (f64, Millis)>>,
}

impl Rate {
    pub(crate) fn new(a_second: u32) -> Self {
        Self { a_second: f64::from(a_second), buckets: Mutex::default() }
    }

    /// True if the address may ask now; the request is counted.
    pub(crate) fn allows(&self, address: IpAddr, now: Millis) -> bool {
        let full = self.a_second * BURST;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST && !buckets.contains_key(&address) {
            let is_idle = |(_, at): &(f64, Millis)| now.since(*at) >= 1_000 * BURST as i64;
            buckets.retain(|_, bucket| !is_idle(bucket));
            if buckets.len() >= MOST {
                return false;
            }
        }
        let (left, at) = buckets.entry(address).or_insert((full, now));
        *left = self.filled(*left, now.since(*at)).min(full);
        *at = now;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }

    /// True if the address may ask now; nothing is counted, and nobody is remembered for it.
    pub(crate) fn would_allow(&self, address: IpAddr, now: Millis) -> bool {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get(&address);
        bucket.is_none_or(|(left, at)| self.filled(*left, now.since(*at)) >= 1.0)
    }

    /// What is in a bucket after so many milliseconds.
    fn filled(&self, left: f64, passed: i64) -> f64 {
        left + passed.max(0) as f64 / 1_000.0 * self.a_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_then_the_rate_and_others_are_not_affected() {
        let rate = Rate::new(2);
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let now = Millis(1_000);
        assert_eq!((0..40).filter(|_| rate.allows(one, now)).count(), 20);
        assert!(rate.allows(other, now));
        assert_eq!((0..40).filter(|_| rate.allows(one, now.plus(1_000))).count(), 2);
    }

    #[test]
    fn looking_counts_nothing_and_an_empty_bucket_is_seen() {
        let rate = Rate::new(1);
        let (one, now) = (IpAddr::from([127, 0, 0, 1]), Millis(0));
        assert!((0..40).all(|_| rate.would_allow(one, now)));
        assert_eq!((0..40).filter(|_| rate.allows(one, now)).count(), 10);
        assert!(!rate.would_allow(one, now));
        assert!(rate.would_allow(one, now.plus(1_000)));
    }

    #[test]
    fn many_addresses_do_not_fill_the_memory() {
        let rate = Rate::new(1);
        for n in 0..10_000_u32 {
            rate.allows(IpAddr::from(n.to_be_bytes()), Millis(0));
        }
        assert!(rate.buckets.lock().is_ok_and(|buckets| buckets.len() <= MOST));
        assert!(rate.allows(IpAddr::from([255, 0, 0, 1]), Millis(60_000)));
    }
}
