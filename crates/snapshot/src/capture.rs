//! Captures: the worktree, or some paths of it, as a tree that is durable when its id is returned.
//!
//! Decides what is read; how it is written down is the chain's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::time::Millis;

use crate::budget::OverBudget;
use crate::cache::Cached;
use crate::coverage::{Coverage, Permissions, Reason, Scope};
use crate::group::Group;
use crate::hash::{Hashed, hash};
use crate::journal::Looked;
use crate::loan::Ground;
use crate::object::{Leaf, ObjectError, Oid, Writer};
use crate::path::RelPath;
use crate::picture::{Absorbed, Picture, join};
use crate::shadow::Shadow;
use crate::walk::Found;
use crate::watch::JournalState;
use crate::worktree::{Kind, RootError, Stat};

/// So many files to be read are worth asking the user's index, not only at the first capture.
const MANY: usize = 1000;

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
    #[error("only {free} bytes are free on the disk of the store; {floor} must stay free")]
    BelowFloor {
        /// Bytes that are free.
        free: u64,
        /// Bytes that must stay free.
        floor: u64,
        /// Bytes of the capture.
        needed: u64,
    },
    /// The disk is full, or the user's share of it.
    #[error("there is no space left for the capture")]
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
pub enum Mode {
    /// Only what the journal named was looked at.
    Journal,
    /// Every file was looked at.
    Walk,
    /// Only the named paths were looked at.
    Named,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
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
    pub coverage: Arc<Coverage>,
    /// When it was made.
    pub time: Millis,
}

/// A capture and how it came about.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The capture.
    pub capture: Capture,
    /// Files in it.
    pub files: usize,
    /// Files that were added, changed or removed since this store last looked.
    pub changed: usize,
    /// Files that were not read because the user's own index proved them unchanged (R10).
    pub reused: usize,
    /// How they were found.
    pub mode: Mode,
    /// What the journal was worth, and why it was not used if it was not.
    pub journal: JournalState,
    /// False if it equals the group's last capture, which was returned; then nothing was written.
    pub is_new: bool,
}

/// What a capture holds, before it is written down.
pub(crate) struct Content {
    pub(crate) tree: Oid,
    pub(crate) coverage: Arc<Coverage>,
    /// The commit of the coverage.
    pub(crate) about: Oid,
    pub(crate) files: usize,
}

/// How the content was found.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) changed: usize,
    pub(crate) reused: usize,
    pub(crate) mode: Mode,
    pub(crate) journal: JournalState,
    /// It is needed for a restore: the budget does not count (R14).
    pub(crate) is_guard: bool,
}

/// Says in a store's folder that the whole worktree was captured once.
const BASELINE: &str = "baseline";

/// Tells whether the whole worktree of a store was captured once.
pub(crate) fn has_baseline(folder: &Path) -> bool {
    folder.join(BASELINE).exists()
}

impl Shadow {
    /// A hint for others, whoever keeps the store: without it they do not rely on a baseline.
    fn note_baseline(&self) {
        if !has_baseline(&self.folder) {
            fs_err::write(self.folder.join(BASELINE), []).ok();
        }
    }

    /// Captures the whole worktree and pins it in `group`.
    ///
    /// # Errors
    ///
    /// See [`CaptureError`]. A path that cannot be captured is no error: it is in the coverage.
    pub fn capture(&self, group: &Group, now: Millis) -> Result<Captured, CaptureError> {
        let running = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.hold_objects();
        self.worktree.check()?;
        let mut picture = self.take_picture();
        let mut fresh = Vec::new();
        let outcome = self.capture_whole(&mut picture, &mut fresh, group, now);
        if outcome.is_err() {
            // What was read is not in the store, nor are trees made of it.
            let fresh: BTreeSet<RelPath> = fresh.into_iter().collect();
            picture.shrink(|folder, name, _| !fresh.contains(&join(folder, name)[..]));
        }
        // A hint: a capture that is durable does not fail for it.
        picture.save(&self.folder.join("stat-cache"), false).ok();
        *self.picture() = picture;
        drop((held, running));
        let captured = outcome?;
        self.note_baseline();
        if captured.is_new {
            // Upkeep: what fails now is tried again after the next one.
            self.merge_many().ok();
        }
        Ok(captured)
    }

    fn capture_whole(
        &self,
        picture: &mut Picture,
        fresh: &mut Vec<RelPath>,
        group: &Group,
        now: Millis,
    ) -> Result<Captured, CaptureError> {
        let forced = self.memory().forced.clone();
        let Looked { found, whole, mode, journal } = self.look(picture, &forced, now)?;
        fail_point!("snapshot::walked", |_| Err(io::Error::other("failpoint").into()));
        let mut writer = self.repository.writer()?;
        let (hashed, reused) = self.read_stale(picture, &found, &mut writer)?;
        fresh.extend(hashed.read.iter().map(|(path, _)| path.clone()));
        let Absorbed { changed, dropped } = picture.absorb(found, hashed, whole);
        if let Some(watch) = self.journal_lock().watch.clone() {
            dropped.iter().for_each(|folder| watch.forget(folder));
        }
        let known = self.repository.known();
        let mut made = Vec::new();
        let tree = picture.build(&known, &mut made)?;
        let (coverage, about) = picture.cover(&forced);
        let about = match about {
            Some(about) => about,
            None => self.describe(&coverage, &known, &mut made)?,
        };
        let content = Content { tree, coverage, about, files: picture.files() };
        let seen = Seen { changed, reused, mode, journal, is_guard: false };
        let captured = self.record(&content, &made, seen, writer, group, now)?;
        picture.describe(about);
        Ok(captured)
    }

    /// Reads the files that nothing proves unchanged; says of how many the user's index did (R10).
    fn read_stale(
        &self,
        picture: &Picture,
        found: &Found,
        writer: &mut Writer,
    ) -> Result<(Hashed, usize), CaptureError> {
        let stale = found.stale();
        if stale.is_empty() {
            return Ok((Hashed::default(), 0));
        }
        let clock = self.clock()?;
        let (lent, stale) = match picture.files() == 0 || stale.len() >= MANY {
            true => self.borrow(&Ground::survey(picture, found), stale, clock)?,
            false => (Vec::new(), stale),
        };
        let reused = lent.len();
        let mut hashed = hash(&self.worktree, &self.repository, &stale, writer, clock)?;
        hashed.read.extend(lent);
        Ok((hashed, reused))
    }

    /// Captures `paths` and nothing else, whatever the rules say of them (R6).
    ///
    /// The cost follows the number of paths. With `keep`, the paths stay selected in every later
    /// capture of this store (R1).
    ///
    /// # Errors
    ///
    /// See [`CaptureError`].
    pub fn capture_named(
        &self,
        group: &Group,
        paths: &BTreeSet<RelPath>,
        keep: bool,
        now: Millis,
    ) -> Result<Captured, CaptureError> {
        self.merge_many()?;
        if keep {
            self.worktree.check()?;
            self.force(paths)?;
        }
        self.capture_paths(group, paths, false, now)
    }

    /// Captures what a restore will overwrite, past the budget (R14).
    pub(crate) fn capture_guard(
        &self,
        group: &Group,
        paths: &BTreeSet<RelPath>,
        now: Millis,
    ) -> Result<Captured, CaptureError> {
        self.capture_paths(group, paths, true, now)
    }

    fn capture_paths(
        &self,
        group: &Group,
        paths: &BTreeSet<RelPath>,
        is_guard: bool,
        now: Millis,
    ) -> Result<Captured, CaptureError> {
        let _held = self.hold_objects();
        self.worktree.check()?;
        let clock = self.clock()?;
        let mut named = self.look_at(paths);
        let mut writer = self.repository.writer()?;
        let hashed = hash(&self.worktree, &self.repository, &named.files, &mut writer, clock)?;
        let Hashed { read: files, skipped, absent: gone } = hashed;
        named.absent.extend(gone);
        named.skipped.extend(skipped);
        let coverage = Coverage {
            scope: Scope::Named,
            skipped: named.skipped.into_iter().collect(),
            absent: named.absent.into_iter().collect(),
            permissions: permissions(&files),
            ..Coverage::default()
        };
        self.write(&leaves(&files), coverage, is_guard, writer, group, now)
    }

    /// Looks at paths that are captured whatever the rules say.
    fn look_at(&self, paths: &BTreeSet<RelPath>) -> Named {
        let mut named = Named::default();
        for path in paths {
            let reason = match self.worktree.stat(path) {
                Ok(Some(stat)) => match stat.kind {
                    Kind::File | Kind::Link => {
                        named.files.push((path.clone(), stat));
                        continue;
                    }
                    // There is no file of this name; what is below has names of its own.
                    Kind::Directory => {
                        named.absent.insert(path.clone());
                        continue;
                    }
                    Kind::Special => Reason::Special,
                },
                Ok(None) => {
                    named.absent.insert(path.clone());
                    continue;
                }
                Err(error) => match rustix::io::Errno::from_io_error(&error) {
                    Some(rustix::io::Errno::LOOP) => Reason::BehindLink,
                    _ => Reason::Unreadable,
                },
            };
            named.skipped.insert(path.clone(), reason);
        }
        named.find_behind_links();
        named
    }

    /// The time of the file system, which is not quite the time of the clock.
    pub(crate) fn clock(&self) -> io::Result<i64> {
        let mut file = fs_err::File::create(self.folder.join("clock"))?;
        file.write_all(b".")?;
        Ok(Stat::of(file.file())?.mtime)
    }

    /// Selects paths for ever, durably.
    fn force(&self, paths: &BTreeSet<RelPath>) -> io::Result<()> {
        let mut memory = self.memory();
        if paths.is_subset(&memory.forced) {
            return Ok(());
        }
        let all: BTreeSet<RelPath> = memory.forced.union(paths).cloned().collect();
        let temp = self.folder.join("forced.tmp");
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(&serde_json::to_vec(&all)?)?;
        file.sync_all()?;
        fs_err::rename(&temp, self.folder.join("forced.json"))?;
        memory.forced = Arc::new(all);
        Ok(())
    }
}

/// What named paths are.
#[derive(Default)]
struct Named {
    files: Vec<(RelPath, Stat)>,
    skipped: BTreeMap<RelPath, Reason>,
    absent: BTreeSet<RelPath>,
}

impl Named {
    /// Below a link that is captured itself there is no file.
    fn find_behind_links(&mut self) {
        let Self { files, skipped, absent } = self;
        let links: BTreeSet<&RelPath> = files
            .iter()
            .filter_map(|(path, stat)| (stat.kind == Kind::Link).then_some(path))
            .collect();
        skipped.retain(|path, reason| {
            let is_absent = *reason == Reason::BehindLink
                && path.ancestors().any(|above| links.contains(&above));
            if is_absent {
                absent.insert(path.clone());
            }
            !is_absent
        });
    }
}

fn leaves(files: &[(RelPath, Cached)]) -> Vec<(RelPath, Leaf)> {
    files.iter().map(|(path, cached)| (path.clone(), cached.leaf)).collect()
}

fn permissions(files: &[(RelPath, Cached)]) -> Permissions {
    let regular = files.iter().filter(|(_, cached)| cached.stat.kind == Kind::File);
    Permissions::gather(regular.map(|(path, cached)| (path, cached.stat.perm)))
}
