//! The table of open connections: how many there may be, and which one makes way for another.
//!
//! Connections, terminals and locks on files share the files this process may open, so that the server
//! can always open its own. When the table is full, a peer with fewer connections gets the place
//! of one with more; connections without a password are closed first, idle ones before active ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Notify;

use crate::peer::PeerId;
use crate::settings::RequestLimits;

/// Files the server opens besides the sockets of connections.
const RESERVED_FILES: u64 = 1_024;

/// Descriptors that a terminal and its program's supervisor cost.
const FILES_PER_TERMINAL: usize = 8;

/// How much of what costs descriptors fits into the limit on open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileBudget {
    pub(crate) connections: usize,
    pub(crate) terminals: usize,
    pub(crate) file_locks: usize,
}

impl FileBudget {
    /// What `limits` allow, or less, so that enough files are left to the server itself.
    fn within(files: Option<u64>, limits: &RequestLimits) -> Self {
        let RequestLimits { connections, terminals, file_locks, .. } = *limits;
        let Some(files) = files else { return Self { connections, terminals, file_locks } };
        let rest = files - RESERVED_FILES.min(files / 2);
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        let terminals = terminals.min(rest / 4 / FILES_PER_TERMINAL);
        let file_locks = file_locks.min(rest / 4);
        let rest = rest - terminals * FILES_PER_TERMINAL - file_locks;
        Self { connections: connections.min(rest).max(1), terminals, file_locks }
    }
}

/// Raises the limit on open files so that everything in `limits` fits, as far as this user may, and returns
/// what does fit.
pub(crate) fn raise_file_limit(limits: &RequestLimits) -> FileBudget {
    let files = limits.terminals * FILES_PER_TERMINAL + limits.file_locks + limits.connections;
    let wanted = RESERVED_FILES + files as u64;
    let Rlimit { mut current, maximum } = getrlimit(Resource::Nofile);
    let raised = maximum.map_or(wanted, |most| most.min(wanted));
    if current.is_some_and(|now| now < raised) {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
            Ok(()) => current = Some(raised),
            Err(error) => tracing::warn!("the limit on open files cannot be raised: {error}"),
        }
    }
    let fitting = FileBudget::within(current, limits);
    let FileBudget { connections, terminals, .. } = fitting;
    if (connections, terminals) != (limits.connections, limits.terminals) {
        tracing::info!(
            "at most {connections} connections and {terminals} terminals: the limit on open files \
             allows no more"
        );
    }
    fitting
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    max_connections: usize,
    /// Always gets a place, so that the user who runs the server can reach it.
    own: PeerId,
    entries: Mutex<ConnectionEntries>,
}

#[derive(Debug, Default)]
struct ConnectionEntries {
    next: u64,
    /// By age: a number is given once.
    open: BTreeMap<u64, Arc<ConnectionEntry>>,
    /// How many each peer has.
    counts: HashMap<PeerId, usize>,
}

#[derive(Debug)]
struct ConnectionEntry {
    peer: PeerId,
    is_authenticated: AtomicBool,
    /// Requests that are being answered.
    active: AtomicUsize,
    evicted: Notify,
}

impl ConnectionEntry {
    /// What is closed first when the table is full: the smallest.
    fn eviction_rank(&self) -> (bool, bool) {
        (self.is_authenticated(), self.active.load(Ordering::Relaxed) > 0)
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }
}

impl ConnectionEntries {
    fn count(&self, peer: PeerId) -> usize {
        self.counts.get(&peer).copied().unwrap_or(0)
    }

    fn remove(&mut self, number: u64) -> Option<Arc<ConnectionEntry>> {
        let entry = self.open.remove(&number)?;
        if let Some(count) = self.counts.get_mut(&entry.peer) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&entry.peer);
            }
        }
        Some(entry)
    }

    /// The connection that makes way for one of `peer`; `None` if that has to be turned away.
    fn pick_victim(&self, peer: PeerId, own: PeerId) -> Option<u64> {
        let mine = self.count(peer);
        let of_peer =
            |entry: &&Arc<ConnectionEntry>| entry.peer == peer && entry.is_authenticated();
        let is_favoured = peer == own || self.open.values().any(|entry| of_peer(&entry));
        let makes_way = |entry: &ConnectionEntry| {
            let (is_authenticated, is_active) = entry.eviction_rank();
            if entry.peer == peer {
                // Its own, if no work is lost by it.
                return !is_active;
            }
            let theirs = self.count(entry.peer);
            let is_hog = theirs > mine + usize::from(is_authenticated);
            (is_favoured && !is_authenticated) || (is_hog && entry.peer != own)
        };
        let candidates = self.open.iter().filter(|(_, entry)| makes_way(entry));
        let rank = |(number, entry): &(&u64, &Arc<ConnectionEntry>)| {
            let is_same = entry.peer == peer;
            (entry.eviction_rank(), is_same, usize::MAX - self.count(entry.peer), **number)
        };
        candidates.min_by_key(rank).map(|(number, _)| *number)
    }
}

impl ConnectionTable {
    pub(crate) fn new(most: usize, own: PeerId) -> Arc<Self> {
        Arc::new(Self { max_connections: most.max(1), own, entries: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection its place, if need be that of another one; `None` if it is turned away.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: PeerId,
        is_authenticated: bool,
    ) -> Option<ConnectionHandle> {
        let mut entries = self.lock();
        if entries.open.len() >= self.max_connections {
            let victim = entries.pick_victim(peer, self.own)?;
            if let Some(entry) = entries.remove(victim) {
                tracing::debug!("a connection of {} makes way for one of {peer}", entry.peer);
                entry.evicted.notify_one();
            }
        }
        let number = entries.next;
        entries.next += 1;
        let entry = Arc::new(ConnectionEntry {
            peer,
            is_authenticated: AtomicBool::new(is_authenticated),
            active: AtomicUsize::new(0),
            evicted: Notify::new(),
        });
        *entries.counts.entry(peer).or_insert(0) += 1;
        entries.open.insert(number, entry.clone());
        drop(entries);
        let place = Arc::new(ConnectionSlot { table: self.clone(), number });
        Some(ConnectionHandle { entry, _place: place })
    }
}

/// Gives the place of a connection back when the connection is gone.
#[derive(Debug)]
struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    number: u64,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        drop(self.table.lock().remove(self.number));
    }
}

/// One connection in the table; it has its place until the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionHandle {
    entry: Arc<ConnectionEntry>,
    _place: Arc<ConnectionSlot>,
}

impl ConnectionHandle {
    /// A request of it has passed the guard.
    pub(crate) fn set_authenticated(&self) {
        self.entry.is_authenticated.store(true, Ordering::Relaxed);
    }

    /// Done when the connection has to make way for another one.
    pub(crate) async fn wait_for_eviction(&self) {
        self.entry.evicted.notified().await;
    }

    /// Marks the connection as active until the result is dropped.
    pub(crate) fn begin_request(&self) -> ActiveRequest {
        self.entry.active.fetch_add(1, Ordering::Relaxed);
        ActiveRequest { entry: self.entry.clone() }
    }
}

/// A request that is being answered.
pub(crate) struct ActiveRequest {
    entry: Arc<ConnectionEntry>,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.entry.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const OWN: PeerId = PeerId::User(1000);
    const HOG: PeerId = PeerId::User(1001);
    const OTHER: PeerId = PeerId::User(1002);

    fn full_of(
        peer: PeerId,
        is_authenticated: bool,
    ) -> (Arc<ConnectionTable>, Vec<ConnectionHandle>) {
        let table = ConnectionTable::new(8, OWN);
        let held = (0..8).map(|_| table.admit(peer, is_authenticated).expect("a place")).collect();
        (table, held)
    }

    fn evicted(held: &[ConnectionHandle]) -> Vec<usize> {
        let is_evicted =
            |handle: &ConnectionHandle| handle.wait_for_eviction().now_or_never().is_some();
        (0..held.len()).filter(|nth| is_evicted(&held[*nth])).collect()
    }

    #[test]
    fn connection_limit_reserves_files_for_the_server() {
        let limits = RequestLimits::default();
        let within = |files: Option<u64>| {
            let FileBudget { connections, terminals, file_locks } =
                FileBudget::within(files, &limits);
            (connections, terminals, file_locks)
        };
        let all = (limits.connections, limits.terminals, limits.file_locks);
        assert_eq!(within(None), all);
        assert_eq!(within(Some(20_000)), all);
        assert_eq!(within(Some(0)), (1, 0, 0));
        for files in [256, 1_024, 2_048, 4_096] {
            let (connections, terminals, locks) = within(Some(files));
            assert!(terminals >= 4 && locks >= 16, "{files}: {terminals} {locks}");
            let used = connections + terminals * FILES_PER_TERMINAL + locks;
            let reserved = RESERVED_FILES.min(files / 2);
            assert_eq!(used as u64 + reserved, files);
        }
    }

    #[test]
    fn greedy_peer_loses_its_oldest_idle_connection() {
        let (table, held) = full_of(HOG, false);
        let active = held[0].begin_request();
        let other = table.admit(OTHER, false).expect("a place");
        assert_eq!(evicted(&held), [1]);
        drop((active, other));
        let own = table.admit(OWN, false).expect("a place");
        assert!(evicted(&held).is_empty());
        drop(own);
    }

    #[test]
    fn owner_always_evicts_unauthenticated_connections() {
        let table = ConnectionTable::new(4, OWN);
        let many: Vec<_> = (0..4).map(|nth| table.admit(PeerId::User(nth), false)).collect();
        assert!(many.iter().all(Option::is_some));
        // A newcomer with no connection gets one place; it does not get a second.
        assert!(table.admit(OTHER, false).is_some());
        let owned: Vec<_> = (0..4).map(|_| table.admit(OWN, false)).collect();
        assert!(owned.iter().all(Option::is_some));
        assert!(table.admit(OTHER, false).is_none());
    }

    #[test]
    fn single_peer_evicts_only_its_idle_connections() {
        let (table, held) = full_of(OWN, true);
        let busy: Vec<_> = held.iter().skip(1).map(ConnectionHandle::begin_request).collect();
        let next = table.admit(OWN, true).expect("the idle one makes way");
        assert_eq!(evicted(&held), [0]);
        let last = next.begin_request();
        assert!(table.admit(OWN, true).is_none());
        assert!(table.admit(OTHER, false).is_none());
        drop((busy, last));
    }

    #[test]
    fn greedy_peer_loses_streams_to_peer_with_fewer() {
        let (table, held) = full_of(HOG, true);
        let busy: Vec<_> = held.iter().map(ConnectionHandle::begin_request).collect();
        assert!(table.admit(OTHER, false).is_some());
        assert_eq!(evicted(&held).len(), 1);
        drop(busy);
    }

    #[test]
    fn dropped_connection_frees_its_slot() {
        let (table, held) = full_of(HOG, false);
        drop(held);
        assert_eq!(table.lock().open.len(), 0);
        assert!(table.lock().counts.is_empty());
    }
}
