//! A repository whose files lie in the worktree.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::index::{Damaged, Index, parse};
use super::{Config, file};
use crate::ignore::Rules;
use crate::worktree::{Dir, Kind, Stat, Worktree};

/// Whether the user's index lists a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracked {
    /// It does: then no rule hides it.
    Yes,
    /// It does not.
    No,
    /// The index cannot be read, which is not a no.
    Unknown,
}

/// What changed in a repository in a way that may select or hide files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Nothing.
    Nothing,
    /// These paths, from the root of the worktree, are tracked now or are not any more.
    Tracked(Vec<Vec<u8>>),
    /// Its excludes, or whether its index can be read.
    Excludes,
}

/// A repository whose files lie in the worktree.
#[derive(Debug)]
pub(crate) struct Repo {
    /// Its own directory; for a linked worktree not the one that is shared.
    git_dir: PathBuf,
    /// What leads from the root of the worktree to its files: nothing, or a path and a slash.
    lead: Vec<u8>,
    /// The patterns of `info/exclude`, which linked worktrees share.
    excludes: Vec<u8>,
    /// What applies at its root before any `.gitignore`.
    rules: Rules,
    known: Mutex<Known>,
}

/// The user's index: empty if there is none, nothing if it cannot be read.
type Answer = Option<Arc<Index>>;

/// What is known of the user's index.
#[derive(Debug, Default)]
struct Known {
    /// The index file when it was last looked at.
    stamp: Option<Stat>,
    /// Read when the first question comes, which is when the first hidden path is met.
    index: Option<Answer>,
}

impl Repo {
    /// Finds the repository whose files begin in `folder`, which is open and holds a `.git`.
    ///
    /// `user` are the patterns of the user's own excludes file.
    pub(crate) fn find(worktree: &Worktree, folder: &[u8], dir: &Dir, user: &[u8]) -> Option<Self> {
        let at = worktree.path().join(OsStr::from_bytes(folder));
        let git_dir = match dir.stat(b".git").ok()??.kind {
            Kind::Directory => at.join(".git"),
            Kind::File => {
                let mut text = Vec::new();
                dir.open_file(b".git").ok()?.0.take(4096).read_to_end(&mut text).ok()?;
                at.join(path_of(text.strip_prefix(b"gitdir: ")?))
            }
            Kind::Link | Kind::Special => return None,
        };
        let lead = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
        let excludes = read_excludes(&git_dir);
        let rules = Rules::default().with(user, folder).with(&excludes, folder);
        let known = Known { stamp: stamp(&git_dir.join("index")), index: None };
        Some(Self { git_dir, lead, excludes, rules, known: Mutex::new(known) })
    }

    /// Tells whether both are the same repository with the same excludes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.git_dir, &self.lead, &self.excludes)
            == (&other.git_dir, &other.lead, &other.excludes)
    }

    /// What applies at its root before any `.gitignore`.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Tells whether [`Self::refresh`] would find something.
    pub(crate) fn is_moved(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.stamp != stamp(&self.git_dir.join("index"))
            || read_excludes(&self.git_dir) != self.excludes
    }

    /// Looks whether the repository selects other files than when it was last asked.
    pub(crate) fn refresh(&self) -> Moved {
        if read_excludes(&self.git_dir) != self.excludes {
            return Moved::Excludes;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.git_dir.join("index"));
        if now == known.stamp {
            return Moved::Nothing;
        }
        known.stamp = now;
        let Some(before) = known.index.take() else {
            return Moved::Nothing;
        };
        let after: Answer = self.read_index().ok().map(Arc::new);
        known.index = Some(after.clone());
        drop(known);
        let moved = match (before, after) {
            (Some(before), Some(after)) => before.differing(&after),
            (None, None) => return Moved::Nothing,
            (Some(_), None) | (None, Some(_)) => return Moved::Excludes,
        };
        let moved: Vec<_> =
            moved.into_iter().map(|path| [&self.lead[..], &path].concat()).collect();
        if moved.is_empty() { Moved::Nothing } else { Moved::Tracked(moved) }
    }

    /// What leads from the root of the worktree to its files: nothing, or a path and a slash.
    pub(crate) fn lead(&self) -> &[u8] {
        &self.lead
    }

    /// Its own directory.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The directory linked worktrees share: objects, configuration, excludes.
    pub(crate) fn common_dir(&self) -> io::Result<PathBuf> {
        common_dir(&self.git_dir)
    }

    /// The attributes of `info/attributes`.
    pub(crate) fn attributes(&self) -> io::Result<Vec<u8>> {
        file::read_or_empty(&self.common_dir()?.join("info/attributes"))
    }

    /// The configuration of the repository and of this worktree of it.
    pub(crate) fn config(&self) -> io::Result<Config> {
        let shared = Config::parse(&file::read_or_empty(&self.common_dir()?.join("config"))?)?;
        if !shared.per_worktree {
            return Ok(shared);
        }
        let own = file::read_or_empty(&self.git_dir.join("config.worktree"))?;
        Ok(shared.and(Config::parse(&own)?))
    }

    /// Tells whether the user's index holds this file: then no rule hides it.
    pub(crate) fn tracks(&self, path: &[u8]) -> Tracked {
        self.ask(path, Index::holds)
    }

    /// Tells whether the user's index holds a file below this directory.
    pub(crate) fn tracks_below(&self, path: &[u8]) -> Tracked {
        self.ask(path, Index::holds_below)
    }

    fn ask(&self, path: &[u8], question: impl Fn(&Index, &[u8]) -> bool) -> Tracked {
        let path = path.get(self.lead.len()..).unwrap_or_default();
        match self.index().map(|index| question(&index, path)) {
            Some(true) => Tracked::Yes,
            Some(false) => Tracked::No,
            None => Tracked::Unknown,
        }
    }

    /// The user's index: empty if there is none, nothing if it cannot be read.
    pub(crate) fn index(&self) -> Answer {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.index.get_or_insert_with(|| self.read_index().ok().map(Arc::new)).clone()
    }

    fn read_index(&self) -> io::Result<Index> {
        let width = self.config()?.id_bytes;
        let Some((index, link)) = read_half(&self.git_dir.join("index"), width)? else {
            return Ok(Index::default());
        };
        let Some(link) = link else {
            return Ok(index);
        };
        let name = format!("sharedindex.{}", link.base);
        let base = read_half(&self.git_dir.join(name), width)?;
        let (base, _) = base.ok_or_else(|| damaged(Damaged("its shared half is missing")))?;
        link.join(&base, &index).map_err(damaged)
    }
}

type Half = (Index, Option<super::split::Link>);

fn read_half(path: &Path, width: usize) -> io::Result<Option<Half>> {
    let Some((bytes, stat)) = file::read(path, file::INDEX_BYTES)? else {
        return Ok(None);
    };
    let (mut index, link) = parse(&bytes, width).map_err(damaged)?;
    index.time = stat.mtime;
    Ok(Some((index, link)))
}

fn common_dir(git_dir: &Path) -> io::Result<PathBuf> {
    Ok(match file::read_text(&git_dir.join("commondir"))? {
        Some(text) => git_dir.join(path_of(&text)),
        None => git_dir.to_owned(),
    })
}

fn read_excludes(git_dir: &Path) -> Vec<u8> {
    let read = |common: PathBuf| file::read_or_empty(&common.join("info/exclude"));
    common_dir(git_dir).and_then(read).unwrap_or_default()
}

fn stamp(path: &Path) -> Option<Stat> {
    rustix::fs::stat(path).ok().map(|stat| Stat::from(&stat))
}

fn damaged(error: Damaged) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii_end()))
}
