//! The journal of a worktree: what a watch told since the last capture, as names to look at (R8).
//!
//! Turns events into the few names whose place in the picture may be wrong. Whatever may have been
//! missed makes the next capture look at everything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
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

/// The journal of one worktree, as it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JournalStatus {
    /// What it is worth.
    pub state: JournalState,
    /// Folders that are watched.
    pub watched: usize,
    /// Changes that audits found and the journal had missed.
    pub missed: usize,
    /// Audits that were made.
    pub audits: usize,
}

/// What is kept of the journal between captures.
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
    /// Gives the watch up.
    pub(crate) fn stop(&mut self, state: JournalState) {
        self.watch = None;
        self.state = state;
    }

    pub(crate) fn record_comparison(&mut self, now: EpochMillis) {
        (self.last_compared, self.used_since) = (Some(now), false);
    }
}

/// Where a capture looked.
pub(crate) struct ScanResult {
    pub(crate) delta: ScanDelta,
    /// True if at everything.
    pub(crate) is_complete: bool,
    pub(crate) mode: CaptureMode,
    pub(crate) journal: JournalState,
}

impl SnapshotStore {
    /// Starts the journal: the next capture looks at everything once more, later ones at what changed.
    ///
    /// Where it cannot be had, captures go on walking and say why. A journal that is on, or that an
    /// audit has found wanting, stays as it is.
    pub fn start_journal(&self) -> JournalStatus {
        let mut journal = self.lock_journal();
        if journal.watch.is_none() && journal.state != JournalState::Distrusted {
            match FileWatcher::start(&self.worktree) {
                Ok(watch) => {
                    journal.watch = Some(Arc::new(watch));
                    journal.state = JournalState::Starting;
                }
                Err(state) => journal.state = state,
            }
        }
        drop(journal);
        self.journal_status()
    }

    /// Says how the journal stands.
    #[must_use]
    pub fn journal_status(&self) -> JournalStatus {
        let journal = self.lock_journal();
        let watched = journal.watch.as_ref().map_or(0, |watch| watch.watched_count());
        let ChangeJournal { state, missed, audits, .. } = *journal;
        JournalStatus { state, watched, missed, audits }
    }

    /// Tells whether captures have relied on the journal for so long that it should be audited (R8).
    ///
    /// The end of a turn is a good moment too, which only the caller knows.
    #[must_use]
    pub fn is_audit_due(&self, now: EpochMillis) -> bool {
        let journal = self.lock_journal();
        let long = journal.last_compared.is_none_or(|last| now.since(last) >= AUDIT_INTERVAL_MS);
        journal.state == JournalState::On && journal.used_since && long
    }

    pub(crate) fn lock_journal(&self) -> MutexGuard<'_, ChangeJournal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what the journal names, or at everything, and tells which and why.
    pub(crate) fn scan_changes(
        &self,
        picture: &WorktreeIndex,
        forced: &BTreeSet<RelPath>,
        now: EpochMillis,
    ) -> Result<ScanResult, CaptureError> {
        // Taken before anything is looked at: what happens later is in the queue for the next time.
        let (mut journal, watch, drained) = self.drain_journal();
        let repos: Vec<(&[u8], RepositoryChange)> =
            picture.repositories().map(|(folder, repo)| (folder, repo.detect_changes())).collect();
        let names = match journal == JournalState::On && picture.is_complete() {
            true => names_to_scan(picture, drained, &repos, forced),
            false => Err(journal),
        };
        let walker = || WorktreeWalker {
            worktree: &self.worktree,
            selection: &self.selection,
            forced,
            index: picture,
            trust_index_rules: repos.iter().all(|(_, moved)| *moved == RepositoryChange::Nothing),
            watch: watch.as_deref(),
            delta: Mutex::default(),
        };
        let (found, mode) = match names {
            Ok(names) => {
                let mut walked = BTreeSet::new();
                let mut found = walker().scan_names(&names, &mut walked)?;
                let silent = unreported_names(picture, &found, &names);
                found.extend(walker().scan_names(&silent, &mut walked)?);
                (found, CaptureMode::Journal)
            }
            Err(why) => {
                journal = why;
                (walker().walk()?, CaptureMode::Walk)
            }
        };
        let lost = watch.and_then(|watch| watch.loss());
        journal = self.record_scan(mode, journal, lost, now);
        Ok(ScanResult { delta: found, is_complete: mode == CaptureMode::Walk, mode, journal })
    }

    /// What the journal can do for a capture that begins, and what it has heard.
    fn drain_journal(&self) -> (JournalState, Option<Arc<FileWatcher>>, DrainedEvents) {
        let mut journal = self.lock_journal();
        let mut told = journal.state;
        let drained = journal.watch.as_ref().map(|watch| watch.drain()).unwrap_or_default();
        if let Some(lost) = drained.loss {
            told = self.restart_watcher(&mut journal, lost);
        } else if journal.watch.is_some() {
            journal.state = JournalState::On;
        }
        (told, journal.watch.clone(), drained)
    }

    /// Notes what a look was worth.
    fn record_scan(
        &self,
        mode: CaptureMode,
        told: JournalState,
        lost: Option<JournalState>,
        now: EpochMillis,
    ) -> JournalState {
        let mut journal = self.lock_journal();
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
            Some(_) | None => told,
        }
    }

    /// Something was not heard: all is watched anew, if that is any use.
    fn restart_watcher(&self, journal: &mut ChangeJournal, lost: JournalState) -> JournalState {
        journal.stop(lost);
        if lost == JournalState::Overflow {
            match FileWatcher::start(&self.worktree) {
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

/// The names a capture must look at, or why it must look at all.
fn names_to_scan(
    picture: &WorktreeIndex,
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
    for (folder, heard) in drained.names {
        // These decide over everything in their folder and below.
        let decides = |name: &[u8]| name == b".gitignore" || is_git_directory(name);
        if heard.iter().any(|name| decides(name)) {
            whole(&folder, &mut names);
        }
        names.entry(folder).or_default().extend(heard);
    }
    for (folder, moved) in repos {
        match moved {
            RepositoryChange::Nothing => {}
            RepositoryChange::Excludes => whole(folder, &mut names),
            RepositoryChange::TrackedPaths(paths) => {
                paths.iter().for_each(|path| add_affected_name(picture, path, &mut names))
            }
        }
    }
    if all || picture.hard_linked_files().len() > MAX_HARD_LINKED_FILES {
        return Err(if all { JournalState::On } else { JournalState::Linked });
    }
    for path in picture.newly_forced_paths(forced) {
        add_affected_name(picture, path.as_bytes(), &mut names);
    }
    Ok(names)
}

/// The names that may have changed without being told: those nobody could read, those of files with
/// several names, and other names of files that something happened to.
fn unreported_names(
    picture: &WorktreeIndex,
    found: &ScanDelta,
    told: &NamesByFolder,
) -> NamesByFolder {
    let mut names = picture.names_of_inodes(&found.hard_links);
    for path in picture.always_rescanned().iter().chain(picture.hard_linked_files()) {
        if let Some((folder, name)) = split_parent(path.as_bytes()) {
            names.entry(folder.to_vec()).or_default().insert(name.into());
        }
    }
    for (folder, seen) in told {
        if let Some(names) = names.get_mut(folder) {
            names.retain(|name| !seen.contains(name));
        }
    }
    names.retain(|_, names| !names.is_empty());
    names
}

/// Adds the outermost name on the way to `path` whose selection depends on `path` being selected.
fn add_affected_name(picture: &WorktreeIndex, path: &[u8], names: &mut NamesByFolder) {
    let mut folder = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        let Some(node) = picture.folder(&folder) else {
            return;
        };
        let below = join_name(&folder, part);
        match node.find(part) {
            Some(IndexEntry::Folder(_)) if !picture.is_hidden_folder(&below) => folder = below,
            Some(IndexEntry::Folder(_) | IndexEntry::File(_) | IndexEntry::Skipped(_)) => {
                names.entry(folder).or_default().insert(part.into());
                return;
            }
            None => return,
        }
    }
}
