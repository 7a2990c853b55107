//! A repository whose files lie in the worktree.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::git_index::{GitIndex, GitIndexError, parse_index};
use super::{GitConfig, object_folders, repository_file};
use crate::ignore_rules::IgnoreRules;
use crate::worktree::{FileKind, FileStat, Worktree, WorktreeDir};

/// Whether the user's index lists a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrackedStatus {
    /// It does: then no rule hides it.
    Yes,
    /// It does not.
    No,
    /// The index cannot be read, which is not a no.
    Unknown,
}

/// What changed in a repository in a way that may select or hide files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RepositoryChange {
    /// Nothing.
    Nothing,
    /// These paths, from the root of the worktree, are tracked now or are not any more.
    TrackedPaths(Vec<Vec<u8>>),
    /// Its excludes, or whether its index can be read.
    Excludes,
}

/// A repository whose files lie in the worktree.
#[derive(Debug)]
pub(crate) struct UserRepository {
    /// Its own directory; for a linked worktree not the one that is shared.
    git_dir: PathBuf,
    /// What leads from the root of the worktree to its files: nothing, or a path and a slash.
    prefix: Vec<u8>,
    /// The patterns of `info/exclude`, which linked worktrees share.
    excludes: Vec<u8>,
    /// What applies at its root before any `.gitignore`.
    rules: IgnoreRules,
    cached_index: Mutex<CachedIndex>,
}

/// The user's index: empty if there is none, nothing if it cannot be read.
type LoadedIndex = Option<Arc<GitIndex>>;

/// What is known of the user's index.
#[derive(Debug, Default)]
struct CachedIndex {
    /// The index file when it was last looked at.
    stamp: Option<FileStat>,
    /// Read when the first question comes, which is when the first hidden path is met.
    index: Option<LoadedIndex>,
}

impl UserRepository {
    /// Finds the repository whose files begin in `folder`, which is open and holds a `.git`.
    ///
    /// `user` are the patterns of the user's own excludes file.
    pub(crate) fn find(
        worktree: &Worktree,
        folder: &[u8],
        dir: &WorktreeDir,
        user: &[u8],
    ) -> Option<Self> {
        let at = worktree.path().join(OsStr::from_bytes(folder));
        let git_dir = match dir.stat(b".git").ok()??.kind {
            FileKind::Directory => at.join(".git"),
            FileKind::File => {
                let mut text = Vec::new();
                dir.open_file(b".git").ok()?.0.take(4096).read_to_end(&mut text).ok()?;
                at.join(path_of(text.strip_prefix(b"gitdir: ")?))
            }
            FileKind::Link | FileKind::Special => return None,
        };
        let lead = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
        let excludes = read_excludes(&git_dir);
        let rules =
            IgnoreRules::default().with_patterns(user, folder).with_patterns(&excludes, folder);
        let known = CachedIndex { stamp: index_stat(&git_dir.join("index")), index: None };
        Some(Self { git_dir, prefix: lead, excludes, rules, cached_index: Mutex::new(known) })
    }

    /// True if both are the same repository with the same excludes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.git_dir, &self.prefix, &self.excludes)
            == (&other.git_dir, &other.prefix, &other.excludes)
    }

    /// What applies at its root before any `.gitignore`.
    pub(crate) fn rules(&self) -> &IgnoreRules {
        &self.rules
    }

    /// True if [`Self::detect_changes`] would find something.
    pub(crate) fn has_changed(&self) -> bool {
        let known = self.cached_index.lock().unwrap_or_else(PoisonError::into_inner);
        known.stamp != index_stat(&self.git_dir.join("index"))
            || read_excludes(&self.git_dir) != self.excludes
    }

    /// Checks whether the repository selects other files than at the last call.
    pub(crate) fn detect_changes(&self) -> RepositoryChange {
        if read_excludes(&self.git_dir) != self.excludes {
            return RepositoryChange::Excludes;
        }
        let mut known = self.cached_index.lock().unwrap_or_else(PoisonError::into_inner);
        let now = index_stat(&self.git_dir.join("index"));
        if now == known.stamp {
            return RepositoryChange::Nothing;
        }
        known.stamp = now;
        let Some(before) = known.index.take() else {
            return RepositoryChange::Nothing;
        };
        let after: LoadedIndex = self.read_index().ok().map(Arc::new);
        known.index = Some(after.clone());
        drop(known);
        let moved = match (before, after) {
            (Some(before), Some(after)) => before.differing_paths(&after),
            (None, None) => return RepositoryChange::Nothing,
            (Some(_), None) | (None, Some(_)) => return RepositoryChange::Excludes,
        };
        let moved: Vec<_> =
            moved.into_iter().map(|path| [&self.prefix[..], &path].concat()).collect();
        if moved.is_empty() {
            RepositoryChange::Nothing
        } else {
            RepositoryChange::TrackedPaths(moved)
        }
    }

    /// What leads from the root of the worktree to its files: nothing, or a path and a slash.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Its own directory.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The directory linked worktrees share: objects, configuration, excludes.
    pub(crate) fn common_dir(&self) -> io::Result<PathBuf> {
        common_dir(&self.git_dir)
    }

    /// The folders with its objects: its own, and its alternates.
    pub(crate) fn object_folders(&self) -> io::Result<Vec<PathBuf>> {
        Ok(object_folders::list_object_folders(&self.common_dir()?))
    }

    /// The attributes of `info/attributes`.
    pub(crate) fn attributes(&self) -> io::Result<Vec<u8>> {
        repository_file::read_or_empty(&self.common_dir()?.join("info/attributes"))
    }

    /// The configuration of the repository and of this worktree of it.
    pub(crate) fn config(&self) -> io::Result<GitConfig> {
        let shared =
            GitConfig::parse(&repository_file::read_or_empty(&self.common_dir()?.join("config"))?)?;
        if !shared.per_worktree {
            return Ok(shared);
        }
        let own = repository_file::read_or_empty(&self.git_dir.join("config.worktree"))?;
        Ok(shared.merge(GitConfig::parse(&own)?))
    }

    /// True if the user's index holds this file: then no rule hides it.
    pub(crate) fn tracks(&self, path: &[u8]) -> TrackedStatus {
        self.query_index(path, GitIndex::contains)
    }

    /// True if the user's index holds a file below this directory.
    pub(crate) fn tracks_below(&self, path: &[u8]) -> TrackedStatus {
        self.query_index(path, GitIndex::contains_below)
    }

    fn query_index(
        &self,
        path: &[u8],
        question: impl Fn(&GitIndex, &[u8]) -> bool,
    ) -> TrackedStatus {
        let path = path.get(self.prefix.len()..).unwrap_or_default();
        match self.index().map(|index| question(&index, path)) {
            Some(true) => TrackedStatus::Yes,
            Some(false) => TrackedStatus::No,
            None => TrackedStatus::Unknown,
        }
    }

    /// The user's index: empty if there is none, nothing if it cannot be read.
    pub(crate) fn index(&self) -> LoadedIndex {
        let mut known = self.cached_index.lock().unwrap_or_else(PoisonError::into_inner);
        known.index.get_or_insert_with(|| self.read_index().ok().map(Arc::new)).clone()
    }

    fn read_index(&self) -> io::Result<GitIndex> {
        let width = self.config()?.id_bytes;
        let Some((index, link)) = read_index_file(&self.git_dir.join("index"), width)? else {
            return Ok(GitIndex::default());
        };
        let Some(link) = link else {
            return Ok(index);
        };
        let name = format!("sharedindex.{}", link.base);
        let base = read_index_file(&self.git_dir.join(name), width)?;
        let (base, _) =
            base.ok_or_else(|| invalid_data(GitIndexError("its shared half is missing")))?;
        link.join_halves(&base, &index).map_err(invalid_data)
    }
}

type IndexHalf = (GitIndex, Option<super::split_index::SplitIndexLink>);

fn read_index_file(path: &Path, width: usize) -> io::Result<Option<IndexHalf>> {
    let Some((bytes, stat)) = repository_file::read_bounded(path, repository_file::INDEX_BYTES)?
    else {
        return Ok(None);
    };
    let (mut index, link) = parse_index(&bytes, width).map_err(invalid_data)?;
    index.time = stat.mtime;
    Ok(Some((index, link)))
}

fn common_dir(git_dir: &Path) -> io::Result<PathBuf> {
    Ok(match repository_file::read_text(&git_dir.join("commondir"))? {
        Some(text) => git_dir.join(path_of(&text)),
        None => git_dir.to_owned(),
    })
}

fn read_excludes(git_dir: &Path) -> Vec<u8> {
    let read = |common: PathBuf| repository_file::read_or_empty(&common.join("info/exclude"));
    common_dir(git_dir).and_then(read).unwrap_or_default()
}

fn index_stat(path: &Path) -> Option<FileStat> {
    rustix::fs::stat(path).ok().map(|stat| FileStat::from(&stat))
}

fn invalid_data(error: GitIndexError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii_end()))
}
