//! Captures: the worktree, or some paths of it, as a tree that is durable when its id is returned.
//!
//! Decides what is read; how it is written down is the chain's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::{Arc, PoisonError};

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::time::Millis;

use crate::cache::{Cache, Cached};
use crate::coverage::{Coverage, Permissions, Reason, Scope};
use crate::group::Group;
use crate::hash::{Hashed, hash};
use crate::object::{Leaf, ObjectError, Oid};
use crate::path::RelPath;
use crate::shadow::Shadow;
use crate::walk::{Found, walk};
use crate::worktree::{Kind, RootError, Stat};

/// Why nothing was captured. No id exists, and every capture before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The worktree is not the one that was opened.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The store could not be read or written.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The root could not be listed, or the store not be written.
    #[error("the worktree could not be captured")]
    Io(#[from] io::Error),
}

/// How the changed files were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every file was looked at.
    Walk,
    /// Only the named paths were looked at.
    Named,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
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
    /// How they were found.
    pub mode: Mode,
    /// False if it equals the group's last capture, which was returned; then nothing was written.
    pub is_new: bool,
}

/// What a capture saw besides files, before it is written down.
pub(crate) struct Sketch {
    pub(crate) coverage: Coverage,
    pub(crate) changed: usize,
    pub(crate) mode: Mode,
}

impl Shadow {
    /// Captures the whole worktree and pins it in `group`.
    ///
    /// # Errors
    ///
    /// See [`CaptureError`]. A path that cannot be captured is no error: it is in the coverage.
    pub fn capture(&self, group: &Group, now: Millis) -> Result<Captured, CaptureError> {
        self.merge_many()?;
        let running = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let held = self.hold_objects();
        self.worktree.check()?;
        let clock = self.clock()?;
        let (cache, forced) = {
            let memory = self.memory();
            (memory.cache.clone(), memory.forced.clone())
        };
        let mut found = walk(&self.worktree, &self.selection)?;
        let mut absent = self.add_forced(&forced, &mut found);
        fail_point!("snapshot::walked", |_| Err(io::Error::other("failpoint").into()));
        let (mut files, stale) = sort_out(std::mem::take(&mut found.files), &cache);
        let mut writer = self.repository.writer()?;
        let hashed = hash(&self.worktree, &self.repository, &stale, &mut writer, clock)?;
        let changed = count_changes(&cache, files.len(), &hashed);
        let Hashed { read, skipped, absent: gone } = hashed;
        absent.extend(gone.into_iter().filter(|path| forced.contains(path)));
        let is_same = read.is_empty() && files.len() == cache.files.len();
        files.extend(read);
        files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        found.skipped.extend(skipped);
        let coverage = Coverage {
            scope: Scope::Whole,
            skipped: found.skipped.into_iter().collect(),
            absent: absent.into_iter().collect(),
            nested: found.nested,
            reserved: found.reserved,
            permissions: permissions(&files),
        };
        let seen = Sketch { coverage, changed, mode: Mode::Walk };
        let captured = self.write(&leaves(&files), &seen, writer, group, now)?;
        if !is_same {
            self.remember(files)?;
        }
        drop((held, running));
        Ok(captured)
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
        let _held = self.hold_objects();
        self.worktree.check()?;
        let clock = self.clock()?;
        if keep {
            self.force(paths)?;
        }
        let mut found = Found::default();
        let mut absent = self.add_forced(paths, &mut found);
        let mut writer = self.repository.writer()?;
        let hashed = hash(&self.worktree, &self.repository, &found.files, &mut writer, clock)?;
        let Hashed { read: files, skipped, absent: gone } = hashed;
        absent.extend(gone);
        found.skipped.extend(skipped);
        let coverage = Coverage {
            scope: Scope::Named,
            skipped: found.skipped.into_iter().collect(),
            absent: absent.into_iter().collect(),
            permissions: permissions(&files),
            ..Coverage::default()
        };
        let changed = files.len();
        let seen = Sketch { coverage, changed, mode: Mode::Named };
        self.write(&leaves(&files), &seen, writer, group, now)
    }

    /// Looks at paths that are captured whatever the rules say; returns those that are not there.
    fn add_forced(&self, paths: &BTreeSet<RelPath>, found: &mut Found) -> BTreeSet<RelPath> {
        let mut absent = BTreeSet::new();
        let known: BTreeSet<&RelPath> = match paths.is_empty() {
            true => BTreeSet::new(),
            false => found.files.iter().map(|(path, _)| path).collect(),
        };
        let missing: Vec<&RelPath> = paths.iter().filter(|path| !known.contains(path)).collect();
        let looked: Vec<(RelPath, io::Result<Option<Stat>>)> =
            missing.into_iter().map(|path| (path.clone(), self.worktree.stat(path))).collect();
        for (path, stat) in looked {
            let reason = match stat {
                Ok(Some(stat)) => match stat.kind {
                    Kind::File | Kind::Link => {
                        found.skipped.remove(&path);
                        found.files.push((path, stat));
                        continue;
                    }
                    // There is no file of this name; what is below has names of its own.
                    Kind::Directory => {
                        absent.insert(path);
                        continue;
                    }
                    Kind::Special => Reason::Special,
                },
                Ok(None) => {
                    absent.insert(path);
                    continue;
                }
                Err(error) => match rustix::io::Errno::from_io_error(&error) {
                    Some(rustix::io::Errno::LOOP) => Reason::BehindLink,
                    _ => Reason::Unreadable,
                },
            };
            found.skipped.insert(path, reason);
        }
        found.files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        absent
    }

    /// The time of the file system, which is not quite the time of the clock.
    fn clock(&self) -> io::Result<i64> {
        let mut file = fs_err::File::create(self.folder.join("clock"))?;
        file.write_all(b".")?;
        Ok(Stat::of(file.file())?.mtime)
    }

    fn remember(&self, files: Vec<(RelPath, Cached)>) -> io::Result<()> {
        let files: HashMap<RelPath, Cached> = files.into_iter().collect();
        let cache = Arc::new(Cache { files });
        cache.save(&self.folder.join("stat-cache"))?;
        self.memory().cache = cache;
        Ok(())
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

/// Parts the files the cache vouches for from those that must be read.
#[expect(clippy::type_complexity, reason = "two lists of pairs, taken apart at once")]
fn sort_out(
    found: Vec<(RelPath, Stat)>,
    cache: &Cache,
) -> (Vec<(RelPath, Cached)>, Vec<(RelPath, Stat)>) {
    let (mut proven, mut stale) = (Vec::with_capacity(found.len()), Vec::new());
    for (path, stat) in found {
        match cache.files.get(&path).filter(|cached| cached.proves(&stat)) {
            Some(cached) => proven.push((path, *cached)),
            None => stale.push((path, stat)),
        }
    }
    (proven, stale)
}

fn count_changes(cache: &Cache, unchanged: usize, hashed: &Hashed) -> usize {
    let before: BTreeMap<&RelPath, Option<&Cached>> =
        hashed.read.iter().map(|(path, _)| (path, cache.files.get(path))).collect();
    let equal = hashed.read.iter().filter(|(path, now)| {
        before.get(path).copied().flatten().is_some_and(|before| before.leaf == now.leaf)
    });
    let equal = equal.count();
    let known = before.values().flatten().count();
    let removed = cache.files.len().saturating_sub(unchanged + known);
    hashed.read.len() - equal + removed
}

fn leaves(files: &[(RelPath, Cached)]) -> Vec<(RelPath, Leaf)> {
    files.iter().map(|(path, cached)| (path.clone(), cached.leaf)).collect()
}

fn permissions(files: &[(RelPath, Cached)]) -> Permissions {
    let regular = files.iter().filter(|(_, cached)| cached.stat.kind == Kind::File);
    Permissions::gather(regular.map(|(path, cached)| (path, cached.stat.perm)))
}
