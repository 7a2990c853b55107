//! The roots that a long-running process watches: each has a baseline and a journal, so that captures cost what
//! changed (R42). They are bounded in number and memory, and released when nothing uses them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    BASELINE_GROUP, JournalState, PinGroup, SnapshotError, SnapshotHandle, StoreStatus,
};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::settings::WatchLimits;

/// How often a watched root is tried to be had from a short command that owns its store.
const OWNER_ATTEMPTS: usize = 50;
/// How long to wait in between.
const OWNER_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How long the first step of a root waits for the baseline that is being captured.
const BASELINE_WAIT: Duration = Duration::from_secs(2);
/// A root that cannot be watched is not tried again for so long.
const RETRY_MILLIS: i64 = 600_000;
/// With more directories than that their roots are looked up again.
const MAX_KNOWN_DIRECTORIES: usize = 4096;

/// How far the watch of a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPhase {
    /// The baseline is being captured.
    Starting,
    /// Captures read what the journal reports.
    Watching,
    /// The kernel reports no changes, for this reason: captures walk the worktree.
    Walking(JournalState),
    /// There is no baseline: the root could not be captured.
    Failed,
}

/// A root that is watched, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedRootStatus {
    /// The root.
    pub root: PathBuf,
    /// How far it is.
    pub phase: WatchPhase,
    /// What the owner of its store knows of it.
    pub store_status: StoreStatus,
    /// False if another process owns the store and watches the root.
    pub is_owner: bool,
}

/// What [`WatchedRoots::maintain`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchMaintenanceReport {
    /// Roots whose store was closed.
    pub released: Vec<PathBuf>,
    /// Roots whose journal was audited.
    pub audited: usize,
}

/// A root that is watched, or that could not be.
struct WatchedRoot {
    /// The store is closed with the last use of it, so that a root that was moved is let go.
    handle: Weak<SnapshotHandle>,
    phase: BaselinePhase,
    /// True once a step has waited for the baseline.
    has_waited: bool,
    /// Requests of other processes that were served until the last maintenance.
    served: u64,
}

/// How far the baseline of a root is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BaselinePhase {
    Running,
    Done,
    Failed { retry: EpochMillis },
}

#[derive(Default)]
struct WatchedRootsState {
    roots: BTreeMap<PathBuf, WatchedRoot>,
    /// The root of each directory that was asked for.
    directories: BTreeMap<PathBuf, PathBuf>,
    /// Directories that cannot be watched, and when to try again.
    refused: BTreeMap<PathBuf, EpochMillis>,
}

/// The roots that this process watches.
pub struct WatchedRoots {
    snapshots: Arc<SnapshotHandles>,
    limits: WatchLimits,
    state: Mutex<WatchedRootsState>,
    /// Signals the end of a baseline.
    ended: Condvar,
}

impl WatchedRoots {
    pub(crate) fn new(snapshots: Arc<SnapshotHandles>, limits: WatchLimits) -> Self {
        Self { snapshots, limits, state: Mutex::default(), ended: Condvar::new() }
    }

    /// Watches the root of a directory from now on, unless it is watched already: starts its journal and captures its
    /// baseline in the background. A long-running process calls it whenever the directory is used.
    ///
    /// Nothing waits for it but the first step; named writes are captured at the same time (R6). A root that cannot
    /// be watched is left alone for a while: captures walk it, as without a watch.
    pub fn ensure_watched(self: &Arc<Self>, directory: &Path, now: EpochMillis) {
        if self.limits.max_roots == 0 || self.record_use(directory, now) {
            return;
        }
        let registry = self.snapshots.registry();
        let root = match registry.find_root(directory, self.snapshots.policy()) {
            Ok(root) => root,
            Err(error) => return self.refuse(directory, now, &error.into()),
        };
        let mut state = self.lock();
        if state.directories.len() + state.refused.len() >= MAX_KNOWN_DIRECTORIES {
            state.directories.clear();
            state.refused.clear();
        }
        state.directories.insert(directory.to_owned(), root.clone());
        if state.roots.contains_key(&root) {
            return;
        }
        if !self.free_root_slot(&mut state) {
            state.directories.remove(directory);
            state.refused.insert(directory.to_owned(), EpochMillis(now.0 + RETRY_MILLIS));
            tracing::info!("{} is not watched: too many roots are in use", root.display());
            return;
        }
        let phase = BaselinePhase::Running;
        let new = WatchedRoot { handle: Weak::new(), phase, has_waited: false, served: 0 };
        state.roots.insert(root.clone(), new);
        drop(state);
        let watched = self.clone();
        let thread = std::thread::Builder::new().name("turnstone-baseline".to_owned());
        let at = root.clone();
        if let Err(error) = thread.spawn(move || watched.run_baseline(&at, now)) {
            self.finish(&root, now, Err(error.into()));
        }
    }

    /// Notes that a directory is used; false if its root is not watched (any more).
    fn record_use(&self, directory: &Path, now: EpochMillis) -> bool {
        let mut state = self.lock();
        if let Some(retry) = state.refused.get(directory) {
            let is_early = now < *retry;
            if !is_early {
                state.refused.remove(directory);
            }
            return is_early;
        }
        let Some(root) = state.directories.get(directory).cloned() else { return false };
        let Some(known) = state.roots.get(&root) else { return false };
        match known.phase {
            BaselinePhase::Running => true,
            BaselinePhase::Failed { retry } if now < retry => true,
            BaselinePhase::Failed { .. } => {
                state.roots.remove(&root);
                false
            }
            BaselinePhase::Done => {
                let Some(handle) = known.handle.upgrade() else {
                    state.roots.remove(&root);
                    return false;
                };
                drop(state);
                self.snapshots.record_use(&root, now);
                // The process that owned the store may have ended.
                handle.maintenance().ensure_journal();
                true
            }
        }
    }

    fn refuse(&self, directory: &Path, now: EpochMillis, why: &SnapshotError) {
        if !why.is_refused_root() {
            tracing::info!("{} is not watched: {why}", directory.display());
        }
        let retry = EpochMillis(now.0 + RETRY_MILLIS);
        self.lock().refused.insert(directory.to_owned(), retry);
    }

    /// Captures the baseline; runs in a thread of its own.
    fn run_baseline(&self, root: &Path, now: EpochMillis) {
        let captured = self.capture_baseline(root, now);
        self.release_roots_over_memory(root);
        self.finish(root, now, captured);
    }

    fn capture_baseline(&self, root: &Path, now: EpochMillis) -> Result<(), SnapshotError> {
        let handle = self.snapshots.open(root, now)?;
        if let Some(known) = self.lock().roots.get_mut(root) {
            known.handle = Arc::downgrade(&handle);
        }
        for _ in 0..OWNER_ATTEMPTS {
            let journal = handle.maintenance().start_journal();
            // If the process that owned the store has ended, this one owns it afterwards.
            handle.capture(&PinGroup::new(BASELINE_GROUP), now)?;
            if journal.is_some() || is_watched_by_owner(&handle) {
                return Ok(());
            }
            // A short command owns the store for a moment, and only the owner has a journal.
            std::thread::sleep(OWNER_RETRY_INTERVAL);
        }
        Ok(())
    }

    /// Notes how a baseline ended.
    fn finish(&self, root: &Path, now: EpochMillis, ended: Result<(), SnapshotError>) {
        let mut state = self.lock();
        if let Some(known) = state.roots.get_mut(root) {
            known.phase = match ended {
                Ok(()) => BaselinePhase::Done,
                Err(error) => {
                    tracing::info!("no baseline of {}: {error}", root.display());
                    BaselinePhase::Failed { retry: EpochMillis(now.0 + RETRY_MILLIS) }
                }
            };
        }
        drop(state);
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, WatchedRootsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waiting for baselines.
impl WatchedRoots {
    /// Waits a moment for the baseline of a directory if it is being captured: once for each baseline, so that the
    /// first step of a project has a snapshot and a large project delays one step only.
    pub(crate) fn wait_for_first_capture(&self, directory: &Path) {
        let mut state = self.lock();
        let Some(root) = state.directories.get(directory).cloned() else { return };
        match state.roots.get_mut(&root) {
            Some(known) if known.phase == BaselinePhase::Running && !known.has_waited => {
                known.has_waited = true;
            }
            Some(_) | None => return,
        }
        let is_running = |state: &mut WatchedRootsState| state.is_running(&root);
        // Whether it has ended or not: the step does not wait longer.
        drop(self.ended.wait_timeout_while(state, BASELINE_WAIT, is_running));
    }

    /// Waits until no baseline is being captured, however long that takes.
    pub fn wait_until_captured(&self) {
        let state = self.lock();
        let is_running = |state: &mut WatchedRootsState| {
            state.roots.values().any(|it| it.phase == BaselinePhase::Running)
        };
        drop(self.ended.wait_while(state, is_running));
    }
}

/// True if the process that owns a store watches its root.
fn is_watched_by_owner(handle: &SnapshotHandle) -> bool {
    handle.maintenance().status().is_ok_and(|it| it.journal.state != JournalState::Off)
}

impl WatchedRootsState {
    fn is_running(&self, root: &Path) -> bool {
        self.roots.get(root).is_some_and(|it| it.phase == BaselinePhase::Running)
    }
}

/// Releasing roots, and what is watched now.
impl WatchedRoots {
    /// Closes stores that nothing has used for so long, and audits journals that are due (R8). A long-running process
    /// calls it once a minute.
    pub fn maintain(&self, now: EpochMillis) -> WatchMaintenanceReport {
        self.record_served_requests(now);
        let released = self.snapshots.close_idle(now, self.limits.idle_millis);
        let mut state = self.lock();
        state.refused.retain(|_, retry| now < *retry);
        state.roots.retain(|_, it| match it.phase {
            BaselinePhase::Running => true,
            BaselinePhase::Done => it.handle.strong_count() > 0,
            BaselinePhase::Failed { retry } => now < retry,
        });
        let WatchedRootsState { roots, directories, .. } = &mut *state;
        directories.retain(|_, root| roots.contains_key(root));
        drop(state);
        self.release_roots_over_memory(Path::new(""));
        let mut audited = 0;
        for (root, handle) in self.list_handles() {
            match handle.maintenance().audit_journal_if_due(now) {
                Ok(done) => audited += usize::from(done.is_some()),
                Err(error) => {
                    tracing::info!("the journal of {} was not audited: {error}", root.display());
                }
            }
        }
        WatchMaintenanceReport { released, audited }
    }

    /// What is watched, with what it takes.
    #[must_use]
    pub fn list(&self) -> Vec<WatchedRootStatus> {
        let known: Vec<_> = {
            let state = self.lock();
            let roots = state.roots.iter();
            roots.map(|(root, it)| (root.clone(), it.phase, it.handle.upgrade())).collect()
        };
        let mut listed = Vec::new();
        for (root, phase, handle) in known {
            // An owner that cannot be asked has just ended.
            let status = handle.as_ref().and_then(|it| it.maintenance().status().ok());
            let store_status = status.unwrap_or_default();
            let phase = match (phase, store_status.journal.state) {
                (BaselinePhase::Running, _) => WatchPhase::Starting,
                (BaselinePhase::Failed { .. }, _) => WatchPhase::Failed,
                (BaselinePhase::Done, JournalState::On | JournalState::Overflow) => {
                    WatchPhase::Watching
                }
                (BaselinePhase::Done, why) => WatchPhase::Walking(why),
            };
            let is_owner = handle.is_some_and(|it| it.is_owner());
            listed.push(WatchedRootStatus { root, phase, store_status, is_owner });
        }
        listed
    }

    /// A store that other processes use through this one is in use.
    fn record_served_requests(&self, now: EpochMillis) {
        for (root, handle) in self.list_handles() {
            let served = handle.maintenance().served_request_count();
            let mut state = self.lock();
            if let Some(known) = state.roots.get_mut(&root).filter(|it| it.served != served) {
                known.served = served;
                drop(state);
                self.snapshots.record_use(&root, now);
            }
        }
    }

    fn list_handles(&self) -> Vec<(PathBuf, Arc<SnapshotHandle>)> {
        let state = self.lock();
        let all = state.roots.iter();
        all.filter_map(|(root, it)| Some((root.clone(), it.handle.upgrade()?))).collect()
    }

    /// Frees a slot for one more root: releases the least recently used one. False if all are in use.
    fn free_root_slot(&self, state: &mut WatchedRootsState) -> bool {
        state.roots.retain(|_, it| match it.phase {
            BaselinePhase::Running => true,
            BaselinePhase::Done => it.handle.strong_count() > 0,
            BaselinePhase::Failed { .. } => false,
        });
        while state.roots.len() >= self.limits.max_roots {
            let candidates: Vec<PathBuf> = state.roots.keys().cloned().collect();
            let Some(released) = self.snapshots.close_least_recently_used(&candidates) else {
                return false;
            };
            state.roots.remove(&released);
        }
        true
    }

    /// Releases roots until the others fit into the memory that is allowed. The root that was used last stays, however
    /// large it is, and so does `kept`.
    fn release_roots_over_memory(&self, kept: &Path) {
        loop {
            let mut sizes: BTreeMap<PathBuf, u64> = BTreeMap::new();
            for (root, handle) in self.list_handles() {
                let status =
                    if handle.is_owner() { handle.maintenance().status().ok() } else { None };
                sizes.insert(root, status.unwrap_or_default().memory);
            }
            if sizes.len() < 2 || sizes.values().sum::<u64>() <= self.limits.max_memory {
                return;
            }
            let newest = self.snapshots.most_recently_used(sizes.keys());
            sizes.remove(kept);
            sizes.retain(|root, _| Some(root) != newest.as_ref());
            let candidates: Vec<PathBuf> = sizes.into_keys().collect();
            let mut state = self.lock();
            let Some(released) = self.snapshots.close_least_recently_used(&candidates) else {
                return;
            };
            state.roots.remove(&released);
        }
    }
}
