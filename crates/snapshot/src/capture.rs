//! Captures: the worktree, or some paths of it, as a tree that is durable when its id is returned.
//!
//! Decides what is read; how it is written down is the chain's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::capture_chain::build_coverage_commit;
use crate::change_journal::ScanResult;
use crate::coverage::{CaptureCoverage, CaptureScope, CapturedPermissions, LargeFileStat};
use crate::file_hashing::{HashedFiles, hash_files};
use crate::file_watch::JournalState;
use crate::forced_paths::persist_forced_paths;
use crate::named_paths::inspect_paths;
use crate::object_store::{ObjectError, Oid, PackWriter, TreeLeaf};
use crate::pack_reuse::{ReuseContext, split_reusable};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::pin_group::PinGroup;
use crate::registry::StoreRegistry;
use crate::snapshot_store::SnapshotStore;
use crate::stat_cache::CachedFile;
use crate::storage_budget::OverBudget;
use crate::unfinished_files::{find_unfinished, load_unfinished, save_unfinished};
use crate::worktree::{FileKind, FileStat, RootError, Worktree};
use crate::worktree_index::{ScanUpdateReport, WorktreeIndex};
use crate::worktree_walk::ScanDelta;

/// From this many files on, the user's index is consulted, not only at the first capture.
const MIN_FILES_FOR_REUSE: usize = 1000;

/// A file that was written so shortly before a capture may still be being written.
const RECENT_WRITE_NANOS: i64 = 2_000_000_000;
/// With more such files none of them is looked at again.
const MAX_RECENT_FILES: usize = 1000;

/// Why nothing was captured. No id exists, and every capture before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The worktree is not the one that was opened.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The store could not be read or written.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// It does not fit (R13): make room, or set another budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The disk has less free space than must stay (R13).
    #[error("only {free} bytes are free on the disk of the store; {floor} must remain free")]
    BelowFloor {
        /// Bytes that are free.
        free: u64,
        /// Bytes that must stay free.
        floor: u64,
        /// Bytes of the capture.
        needed: u64,
    },
    /// The disk is full, or the user's share of it.
    #[error("no space left for the capture")]
    NoSpace(#[source] io::Error),
    /// The root could not be listed, or the store not be written.
    #[error("the worktree could not be captured")]
    Io(#[source] io::Error),
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        if full.contains(&error.kind()) { Self::NoSpace(error) } else { Self::Io(error) }
    }
}

/// How the changed files were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// Only what the journal named was looked at.
    Journal,
    /// Every file was looked at.
    Walk,
    /// Only the named paths were looked at.
    Named,
}

impl CaptureMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Walk => "walk",
            Self::Named => "named",
        }
    }
}

/// A capture that is durable.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The capture itself: the name of its commit.
    pub id: Oid,
    /// Its content: what `git write-tree` would say.
    pub tree: Oid,
    /// What it covers.
    pub coverage: Arc<CaptureCoverage>,
    /// When it was made.
    pub time: EpochMillis,
}

/// A capture and how it came about.
#[derive(Clone, Debug)]
pub struct CaptureOutcome {
    /// The capture that was made, or the equal one that was there.
    pub capture: Capture,
    /// Files in it.
    pub files: usize,
    /// Files that were added, changed or removed since this store last looked.
    pub changed: usize,
    /// Files that were not read because the user's own index proved them unchanged (R10).
    pub reused: usize,
    /// How they were found.
    pub mode: CaptureMode,
    /// What the journal was worth, and why it was not used if it was not.
    pub journal: JournalState,
    /// False if it equals the group's last capture, which was returned; then nothing was written.
    pub is_new: bool,
}

/// What a capture holds, before it is written down.
pub(crate) struct CaptureContent {
    pub(crate) tree: Oid,
    pub(crate) coverage: Arc<CaptureCoverage>,
    /// The commit of the coverage.
    pub(crate) coverage_commit: Oid,
    pub(crate) files: usize,
}

/// How the content was found.
#[derive(Clone, Copy)]
pub(crate) struct CaptureStats {
    pub(crate) changed: usize,
    pub(crate) reused: usize,
    pub(crate) mode: CaptureMode,
    pub(crate) journal: JournalState,
    /// It is needed for a restore: the budget does not count (R14).
    pub(crate) is_guard: bool,
}

/// Marks a store whose worktree was captured completely once.
const BASELINE_FILE: &str = "baseline";

/// True if the whole worktree of a store was captured once.
pub(crate) fn has_baseline(folder: &Path) -> bool {
    folder.join(BASELINE_FILE).exists()
}

/// A hint for other processes: without it they do not rely on a baseline.
fn mark_baseline(folder: &Path) {
    if !has_baseline(folder) {
        fs_err::write(folder.join(BASELINE_FILE), []).ok();
    }
}

impl SnapshotStore {
    /// Captures the whole worktree and pins it in `group`.
    ///
    /// # Errors
    ///
    /// See [`CaptureError`]. A path that cannot be captured is no error: it is in the coverage.
    pub fn capture(
        &self,
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, CaptureError> {
        let running = self.baseline_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.lock_objects_shared();
        self.check_root()?;
        let mut worktree_index = self.take_worktree_index();
        let outcome = capture_worktree(self, &mut worktree_index, group, now);
        if outcome.is_err() {
            // What was read may not be in the store, nor trees made of it.
            let known = self.repository.existence_check();
            worktree_index.retain_stat_cache(|_, _, cached| known(&cached.leaf.blob));
        }
        // A hint: a capture that is durable does not fail for it.
        worktree_index.save(&self.directory.join("stat-cache"), false).ok();
        *self.lock_worktree_index() = worktree_index;
        drop((held, running));
        let captured = outcome?;
        mark_baseline(&self.directory);
        if captured.is_new {
            // A failure is retried after the next capture.
            self.packs().merge_packs_if_many().ok();
        }
        Ok(captured)
    }

    /// Makes sure that the root is still the directory that was opened. One that was deleted is recorded: a
    /// directory that is made at its path is its successor, and one that replaced a moved root is not.
    pub(crate) fn check_root(&self) -> Result<(), RootError> {
        let checked = self.worktree.check_root();
        if checked.is_err() && self.worktree.is_deleted() {
            // Without the record a successor is refused until `project relink`.
            let root = self.worktree.file_identity();
            StoreRegistry::record_former_root(&self.directory, root).ok();
        }
        checked
    }

    /// Captures `paths` and nothing else, whatever the rules say (R6).
    ///
    /// The cost follows the number of paths. With `keep`, the paths stay selected in every later
    /// capture of this store (R1).
    ///
    /// # Errors
    ///
    /// See [`CaptureError`].
    pub fn capture_named(
        &self,
        group: &PinGroup,
        paths: &BTreeSet<RelPath>,
        keep: bool,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, CaptureError> {
        self.packs().merge_packs_if_many()?;
        if keep {
            self.check_root()?;
            persist_forced_paths(self, paths)?;
        }
        let captured = capture_paths(self, group, paths, false, now)?;
        if keep {
            // A deletion that ended meanwhile found no capture that needs them.
            persist_forced_paths(self, paths)?;
        }
        Ok(captured)
    }
}

fn capture_worktree(
    store: &SnapshotStore,
    worktree_index: &mut WorktreeIndex,
    group: &PinGroup,
    now: EpochMillis,
) -> Result<CaptureOutcome, CaptureError> {
    let forced = store.lock_state().forced.clone();
    let ScanResult { delta: found, is_complete: whole, mode, journal } =
        store.journal().scan(worktree_index, &forced, now)?;
    fail_point!("snapshot::walked", |_| Err(io::Error::other("failpoint").into()));
    let mut writer = store.repository.new_pack_writer()?;
    let (hashed, reused, recent) = hash_stale_files(store, worktree_index, &found, &mut writer)?;
    let before = load_unfinished(&store.directory);
    let read = hashed.read.iter().map(|(path, _)| path);
    let unfinished = find_unfinished(&store.worktree, &recent, read, &before);
    if unfinished != before {
        // Without it, the next capture may take a save that goes on for a complete file: no reason to fail.
        save_unfinished(&store.directory, &unfinished).ok();
    }
    let ScanUpdateReport { changed, dropped } = worktree_index.apply_scan(found, hashed, whole);
    if let Some(watch) = store.journal().lock().watch.clone() {
        dropped.iter().for_each(|folder| watch.unwatch_folder(folder));
    }
    let known = store.repository.existence_check();
    let mut made = Vec::new();
    let tree = worktree_index.build_trees(&known, &mut made)?;
    let described = with_large_files(&store.worktree, worktree_index.coverage(&forced));
    let (coverage, about) = with_unfinished(described, unfinished.into_iter().collect());
    let about = match about {
        Some(about) => about,
        None => build_coverage_commit(&coverage, &known, &mut made)?,
    };
    let content = CaptureContent {
        tree,
        coverage,
        coverage_commit: about,
        files: worktree_index.file_count(),
    };
    let seen = CaptureStats { changed, reused, mode, journal, is_guard: false };
    let captured = store.append_capture(&content, &made, seen, writer, group, now)?;
    let is_index_coverage = captured.capture.coverage.large.is_empty()
        && captured.capture.coverage.unfinished.is_empty();
    if is_index_coverage {
        worktree_index.set_coverage_commit(about);
    }
    Ok(captured)
}

/// Adds to a coverage the stats by which a change of a file over the size limit is noticed. The worktree index does not
/// know it, so the commit of its coverage is another one.
fn with_large_files(
    worktree: &Worktree,
    (coverage, commit): (Arc<CaptureCoverage>, Option<Oid>),
) -> (Arc<CaptureCoverage>, Option<Oid>) {
    let skipped = coverage.skipped.iter();
    let large: Vec<(RelPath, LargeFileStat)> = skipped
        .filter(|(_, reason)| *reason == UncoveredReason::TooLarge)
        .filter_map(|(path, _)| {
            let FileStat { size, mtime: modified, ino: inode, .. } = worktree.stat(path).ok()??;
            Some((path.clone(), LargeFileStat { size, modified, inode }))
        })
        .collect();
    match large.is_empty() {
        true => (coverage, commit),
        false => (Arc::new(CaptureCoverage { large, ..(*coverage).clone() }), None),
    }
}

/// Adds to a coverage which files may be unfinished; the index does not know that either.
fn with_unfinished(
    (coverage, commit): (Arc<CaptureCoverage>, Option<Oid>),
    unfinished: Vec<RelPath>,
) -> (Arc<CaptureCoverage>, Option<Oid>) {
    match unfinished.is_empty() {
        true => (coverage, commit),
        false => (Arc::new(CaptureCoverage { unfinished, ..(*coverage).clone() }), None),
    }
}

/// Reads the files that nothing proves unchanged; counts those that the user's index proves (R10), and
/// which were written a moment ago.
fn hash_stale_files(
    store: &SnapshotStore,
    worktree_index: &WorktreeIndex,
    found: &ScanDelta,
    writer: &mut PackWriter,
) -> Result<(HashedFiles, usize, BTreeMap<RelPath, FileStat>), CaptureError> {
    let stale = found.stale_files();
    if stale.is_empty() {
        return Ok((HashedFiles::default(), 0, BTreeMap::new()));
    }
    let clock = filesystem_now(&store.directory)?;
    let (proven, stale) = match worktree_index.file_count() == 0
        || stale.len() >= MIN_FILES_FOR_REUSE
    {
        true => split_reusable(store, &ReuseContext::collect(worktree_index, found), stale, clock)?,
        false => (Vec::new(), stale),
    };
    let reused = proven.len();
    let (mut recent, settled) = split_recent(stale, clock);
    let mut hashed = hash_files(&store.worktree, &store.repository, &settled, writer, clock)?;
    // A file that is being saved is empty or short for a moment, and that must not become what a call
    // found: such files are looked at again after the others were read.
    for (path, stat) in &mut recent {
        if let Ok(Some(later)) = store.worktree.stat(path) {
            *stat = later;
        }
    }
    let last = hash_files(&store.worktree, &store.repository, &recent, writer, clock)?;
    let recent = last.read.iter().map(|(path, cached)| (path.clone(), cached.stat)).collect();
    hashed.extend(last);
    hashed.read.extend(proven);
    Ok((hashed, reused, recent))
}

/// Files to read, each as it was when it was found.
type StaleFiles = Vec<(RelPath, FileStat)>;

/// Separates the files that were written a moment ago from the others.
fn split_recent(stale: StaleFiles, clock: i64) -> (StaleFiles, StaleFiles) {
    let is_recent = |(_, stat): &(RelPath, FileStat)| {
        stat.kind == FileKind::File && clock.saturating_sub(stat.mtime) < RECENT_WRITE_NANOS
    };
    // So many are a checkout or a build, not a save.
    match stale.iter().filter(|file| is_recent(file)).count() > MAX_RECENT_FILES {
        true => (Vec::new(), stale),
        false => stale.into_iter().partition(is_recent),
    }
}

/// Captures what a restore will overwrite, past the budget (R14).
pub(crate) fn capture_guard(
    store: &SnapshotStore,
    group: &PinGroup,
    paths: &BTreeSet<RelPath>,
    now: EpochMillis,
) -> Result<CaptureOutcome, CaptureError> {
    capture_paths(store, group, paths, true, now)
}

fn capture_paths(
    store: &SnapshotStore,
    group: &PinGroup,
    paths: &BTreeSet<RelPath>,
    is_guard: bool,
    now: EpochMillis,
) -> Result<CaptureOutcome, CaptureError> {
    let _held = store.lock_objects_shared();
    store.check_root()?;
    let clock = filesystem_now(&store.directory)?;
    let mut named = inspect_paths(&store.worktree, paths);
    let mut writer = store.repository.new_pack_writer()?;
    let hashed = hash_files(&store.worktree, &store.repository, &named.files, &mut writer, clock)?;
    let HashedFiles { read: files, skipped, absent: gone } = hashed;
    named.absent.extend(gone);
    named.skipped.extend(skipped);
    let coverage = CaptureCoverage {
        scope: CaptureScope::Named,
        directories: Some(named.directories(files.iter().map(|(path, _)| path))),
        skipped: named.skipped.into_iter().collect(),
        absent: named.absent.into_iter().collect(),
        permissions: collect_permissions(&files),
        ..CaptureCoverage::default()
    };
    store.write_named_capture(&to_leaves(&files), coverage, is_guard, writer, group, now)
}

/// The time of the file system, which is not quite the time of the clock.
pub(crate) fn filesystem_now(directory: &Path) -> io::Result<i64> {
    let mut file = fs_err::File::create(directory.join("clock"))?;
    file.write_all(b".")?;
    Ok(FileStat::of(file.file())?.mtime)
}

fn to_leaves(files: &[(RelPath, CachedFile)]) -> Vec<(RelPath, TreeLeaf)> {
    files.iter().map(|(path, cached)| (path.clone(), cached.leaf)).collect()
}

fn collect_permissions(files: &[(RelPath, CachedFile)]) -> CapturedPermissions {
    let regular = files.iter().filter(|(_, cached)| cached.stat.kind == FileKind::File);
    CapturedPermissions::collect(regular.map(|(path, cached)| (path, cached.stat.perm)))
}
