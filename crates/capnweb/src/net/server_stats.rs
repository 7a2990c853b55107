//! What the open sessions of a service hold, seen from outside of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::session::RpcSession;

/// What all open sessions of a [`RpcServer`](super::RpcServer) hold together.
///
/// Each session has one export, its main object. When every peer has released everything, `exports` is
/// the number of sessions and the rest is zero: anything else is held by a peer, by the application, or
/// by nobody, which is a leak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Sessions that are open, batches included.
    pub sessions: usize,
    /// Entries of the tables of exports.
    pub exports: usize,
    /// Entries of the tables of imports.
    pub imports: usize,
    /// Bytes held for peers, entries of tables not included.
    pub held_bytes: usize,
    /// Bytes of messages that wait to be sent.
    pub outgoing_bytes: usize,
}

impl ServerStats {
    fn of_session(session: &RpcSession) -> Self {
        let (exports, imports) = session.table_sizes();
        Self {
            sessions: 1,
            exports,
            imports,
            held_bytes: session.held_bytes(),
            outgoing_bytes: session.outgoing_bytes(),
        }
    }

    fn as_array(self) -> [usize; 5] {
        [self.sessions, self.exports, self.imports, self.held_bytes, self.outgoing_bytes]
    }
}

/// The sums of a service; a clone is the same.
#[derive(Clone, Default)]
pub(super) struct StatsTotals(Arc<[AtomicUsize; 5]>);

impl StatsTotals {
    pub(super) fn read(&self) -> ServerStats {
        let read = |place: usize| self.0[place].load(Ordering::Relaxed);
        ServerStats {
            sessions: read(0),
            exports: read(1),
            imports: read(2),
            held_bytes: read(3),
            outgoing_bytes: read(4),
        }
    }

    fn replace(&self, before: ServerStats, now: ServerStats) {
        let parts = before.as_array().into_iter().zip(now.as_array());
        for (total, (before, now)) in self.0.iter().zip(parts) {
            if before != now {
                // Sums wrap together with their parts, so a smaller part is right, too.
                total.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            }
        }
    }
}

/// The share of one session; dropping it takes the share out.
pub(super) struct SessionStatsShare {
    totals: StatsTotals,
    last: ServerStats,
}

impl SessionStatsShare {
    pub(super) fn new(totals: &StatsTotals) -> Self {
        Self { totals: totals.clone(), last: ServerStats::default() }
    }

    /// Tells what the session holds now.
    pub(super) fn update(&mut self, session: &RpcSession) {
        let now = ServerStats::of_session(session);
        if now != self.last {
            self.totals.replace(std::mem::replace(&mut self.last, now), now);
        }
    }
}

impl Drop for SessionStatsShare {
    fn drop(&mut self) {
        self.totals.replace(self.last, ServerStats::default());
    }
}
