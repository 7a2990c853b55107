//! The journal of a worktree: names that changed since the last capture, according to a watch (R8).
//!
//! Turns events into the few names whose entry in the index may be outdated. Events that may have been
//! missed make the next capture scan everything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::capture::{CaptureError, CaptureMode};
use crate::file_watch::{DrainedEvents, FileWatcher, JournalState, NamesByFolder};
use crate::path::{RelPath, is_git_directory};
use crate::snapshot_store::SnapshotStore;
use crate::user_git::RepositoryChange;
use crate::worktree_index::{IndexEntry, WorktreeIndex, join_name, split_parent};
use crate::worktree_walk::{ScanDelta, WorktreeWalker};

/// More files with a second name are not looked at one by one.
const MAX_HARD_LINKED_FILES: usize = 2000;
/// An audit is due after so long, if captures relied on the journal meanwhile.
const AUDIT_INTERVAL_MS: i64 = 600_000;

/// The status of the journal of one worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalStatus {
    /// Whether it can be used, and why not.
    pub state: JournalState,
    /// Folders that are watched.
    pub watched: usize,
    /// Changes that audits found and the journal had missed.
    pub missed: usize,
    /// Audits that were made.
    pub audits: usize,
}

/// About how many bytes of memory a watched folder takes: its path twice, and its places in two maps.
const WATCHED_FOLDER_BYTES: u64 = 256;

impl JournalStatus {
    /// About how many bytes of memory the watches take.
    pub(crate) const fn memory_bytes(&self) -> u64 {
        self.watched as u64 * WATCHED_FOLDER_BYTES
    }
}

/// The state of the journal between captures.
#[derive(Default)]
pub(crate) struct ChangeJournal {
    pub(crate) watch: Option<Arc<FileWatcher>>,
    pub(crate) state: JournalState,
    pub(crate) missed: usize,
    pub(crate) audits: usize,
    /// When an audit, or a walk that is as good as one, last compared everything.
    last_compared: Option<EpochMillis>,
    /// True if captures relied on it since.
    used_since: bool,
}

impl ChangeJournal {
    /// Stops the watch.
    pub(crate) fn stop(&mut self, state: JournalState) {
        self.watch = None;
        self.state = state;
    }

    pub(crate) fn record_comparison(&mut self, now: EpochMillis) {
        (self.last_compared, self.used_since) = (Some(now), false);
    }
}

/// What a capture scanned.
pub(crate) struct ScanResult {
    pub(crate) delta: ScanDelta,
    /// True if everything was scanned.
    pub(crate) is_complete: bool,
    pub(crate) mode: CaptureMode,
    pub(crate) journal: JournalState,
}

/// The journal of a store's worktree: starting it, scanning with it, auditing it.
pub struct WorktreeJournal<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl WorktreeJournal<'_> {
    /// Starts the journal: the next capture walks the whole worktree once more, later ones only read what changed.
    ///
    /// Where it cannot be had, captures go on walking and say why. A journal that is on, or that an
    /// audit has found wanting, stays as it is.
    pub fn start(&self) -> JournalStatus {
        let mut journal = self.lock();
        if journal.watch.is_none() && journal.state != JournalState::Distrusted {
            match FileWatcher::start(&self.store.worktree) {
                Ok(watch) => {
                    journal.watch = Some(Arc::new(watch));
                    journal.state = JournalState::Starting;
                }
                Err(state) => journal.state = state,
            }
        }
        drop(journal);
        self.status()
    }

    /// Returns the status of the journal.
    #[must_use]
    pub fn status(&self) -> JournalStatus {
        let journal = self.lock();
        let watched = journal.watch.as_ref().map_or(0, |watch| watch.watched_count());
        let ChangeJournal { state, missed, audits, .. } = *journal;
        JournalStatus { state, watched, missed, audits }
    }

    /// True if captures have relied on the journal for so long that it should be audited (R8).
    ///
    /// The end of a turn is a good moment too, which only the caller knows.
    #[must_use]
    pub fn is_audit_due(&self, now: EpochMillis) -> bool {
        let journal = self.lock();
        let long = journal.last_compared.is_none_or(|last| now.since(last) >= AUDIT_INTERVAL_MS);
        journal.state == JournalState::On && journal.used_since && long
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ChangeJournal> {
        self.store.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans the names in the journal, or everything, and returns which and why.
    pub(crate) fn scan(
        &self,
        worktree_index: &WorktreeIndex,
        forced: &BTreeSet<RelPath>,
        now: EpochMillis,
    ) -> Result<ScanResult, CaptureError> {
        // Taken before anything is looked at: what happens later is in the queue for the next time.
        let (mut journal, watch, drained) = self.drain();
        let repos: Vec<(&[u8], RepositoryChange)> = worktree_index
            .repositories()
            .map(|(folder, repo)| (folder, repo.detect_changes()))
            .collect();
        let names = match journal == JournalState::On && worktree_index.is_complete() {
            true => names_to_scan(worktree_index, drained, &repos, forced),
            false => Err(journal),
        };
        let walker = || WorktreeWalker {
            worktree: &self.store.worktree,
            selection: &self.store.selection,
            forced,
            index: worktree_index,
            trust_index_rules: repos.iter().all(|(_, moved)| *moved == RepositoryChange::Nothing),
            watch: watch.as_deref(),
            delta: Mutex::default(),
        };
        let (found, mode) = match names {
            Ok(names) => {
                let mut walked = BTreeSet::new();
                let mut found = walker().scan_names(&names, &mut walked)?;
                let silent = unreported_names(worktree_index, &found, &names);
                found.extend(walker().scan_names(&silent, &mut walked)?);
                (found, CaptureMode::Journal)
            }
            Err(why) => {
                journal = why;
                (walker().walk()?, CaptureMode::Walk)
            }
        };
        let lost = watch.and_then(|watch| watch.lost_events());
        journal = self.record_scan(mode, journal, lost, now);
        Ok(ScanResult { delta: found, is_complete: mode == CaptureMode::Walk, mode, journal })
    }

    /// The state of the journal when a capture begins, and the events it has received.
    fn drain(&self) -> (JournalState, Option<Arc<FileWatcher>>, DrainedEvents) {
        let mut journal = self.lock();
        let mut reported = journal.state;
        let drained = journal.watch.as_ref().map(|watch| watch.drain()).unwrap_or_default();
        if let Some(lost) = drained.loss {
            reported = self.restart_watcher(&mut journal, lost);
        } else if journal.watch.is_some() {
            journal.state = JournalState::On;
        }
        (reported, journal.watch.clone(), drained)
    }

    /// Records the result of an audit.
    fn record_scan(
        &self,
        mode: CaptureMode,
        reported: JournalState,
        lost: Option<JournalState>,
        now: EpochMillis,
    ) -> JournalState {
        let mut journal = self.lock();
        match mode {
            CaptureMode::Walk => journal.record_comparison(now),
            CaptureMode::Journal | CaptureMode::Named => journal.used_since = true,
        }
        match lost {
            // No use to try again at once.
            Some(lost @ (JournalState::WatchLimit | JournalState::NoEvents)) => {
                journal.stop(lost);
                lost
            }
            Some(_) | None => reported,
        }
    }

    /// Events were lost: restarts the watcher if that helps.
    fn restart_watcher(&self, journal: &mut ChangeJournal, lost: JournalState) -> JournalState {
        journal.stop(lost);
        if lost == JournalState::Overflow {
            match FileWatcher::start(&self.store.worktree) {
                Ok(watch) => {
                    journal.watch = Some(Arc::new(watch));
                    journal.state = JournalState::On;
                }
                Err(state) => journal.state = state,
            }
        }
        lost
    }
}

/// The names a capture must check, or why it must check all of them.
fn names_to_scan(
    worktree_index: &WorktreeIndex,
    drained: DrainedEvents,
    repos: &[(&[u8], RepositoryChange)],
    forced: &BTreeSet<RelPath>,
) -> Result<NamesByFolder, JournalState> {
    let mut names = NamesByFolder::new();
    let mut all = false;
    let mut whole = |folder: &[u8], names: &mut NamesByFolder| match split_parent(folder) {
        Some((above, name)) => drop(names.entry(above.to_vec()).or_default().insert(name.into())),
        None => all = true,
    };
    for (folder, events) in drained.names {
        // These decide over everything in their folder and below.
        let decides = |name: &[u8]| name == b".gitignore" || is_git_directory(name);
        if events.iter().any(|name| decides(name)) {
            whole(&folder, &mut names);
        }
        names.entry(folder).or_default().extend(events);
    }
    for (folder, moved) in repos {
        match moved {
            RepositoryChange::Nothing => {}
            RepositoryChange::Excludes => whole(folder, &mut names),
            RepositoryChange::TrackedPaths(paths) => {
                paths.iter().for_each(|path| add_affected_name(worktree_index, path, &mut names))
            }
        }
    }
    if all || worktree_index.hard_linked_files().len() > MAX_HARD_LINKED_FILES {
        return Err(if all { JournalState::On } else { JournalState::Linked });
    }
    for path in worktree_index.differently_forced_paths(forced) {
        add_affected_name(worktree_index, path.as_bytes(), &mut names);
    }
    Ok(names)
}

/// The names that may have changed without an event: those that could not be read, those of files with
/// several names, and further names of changed files.
fn unreported_names(
    worktree_index: &WorktreeIndex,
    found: &ScanDelta,
    reported: &NamesByFolder,
) -> NamesByFolder {
    let mut names = worktree_index.names_of_inodes(&found.hard_links);
    for path in worktree_index.always_rescanned().iter().chain(worktree_index.hard_linked_files()) {
        if let Some((folder, name)) = split_parent(path.as_bytes()) {
            names.entry(folder.to_vec()).or_default().insert(name.into());
        }
    }
    for (folder, seen) in reported {
        if let Some(names) = names.get_mut(folder) {
            names.retain(|name| !seen.contains(name));
        }
    }
    names.retain(|_, names| !names.is_empty());
    names
}

/// Adds the outermost name on the way to `path` whose selection depends on `path` being selected.
fn add_affected_name(worktree_index: &WorktreeIndex, path: &[u8], names: &mut NamesByFolder) {
    let mut folder = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        let Some(node) = worktree_index.folder(&folder) else {
            return;
        };
        let below = join_name(&folder, part);
        match node.find(part) {
            Some(IndexEntry::Folder(_)) if !worktree_index.is_hidden_folder(&below) => {
                folder = below
            }
            Some(IndexEntry::Folder(_) | IndexEntry::File(_) | IndexEntry::Skipped(_)) => {
                names.entry(folder).or_default().insert(part.into());
                return;
            }
            None => return,
        }
    }
}
