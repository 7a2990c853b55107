//! Facts about a root: what it is recognised by, and where the repository around a directory begins.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use serde::{Deserialize, Serialize};

use super::path_serde;
use crate::user_git::UserRepository;
use crate::worktree::Worktree;

/// What the root of a worktree is recognised by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootIdentity {
    /// Its real path.
    #[serde(with = "path_serde")]
    pub path: PathBuf,
    /// The device it is on.
    pub dev: u64,
    /// Its inode.
    pub ino: u64,
    /// When it was made, where the file system says so: the number of an inode is used again.
    #[serde(default)]
    pub born: Option<i64>,
    /// The repository's own directory, if the root is a checkout.
    #[serde(default, with = "path_serde::optional")]
    pub git_dir: Option<PathBuf>,
    /// The directory it shares with other checkouts of the same repository.
    #[serde(default, with = "path_serde::optional")]
    pub common_dir: Option<PathBuf>,
}

impl RootIdentity {
    /// Gathers the facts about an open root.
    pub(super) fn read_from(worktree: &Worktree) -> Self {
        let (dev, ino) = worktree.identity();
        let dir = worktree.open_dir(None).ok();
        let repo = dir.and_then(|dir| UserRepository::find(worktree, b"", &dir, b""));
        let real = |path: PathBuf| fs_err::canonicalize(&path).unwrap_or(path);
        let common_dir = repo.as_ref().and_then(|repo| repo.common_dir().ok()).map(real);
        let git_dir = repo.map(|repo| real(repo.git_dir().to_owned()));
        let path = worktree.path().to_owned();
        Self { born: birth_time(&path), path, dev, ino, git_dir, common_dir }
    }

    /// True if both describe the very same directory, wherever it is.
    pub(super) fn is_same_directory(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.born) == (other.dev, other.ino, other.born)
    }

    /// True if both are the same linked checkout: git itself keeps its name when it moves.
    pub(super) fn is_same_checkout(&self, other: &Self) -> bool {
        // A git directory inside its own checkout moves with it and says nothing.
        let apart = |facts: &Self| {
            facts.git_dir.as_ref().is_some_and(|git_dir| !git_dir.starts_with(&facts.path))
        };
        apart(self)
            && apart(other)
            && self.git_dir == other.git_dir
            && self.common_dir == other.common_dir
    }

    /// True if the directory is still where it was.
    pub(super) fn is_in_place(&self) -> bool {
        let Ok(stat) = rustix::fs::stat(&self.path) else {
            return false;
        };
        let born = birth_time(&self.path);
        (stat.st_dev, stat.st_ino) == (self.dev, self.ino) && born == self.born
    }
}

fn birth_time(path: &Path) -> Option<i64> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::BTIME).ok()?;
    let is_known = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let (seconds, nanos) = (stat.stx_btime.tv_sec, i64::from(stat.stx_btime.tv_nsec));
    is_known.then(|| seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Finds where the checkout around a real path begins; `None` if it is in none.
pub(super) fn enclosing_checkout(path: &Path) -> Option<&Path> {
    path.ancestors().find(|above| is_checkout_root(above))
}

fn is_checkout_root(folder: &Path) -> bool {
    let git = folder.join(".git");
    match fs_err::symlink_metadata(&git) {
        Ok(meta) if meta.is_dir() => git.join("HEAD").exists(),
        Ok(meta) => meta.is_file(),
        Err(_) => false,
    }
}
