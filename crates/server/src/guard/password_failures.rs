//! Wrong passwords: each is answered later than the one before, without delaying other clients.
//!
//! Only the answer to a wrong password is delayed. The right one is compared and accepted at once,
//! whatever others try meanwhile, so no client can lock the owner out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnstone_core::time::EpochMillis;

use crate::peer::PeerId;

/// The delay of the first wrong password; each further one doubles it.
const FIRST_DELAY_MS: u64 = 100;
/// The longest delay.
const MAX_DELAY_MS: u64 = 5_000;
/// One failure is forgotten after this long without another one.
const FORGET_AFTER_MS: i64 = 30_000;
/// Answers that are delayed at a time, of all peers and of one.
const MAX_DELAYED: usize = 256;
const MAX_DELAYED_PER_PEER: usize = 16;
/// Peers remembered at most.
const MAX_PEERS: usize = 4_096;

/// The failures of all peers.
#[derive(Debug, Default)]
pub(super) struct PasswordFailures {
    state: Arc<Mutex<FailureState>>,
}

#[derive(Debug, Default)]
struct FailureState {
    peers: HashMap<PeerId, PeerFailures>,
    delayed: usize,
}

#[derive(Debug)]
struct PeerFailures {
    failures: u32,
    last: EpochMillis,
    delayed: usize,
}

/// Counts an answer that is being delayed, until it is dropped.
#[derive(Debug)]
pub(super) struct DelayedAnswer {
    state: Arc<Mutex<FailureState>>,
    peer: PeerId,
}

fn lock(state: &Mutex<FailureState>) -> MutexGuard<'_, FailureState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PasswordFailures {
    /// Counts a wrong password. Returns how long its answer has to wait; `None` if too many answers
    /// wait already, and this one is refused at once.
    pub(super) fn record(
        &self,
        peer: PeerId,
        now: EpochMillis,
    ) -> Option<(Duration, DelayedAnswer)> {
        let mut state = lock(&self.state);
        if state.peers.len() >= MAX_PEERS && !state.peers.contains_key(&peer) {
            state.make_room();
        }
        let is_full = state.delayed >= MAX_DELAYED;
        let record =
            state.peers.entry(peer).or_insert(PeerFailures { failures: 0, last: now, delayed: 0 });
        let forgotten = u32::try_from(now.since(record.last).max(0) / FORGET_AFTER_MS);
        record.failures = record.failures.saturating_sub(forgotten.unwrap_or(u32::MAX));
        let delay = FIRST_DELAY_MS.saturating_mul(1 << record.failures.min(20)).min(MAX_DELAY_MS);
        record.failures = record.failures.saturating_add(1).min(64);
        record.last = now;
        if is_full || record.delayed >= MAX_DELAYED_PER_PEER {
            return None;
        }
        record.delayed += 1;
        state.delayed += 1;
        drop(state);
        let answer = DelayedAnswer { state: self.state.clone(), peer };
        Some((Duration::from_millis(delay), answer))
    }
}

impl FailureState {
    /// Forgets half of the peers that wait for no answer, those that failed longest ago.
    fn make_room(&mut self) {
        let idle = self.peers.iter().filter(|(_, record)| record.delayed == 0);
        let mut idle: Vec<(EpochMillis, PeerId)> =
            idle.map(|(peer, it)| (it.last, *peer)).collect();
        idle.sort_unstable();
        for (_, peer) in idle.iter().take(MAX_PEERS / 2) {
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

    fn delay(failures: &PasswordFailures, peer: PeerId, now: i64) -> Option<u128> {
        failures.record(peer, EpochMillis(now)).map(|(delay, _)| delay.as_millis())
    }

    #[test]
    fn delays_double_per_peer_up_to_a_limit() {
        let failures = PasswordFailures::default();
        let delays: Vec<_> = (0..8).filter_map(|_| delay(&failures, ONE, 0)).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(delay(&failures, OTHER, 0), Some(100));
        // Eight failures, four of them forgotten.
        assert_eq!(delay(&failures, ONE, 120_000), Some(1_600));
        assert_eq!(delay(&failures, ONE, 10_000_000), Some(100));
        assert_eq!(delay(&failures, ONE, 0), Some(200), "a clock that goes back forgets nothing");
    }

    #[test]
    fn delayed_answers_are_bounded_per_peer() {
        let failures = PasswordFailures::default();
        let held: Vec<_> = (0..100).filter_map(|_| failures.record(ONE, EpochMillis(0))).collect();
        assert_eq!(held.len(), MAX_DELAYED_PER_PEER);
        let others = (10..10_000).filter_map(|n| failures.record(PeerId::User(n), EpochMillis(1)));
        let others: Vec<_> = others.collect();
        assert_eq!(held.len() + others.len(), MAX_DELAYED);
        assert!(lock(&failures.state).peers.len() <= MAX_PEERS);
        drop((held, others));
        assert_eq!(lock(&failures.state).delayed, 0);
        assert!(failures.record(ONE, EpochMillis(2)).is_some());
    }
}
