//! The audit: a stat walk compared with the picture and with what the journal has yet to tell (R8).
//!
//! Changes nothing in the store. A change that nobody told of makes the journal distrusted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::prelude::*;
use serde::Serialize;
use turnstone_core::time::EpochMillis;

use crate::capture::CaptureError;
use crate::file_hashing::{CurrentContent, HashedFiles, read_current_content};
use crate::file_watch::{DrainedEvents, FileWatcher, JournalState};
use crate::path::{RelPath, is_git_directory};
use crate::snapshot_store::SnapshotStore;
use crate::stat_cache::CachedFile;
use crate::worktree_index::{IndexEntry, WorktreeIndex, join_name, split_parent};
use crate::worktree_walk::{EntryKind, NamedEntry, ScanDelta, WorktreeWalker};

/// A call that changes a file is told when it ends; so long is waited for one that has not.
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

impl SnapshotStore {
    /// Compares the worktree with what captures rely on; a change the journal missed ends it (R8).
    ///
    /// It may run in the background: a capture that comes meanwhile waits, writers do not. Without a
    /// journal that is on there is nothing to audit, and nothing is done.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit_journal(&self, now: EpochMillis) -> Result<JournalAudit, CaptureError> {
        let running = self.baseline_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.worktree.check_root()?;
        let watch = {
            let journal = self.lock_journal();
            journal.watch.clone().filter(|_| journal.state == JournalState::On)
        };
        let mut picture = self.lock_worktree_index();
        let Some(watch) = watch.filter(|_| picture.is_complete()) else {
            return Ok(JournalAudit::default());
        };
        let suspects = self.find_differing_paths(&picture)?;
        let (mut missed, proven) = self.confirm_missed(&picture, &suspects, &watch)?;
        // What was read and found unchanged need not be read by the next audit.
        picture.apply_scan(proven, HashedFiles::default(), false);
        missed.sort_unstable();
        let files = picture.file_count();
        drop((picture, running));
        let mut journal = self.lock_journal();
        journal.audits += 1;
        journal.missed += missed.len();
        journal.record_comparison(now);
        if !missed.is_empty() {
            journal.stop(JournalState::Distrusted);
        }
        Ok(JournalAudit { files, missed })
    }

    /// The paths that are not as the picture has them.
    fn find_differing_paths(
        &self,
        picture: &WorktreeIndex,
    ) -> Result<BTreeSet<RelPath>, CaptureError> {
        let forced = picture.last_forced_paths();
        let walker = WorktreeWalker {
            worktree: &self.worktree,
            selection: &self.selection,
            forced: &forced,
            index: picture,
            trust_index_rules: true,
            watch: None,
            delta: Mutex::default(),
        };
        let ScanDelta { listings, corrections: notes, .. } = walker.walk()?;
        let mut suspects = BTreeSet::new();
        let mut add =
            |folder: &[u8], name: &[u8]| suspects.extend(RelPath::in_folder(folder, name).ok());
        for listing in &listings {
            // A folder that is new is told of in the one above.
            let Some(node) = picture.folder(&listing.folder) else {
                continue;
            };
            for (name, sight) in &listing.entries {
                match (sight, node.find(name)) {
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

    /// Parts real misses from what is about to be told, and from what did not change after all.
    fn confirm_missed(
        &self,
        picture: &WorktreeIndex,
        suspects: &BTreeSet<RelPath>,
        watch: &Arc<FileWatcher>,
    ) -> Result<(Vec<RelPath>, ScanDelta), CaptureError> {
        let clock = self.filesystem_now()?;
        let mut left: Vec<RelPath> = suspects.iter().cloned().collect();
        let mut proven = Vec::new();
        for wait in EVENT_WAITS {
            if left.is_empty() {
                break;
            }
            let told = watch.peek(wait);
            left.retain(|path| !will_be_scanned(picture, &told, path));
            let looked: Vec<Option<CachedFile>> =
                left.par_iter().map(|path| self.reread_unchanged(picture, path, clock)).collect();
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

    /// Reads a file; what it is if it is as the picture has it, though its times may not be.
    fn reread_unchanged(
        &self,
        picture: &WorktreeIndex,
        path: &RelPath,
        clock: i64,
    ) -> Option<CachedFile> {
        let (folder, name) = split_parent(path.as_bytes())?;
        let IndexEntry::File(known) = picture.folder(folder)?.find(name)? else {
            return None;
        };
        match read_current_content(&self.worktree, path) {
            CurrentContent::Present(stat, leaf, _)
                if leaf == known.leaf && stat.perm == known.stat.perm =>
            {
                Some(CachedFile::new(stat, leaf, clock))
            }
            CurrentContent::Present(..) | CurrentContent::Absent | CurrentContent::Uncovered(_) => {
                None
            }
        }
    }
}

/// Tells whether the next capture would look at `path` anyway.
fn will_be_scanned(picture: &WorktreeIndex, told: &DrainedEvents, path: &RelPath) -> bool {
    if told.loss.is_some()
        || picture.always_rescanned().contains(path)
        || picture.hard_linked_files().contains(path)
    {
        return true;
    }
    let mut folder = Vec::new();
    for part in path.parts() {
        let at = picture.folder(&folder).map(|node| &node.rules);
        // What the user's repository changed, captures look up by themselves.
        if at.and_then(|place| place.repo.as_ref()).is_some_and(|repo| repo.has_changed()) {
            return true;
        }
        if let Some(names) = told.names.get(&folder) {
            let decides = |name: &[u8]| name == b".gitignore" || is_git_directory(name);
            if names.contains(part) || names.iter().any(|name| decides(name)) {
                return true;
            }
        }
        folder = join_name(&folder, part);
    }
    false
}
