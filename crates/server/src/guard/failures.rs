//! Wrong passwords: each is answered later than the one before, without keeping anybody else waiting.
//!
//! Only the answer to a wrong password is delayed. The right one is compared and accepted at once,
//! whatever others try meanwhile, so nobody can lock the owner out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnstone_core::time::Millis;

use crate::peer::PeerId;

/// The delay of the first wrong password; each further one doubles it.
const FIRST: u64 = 100;
/// The longest delay.
const LONGEST: u64 = 5_000;
/// One failure is forgotten after this long without another one.
const FORGOTTEN: i64 = 30_000;
/// Answers that are delayed at a time, of all peers and of one.
const DELAYED: usize = 256;
const DELAYED_OF_ONE: usize = 16;
/// Peers remembered at most.
const MOST: usize = 4_096;

/// The failures of all peers.
#[derive(Debug, Default)]
pub(super) struct Failures {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    peers: HashMap<PeerId, Record>,
    delayed: usize,
}

#[derive(Debug)]
struct Record {
    failures: u32,
    last: Millis,
    delayed: usize,
}

/// Counts an answer that is being delayed, until it is dropped.
#[derive(Debug)]
pub(super) struct DelayedAnswer {
    state: Arc<Mutex<State>>,
    peer: PeerId,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Failures {
    /// Counts a wrong password. Returns how long its answer has to wait; `None` if too many answers
    /// wait already, and this one is refused at once.
    pub(super) fn record(&self, peer: PeerId, now: Millis) -> Option<(Duration, DelayedAnswer)> {
        let mut state = lock(&self.state);
        if state.peers.len() >= MOST && !state.peers.contains_key(&peer) {
            state.make_room();
        }
        let is_full = state.delayed >= DELAYED;
        let record =
            state.peers.entry(peer).or_insert(Record { failures: 0, last: now, delayed: 0 });
        let forgotten = u32::try_from(now.since(record.last).max(0) / FORGOTTEN);
        record.failures = record.failures.saturating_sub(forgotten.unwrap_or(u32::MAX));
        let delay = FIRST.saturating_mul(1 << record.failures.min(20)).min(LONGEST);
        record.failures = record.failures.saturating_add(1).min(64);
        record.last = now;
        if is_full || record.delayed >= DELAYED_OF_ONE {
            return None;
        }
        record.delayed += 1;
        state.delayed += 1;
        drop(state);
        let answer = DelayedAnswer { state: self.state.clone(), peer };
        Some((Duration::from_millis(delay), answer))
    }
}

impl State {
    /// Forgets half of the peers that wait for no answer, those that failed longest ago.
    fn make_room(&mut self) {
        let idle = self.peers.iter().filter(|(_, record)| record.delayed == 0);
        let mut idle: Vec<(Millis, PeerId)> = idle.map(|(peer, it)| (it.last, *peer)).collect();
        idle.sort_unstable();
        for (_, peer) in idle.iter().take(MOST / 2) {
            self.peers.remove(peer);
        }
    }
}

impl Drop for DelayedAnswer {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.delayed = state.delayed.saturating_sub(1);
        if let Some(record) = state.peers.get_mut(&self.peer) {
            record.delayed = record.delayed.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId::User(1);
    const OTHER: PeerId = PeerId::User(2);

    fn delay(failures: &Failures, peer: PeerId, now: i64) -> Option<u128> {
        failures.record(peer, Millis(now)).map(|(delay, _)| delay.as_millis())
    }

    #[test]
    fn delays_double_up_to_a_limit_for_each_peer_alone() {
        let failures = Failures::default();
        let delays: Vec<_> = (0..8).filter_map(|_| delay(&failures, ONE, 0)).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(delay(&failures, OTHER, 0), Some(100));
        // Eight failures, four of them forgotten.
        assert_eq!(delay(&failures, ONE, 120_000), Some(1_600));
        assert_eq!(delay(&failures, ONE, 10_000_000), Some(100));
        assert_eq!(delay(&failures, ONE, 0), Some(200), "a clock that goes back forgets nothing");
    }

    #[test]
    fn answers_that_wait_are_bounded_and_one_peer_has_a_share_of_them() {
        let failures = Failures::default();
        let held: Vec<_> = (0..100).filter_map(|_| failures.record(ONE, Millis(0))).collect();
        assert_eq!(held.len(), DELAYED_OF_ONE);
        let others = (10..10_000).filter_map(|n| failures.record(PeerId::User(n), Millis(1)));
        let others: Vec<_> = others.collect();
        assert_eq!(held.len() + others.len(), DELAYED);
        assert!(lock(&failures.state).peers.len() <= MOST);
        drop((held, others));
        assert_eq!(lock(&failures.state).delayed, 0);
        assert!(failures.record(ONE, Millis(2)).is_some());
    }
}
