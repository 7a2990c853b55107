//! How many event streams each peer has open: one peer cannot use up the streams of another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::peer::PeerId;

/// The seats of all peers.
#[derive(Debug)]
pub(super) struct StreamQuota {
    per_peer: usize,
    taken: Mutex<HashMap<PeerId, usize>>,
}

impl StreamQuota {
    pub(super) fn new(per_peer: usize) -> Arc<Self> {
        Arc::new(Self { per_peer, taken: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PeerId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a seat; `None` if the peer has as many as it may have.
    pub(super) fn acquire(self: &Arc<Self>, peer: PeerId) -> Option<StreamSlot> {
        let mut taken = self.lock();
        let count = taken.get(&peer).copied().unwrap_or(0);
        if count >= self.per_peer {
            return None;
        }
        taken.insert(peer, count + 1);
        drop(taken);
        Some(StreamSlot { seats: self.clone(), peer })
    }
}

/// One stream of a peer, until it is dropped.
#[derive(Debug)]
pub(super) struct StreamSlot {
    seats: Arc<StreamQuota>,
    peer: PeerId,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        match taken.get(&self.peer).copied() {
            Some(count) if count > 1 => drop(taken.insert(self.peer, count - 1)),
            Some(_) | None => drop(taken.remove(&self.peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_its_own_quota() {
        let seats = StreamQuota::new(2);
        let (one, other) = (PeerId::User(1), PeerId::User(2));
        let held: Vec<_> = (0..2).map(|_| seats.acquire(one).expect("a seat")).collect();
        assert!(seats.acquire(one).is_none());
        let free = seats.acquire(other).expect("a seat of another peer");
        drop((held, free));
        assert!(seats.lock().is_empty());
        assert!(seats.acquire(one).is_some());
    }
}
