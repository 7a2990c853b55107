//! The journal of a worktree: what a watch told since the last capture, as names to look at (R8).
//!
//! Turns events into the few names whose place in the picture may be wrong. Whatever may have been
//! missed makes the next capture look at everything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use turnstone_core::time::Millis;

use crate::capture::{CaptureError, Mode};
use crate::path::{RelPath, is_git_directory};
use crate::picture::{Item, Picture, join, split};
use crate::shadow::Shadow;
use crate::vcs::Moved;
use crate::walk::{Found, Walker};
use crate::watch::{Drained, JournalState, Names, Watch};

/// More files with a second name are not looked at one by one.
const MANY_LINKED: usize = 2000;
/// An audit is due after so long, if captures relied on the journal meanwhile.
const AUDIT_AFTER: i64 = 600_000;

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
pub(crate) struct Journal {
    pub(crate) watch: Option<Arc<Watch>>,
    pub(crate) state: JournalState,
    pub(crate) missed: usize,
    pub(crate) audits: usize,
    /// When an audit, or a walk that is as good as one, last compared everything.
    compared: Option<Millis>,
    /// True if captures relied on it since.
    active: bool,
}

impl Journal {
    /// Gives the watch up.
    pub(crate) fn end(&mut self, state: JournalState) {
        self.watch = None;
        self.state = state;
    }

    pub(crate) fn note_comparison(&mut self, now: Millis) {
        (self.compared, self.active) = (Some(now), false);
    }
}

/// Where a capture looked.
pub(crate) struct Looked {
    pub(crate) found: Found,
    /// True if at everything.
    pub(crate) whole: bool,
    pub(crate) mode: Mode,
    pub(crate) journal: JournalState,
}

impl Shadow {
    /// Starts the journal: the next capture looks at everything once more, later ones at what changed.
    ///
    /// Where it cannot be had, captures go on walking and say why. A journal that is on, or that an
    /// audit has found wanting, stays as it is.
    pub fn watch(&self) -> JournalStatus {
        let mut journal = self.journal_lock();
        if journal.watch.is_none() && journal.state != JournalState::Distrusted {
            match Watch::start(&self.worktree) {
                Ok(watch) => {
                    journal.watch = Some(Arc::new(watch));
                    journal.state = JournalState::Starting;
                }
                Err(state) => journal.state = state,
            }
        }
        drop(journal);
        self.journal()
    }

    /// Says how the journal stands.
    #[must_use]
    pub fn journal(&self) -> JournalStatus {
        let journal = self.journal_lock();
        let watched = journal.watch.as_ref().map_or(0, |watch| watch.count());
        let Journal { state, missed, audits, .. } = *journal;
        JournalStatus { state, watched, missed, audits }
    }

    /// Tells whether captures have relied on the journal for so long that it should be audited (R8).
    ///
    /// The end of a turn is a good moment too, which only the caller knows.
    #[must_use]
    pub fn is_audit_due(&self, now: Millis) -> bool {
        let journal = self.journal_lock();
        let long = journal.compared.is_none_or(|last| now.since(last) >= AUDIT_AFTER);
        journal.state == JournalState::On && journal.active && long
    }

    pub(crate) fn journal_lock(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what the journal names, or at everything, and tells which and why.
    pub(crate) fn look(
        &self,
        picture: &Picture,
        forced: &BTreeSet<RelPath>,
        now: Millis,
    ) -> Result<Looked, CaptureError> {
        // Taken before anything is looked at: what happens later is in the queue for the next time.
        let (mut journal, watch, drained) = self.begin();
        let repos: Vec<(&[u8], Moved)> =
            picture.repos().map(|(folder, repo)| (folder, repo.refresh())).collect();
        let names = match journal == JournalState::On && picture.is_whole() {
            true => names_to_look_at(picture, drained, &repos, forced),
            false => Err(journal),
        };
        let walker = || Walker {
            worktree: &self.worktree,
            selection: &self.selection,
            forced,
            picture,
            shortcut: repos.iter().all(|(_, moved)| *moved == Moved::Nothing),
            watch: watch.as_deref(),
            found: Mutex::default(),
        };
        let (found, mode) = match names {
            Ok(names) => {
                let mut walked = BTreeSet::new();
                let mut found = walker().look_at(&names, &mut walked)?;
                let silent = silent_names(picture, &found, &names);
                found.extend(walker().look_at(&silent, &mut walked)?);
                (found, Mode::Journal)
            }
            Err(why) => {
                journal = why;
                (walker().walk()?, Mode::Walk)
            }
        };
        let lost = watch.and_then(|watch| watch.lost());
        journal = self.conclude(mode, journal, lost, now);
        Ok(Looked { found, whole: mode == Mode::Walk, mode, journal })
    }

    /// What the journal can do for a capture that begins, and what it has heard.
    fn begin(&self) -> (JournalState, Option<Arc<Watch>>, Drained) {
        let mut journal = self.journal_lock();
        let mut told = journal.state;
        let drained = journal.watch.as_ref().map(|watch| watch.drain()).unwrap_or_default();
        if let Some(lost) = drained.lost {
            told = self.renew(&mut journal, lost);
        } else if journal.watch.is_some() {
            journal.state = JournalState::On;
        }
        (told, journal.watch.clone(), drained)
    }

    /// Notes what a look was worth.
    fn conclude(
        &self,
        mode: Mode,
        told: JournalState,
        lost: Option<JournalState>,
        now: Millis,
    ) -> JournalState {
        let mut journal = self.journal_lock();
        match mode {
            Mode::Walk => journal.note_comparison(now),
            Mode::Journal | Mode::Named => journal.active = true,
        }
        match lost {
            // No use to try again at once.
            Some(lost @ (JournalState::WatchLimit | JournalState::NoEvents)) => {
                journal.end(lost);
                lost
            }
            Some(_) | None => told,
        }
    }

    /// Something was not heard: all is watched anew, if that is any use.
    fn renew(&self, journal: &mut Journal, lost: JournalState) -> JournalState {
        journal.end(lost);
        if lost == JournalState::Overflow {
            match Watch::start(&self.worktree) {
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
fn names_to_look_at(
    picture: &Picture,
    drained: Drained,
    repos: &[(&[u8], Moved)],
    forced: &BTreeSet<RelPath>,
) -> Result<Names, JournalState> {
    let mut names = Names::new();
    let mut all = false;
    let mut whole = |folder: &[u8], names: &mut Names| match split(folder) {
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
            Moved::Nothing => {}
            Moved::Excludes => whole(folder, &mut names),
            Moved::Tracked(paths) => {
                paths.iter().for_each(|path| add_decided(picture, path, &mut names))
            }
        }
    }
    if all || picture.linked().len() > MANY_LINKED {
        return Err(if all { JournalState::On } else { JournalState::Linked });
    }
    for path in picture.newly_forced(forced) {
        add_decided(picture, path.as_bytes(), &mut names);
    }
    Ok(names)
}

/// The names that may have changed without being told: those nobody could read, those of files with
/// several names, and other names of files that something happened to.
fn silent_names(picture: &Picture, found: &Found, told: &Names) -> Names {
    let mut names = picture.names_of(&found.linked);
    for path in picture.restless().iter().chain(picture.linked()) {
        if let Some((folder, name)) = split(path.as_bytes()) {
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
fn add_decided(picture: &Picture, path: &[u8], names: &mut Names) {
    let mut folder = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        let Some(node) = picture.node(&folder) else {
            return;
        };
        let below = join(&folder, part);
        match node.find(part) {
            Some(Item::Folder(_)) if !picture.is_hidden(&below) => folder = below,
            Some(Item::Folder(_) | Item::File(_) | Item::Skipped(_)) => {
                names.entry(folder).or_default().insert(part.into());
                return;
            }
            None => return,
        }
    }
}
