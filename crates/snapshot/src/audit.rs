//! The audit: a stat walk compared with the picture and with what the journal has yet to tell (R8).
//!
//! Changes nothing in the store. A change that nobody told of makes the journal distrusted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::prelude::*;
use serde::Serialize;
use turnstone_core::time::Millis;

use crate::cache::Cached;
use crate::capture::CaptureError;
use crate::hash::{Hashed, Look, look};
use crate::path::{RelPath, below, is_git_directory};
use crate::picture::{Item, Picture, join, split};
use crate::shadow::Shadow;
use crate::walk::{Found, Glance, Sight, Walker};
use crate::watch::{Drained, JournalState, Watch};

/// A call that changes a file is told when it ends; so long is waited for one that has not.
const PATIENCE: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(200)];

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Files that were compared; none if there is no journal to audit.
    pub files: usize,
    /// Changes the journal had missed, sorted.
    pub missed: Vec<RelPath>,
}

impl Shadow {
    /// Compares the worktree with what captures rely on; a change the journal missed ends it (R8).
    ///
    /// It may run in the background: a capture that comes meanwhile waits, writers do not. Without a
    /// journal that is on there is nothing to audit, and nothing is done.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit(&self, now: Millis) -> Result<Audit, CaptureError> {
        let running = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        self.worktree.check()?;
        let watch = {
            let journal = self.journal_lock();
            journal.watch.clone().filter(|_| journal.state == JournalState::On)
        };
        let mut picture = self.picture();
        let Some(watch) = watch.filter(|_| picture.is_whole()) else {
            return Ok(Audit::default());
        };
        let suspects = self.find_suspects(&picture)?;
        let (mut missed, proven) = self.question(&picture, &suspects, &watch)?;
        // What was read and found unchanged need not be read by the next audit.
        picture.absorb(proven, Hashed::default(), false);
        missed.sort_unstable();
        let files = picture.files();
        drop((picture, running));
        let mut journal = self.journal_lock();
        journal.audits += 1;
        journal.missed += missed.len();
        journal.note_comparison(now);
        if !missed.is_empty() {
            journal.end(JournalState::Distrusted);
        }
        Ok(Audit { files, missed })
    }

    /// The paths that are not as the picture has them.
    fn find_suspects(&self, picture: &Picture) -> Result<BTreeSet<RelPath>, CaptureError> {
        let forced = picture.forced();
        let walker = Walker {
            worktree: &self.worktree,
            selection: &self.selection,
            forced: &forced,
            picture,
            shortcut: true,
            watch: None,
            found: Mutex::default(),
        };
        let Found { listings, notes, .. } = walker.walk()?;
        let mut suspects = BTreeSet::new();
        let mut add = |folder: &[u8], name: &[u8]| suspects.extend(below(folder, name).ok());
        for listing in &listings {
            // A folder that is new is told of in the one above.
            let Some(node) = picture.node(&listing.folder) else {
                continue;
            };
            for (name, sight) in &listing.names {
                match (sight, node.find(name)) {
                    (Sight::Known(_), _) | (Sight::Folder, Some(Item::Folder(_))) => {}
                    (Sight::Skipped(one), Some(Item::Skipped(other))) if one == other => {}
                    (Sight::Stale(_) | Sight::Skipped(_) | Sight::Folder, _) => {
                        add(&listing.folder, name);
                    }
                }
            }
            let is_listed = |name: &[u8]| {
                listing.names.binary_search_by(|(listed, _)| listed[..].cmp(name)).is_ok()
            };
            let gone = node.items.iter().filter(|(name, _)| !is_listed(name));
            gone.for_each(|(name, _)| add(&listing.folder, name));
        }
        notes.iter().for_each(|note| add(&note.folder, &note.name));
        Ok(suspects)
    }

    /// Parts real misses from what is about to be told, and from what did not change after all.
    fn question(
        &self,
        picture: &Picture,
        suspects: &BTreeSet<RelPath>,
        watch: &Arc<Watch>,
    ) -> Result<(Vec<RelPath>, Found), CaptureError> {
        let clock = self.clock()?;
        let mut left: Vec<RelPath> = suspects.iter().cloned().collect();
        let mut proven = Vec::new();
        for wait in PATIENCE {
            if left.is_empty() {
                break;
            }
            let told = watch.peek(wait);
            left.retain(|path| !is_told(picture, &told, path));
            let looked: Vec<Option<Cached>> =
                left.par_iter().map(|path| self.prove(picture, path, clock)).collect();
            let mut still = Vec::new();
            for (path, cached) in left.into_iter().zip(looked) {
                match (cached, split(path.as_bytes())) {
                    (Some(cached), Some((folder, name))) => proven.push(Glance {
                        folder: folder.to_vec(),
                        name: name.into(),
                        sight: Some(Sight::Known(cached)),
                    }),
                    _ => still.push(path),
                }
            }
            left = still;
        }
        Ok((left, Found { glances: proven, ..Found::default() }))
    }

    /// Reads a file; what it is if it is as the picture has it, though its times may not be.
    fn prove(&self, picture: &Picture, path: &RelPath, clock: i64) -> Option<Cached> {
        let (folder, name) = split(path.as_bytes())?;
        let Item::File(known) = picture.node(folder)?.find(name)? else {
            return None;
        };
        match look(&self.worktree, path) {
            Look::Present(stat, leaf, _) if leaf == known.leaf && stat.perm == known.stat.perm => {
                Some(Cached::new(stat, leaf, clock))
            }
            Look::Present(..) | Look::Absent | Look::Uncovered(_) => None,
        }
    }
}

/// Tells whether the next capture would look at `path` anyway.
fn is_told(picture: &Picture, told: &Drained, path: &RelPath) -> bool {
    if told.lost.is_some() || picture.restless().contains(path) || picture.linked().contains(path) {
        return true;
    }
    let mut folder = Vec::new();
    for part in path.parts() {
        let at = picture.node(&folder).map(|node| &node.place);
        // What the user's repository changed, captures look up by themselves.
        if at.and_then(|place| place.repo.as_ref()).is_some_and(|repo| repo.is_moved()) {
            return true;
        }
        if let Some(names) = told.names.get(&folder) {
            let decides = |name: &[u8]| name == b".gitignore" || is_git_directory(name);
            if names.contains(part) || names.iter().any(|name| decides(name)) {
                return true;
            }
        }
        folder = join(&folder, part);
    }
    false
}
