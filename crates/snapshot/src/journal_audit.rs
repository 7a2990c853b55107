//! The audit: a stat walk compared with the index and with pending events of the journal (R8).
//!
//! Changes nothing in the store. A change without an event makes the journal distrusted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::prelude::*;
use serde::Serialize;
use turnstone_core::time::EpochMillis;

use crate::capture::{CaptureError, filesystem_now};
use crate::change_journal::WorktreeJournal;
use crate::file_hashing::{HashedFiles, read_current_content};
use crate::file_watch::{DrainedEvents, FileWatcher, JournalState};
use crate::path::{RelPath, is_git_directory};
use crate::stat_cache::CachedFile;
use crate::worktree_index::{IndexEntry, WorktreeIndex, join_name, split_parent};
use crate::worktree_walk::{EntryKind, NamedEntry, ScanDelta, WorktreeWalker};

/// A write is reported when its call ends; the audit waits this long for a late event.
const EVENT_WAITS: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(200)];

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JournalAudit {
    /// Files that were compared; none if there is no journal to audit.
    pub files: usize,
    /// Changes the journal had missed, sorted.
    pub missed: Vec<RelPath>,
}

impl WorktreeJournal<'_> {
    /// Compares the worktree with what captures rely on; a change the journal missed ends it (R8).
    ///
    /// It may run in the background: a capture that comes meanwhile waits, writers do not. Without a
    /// journal that is on there is nothing to audit, and nothing is done.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit(&self, now: EpochMillis) -> Result<JournalAudit, CaptureError> {
        let running = self.store.baseline_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.store.worktree.check_root()?;
        let watch = {
            let journal = self.lock();
            journal.watch.clone().filter(|_| journal.state == JournalState::On)
        };
        let mut worktree_index = self.store.lock_worktree_index();
        let Some(watch) = watch.filter(|_| worktree_index.is_complete()) else {
            return Ok(JournalAudit::default());
        };
        let suspects = self.find_differing_paths(&worktree_index)?;
        let (mut missed, proven) = self.confirm_missed(&worktree_index, &suspects, &watch)?;
        // What was read and found unchanged need not be read by the next audit.
        worktree_index.apply_scan(proven, HashedFiles::default(), false);
        missed.sort_unstable();
        let files = worktree_index.file_count();
        drop((worktree_index, running));
        let mut journal = self.lock();
        journal.audits += 1;
        journal.missed += missed.len();
        journal.record_comparison(now);
        if !missed.is_empty() {
            journal.stop(JournalState::Distrusted);
        }
        Ok(JournalAudit { files, missed })
    }

    /// The paths that differ from the index.
    fn find_differing_paths(
        &self,
        worktree_index: &WorktreeIndex,
    ) -> Result<BTreeSet<RelPath>, CaptureError> {
        let forced = worktree_index.last_forced_paths();
        let walker = WorktreeWalker {
            worktree: &self.store.worktree,
            selection: &self.store.selection,
            forced: &forced,
            index: worktree_index,
            trust_index_rules: true,
            watch: None,
            delta: Mutex::default(),
        };
        let ScanDelta { listings, corrections: notes, .. } = walker.walk()?;
        let mut suspects = BTreeSet::new();
        let mut add =
            |folder: &[u8], name: &[u8]| suspects.extend(RelPath::in_folder(folder, name).ok());
        for listing in &listings {
            // A new folder is listed in its parent.
            let Some(node) = worktree_index.folder(&listing.folder) else {
                continue;
            };
            for (name, kind) in &listing.entries {
                match (kind, node.find(name)) {
                    (EntryKind::Known(_), _) | (EntryKind::Folder, Some(IndexEntry::Folder(_))) => {
                    }
                    (EntryKind::Skipped(one), Some(IndexEntry::Skipped(other))) if one == other => {
                    }
                    (EntryKind::Stale(_) | EntryKind::Skipped(_) | EntryKind::Folder, _) => {
                        add(&listing.folder, name);
                    }
                }
            }
            let is_listed = |name: &[u8]| {
                listing.entries.binary_search_by(|(listed, _)| listed[..].cmp(name)).is_ok()
            };
            let gone = node.entries.iter().filter(|(name, _)| !is_listed(name));
            gone.for_each(|(name, _)| add(&listing.folder, name));
        }
        notes.iter().for_each(|note| add(&note.folder, &note.name));
        Ok(suspects)
    }

    /// Separates missed changes from those whose event is pending and from those that did not happen.
    fn confirm_missed(
        &self,
        worktree_index: &WorktreeIndex,
        suspects: &BTreeSet<RelPath>,
        watch: &Arc<FileWatcher>,
    ) -> Result<(Vec<RelPath>, ScanDelta), CaptureError> {
        let clock = filesystem_now(&self.store.directory)?;
        let mut left: Vec<RelPath> = suspects.iter().cloned().collect();
        let mut proven = Vec::new();
        for wait in EVENT_WAITS {
            if left.is_empty() {
                break;
            }
            let reported = watch.peek(wait);
            left.retain(|path| !will_be_scanned(worktree_index, &reported, path));
            let looked: Vec<Option<CachedFile>> = left
                .par_iter()
                .map(|path| self.reread_unchanged(worktree_index, path, clock))
                .collect();
            let mut still = Vec::new();
            for (path, cached) in left.into_iter().zip(looked) {
                match (cached, split_parent(path.as_bytes())) {
                    (Some(cached), Some((folder, name))) => proven.push(NamedEntry {
                        folder: folder.to_vec(),
                        name: name.into(),
                        kind: Some(EntryKind::Known(cached)),
                    }),
                    _ => still.push(path),
                }
            }
            left = still;
        }
        Ok((left, ScanDelta { entries: proven, ..ScanDelta::default() }))
    }

    /// Reads a file; `Some` if its content is as in the index, even if its times differ.
    fn reread_unchanged(
        &self,
        worktree_index: &WorktreeIndex,
        path: &RelPath,
        clock: i64,
    ) -> Option<CachedFile> {
        let (folder, name) = split_parent(path.as_bytes())?;
        let IndexEntry::File(known) = worktree_index.folder(folder)?.find(name)? else {
            return None;
        };
        let current = read_current_content(&self.store.worktree, path);
        let (stat, leaf) = (current.stat?, current.image.leaf()?);
        let is_same = leaf == known.leaf && stat.perm == known.stat.perm;
        is_same.then(|| CachedFile::new(stat, leaf, clock))
    }
}

/// True if the next capture would check `path` anyway.
fn will_be_scanned(
    worktree_index: &WorktreeIndex,
    reported: &DrainedEvents,
    path: &RelPath,
) -> bool {
    if reported.loss.is_some()
        || worktree_index.always_rescanned().contains(path)
        || worktree_index.hard_linked_files().contains(path)
    {
        return true;
    }
    let mut folder = Vec::new();
    for part in path.parts() {
        let at = worktree_index.folder(&folder).map(|node| &node.rules);
        // What the user's repository changed, captures look up by themselves.
        if at.and_then(|place| place.repo.as_ref()).is_some_and(|repo| repo.has_changed()) {
            return true;
        }
        if let Some(names) = reported.names.get(&folder) {
            let decides = |name: &[u8]| name == b".gitignore" || is_git_directory(name);
            if names.contains(part) || names.iter().any(|name| decides(name)) {
                return true;
            }
        }
        folder = join_name(&folder, part);
    }
    false
}
