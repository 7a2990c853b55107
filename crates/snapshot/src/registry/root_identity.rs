//! Facts about a root: what it is recognised by, and where the repository around a directory begins.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD};
use serde::{Deserialize, Serialize};
use turnstone_core::model::FileIdentity;

use super::path_serde;
use crate::user_git::UserRepository;
use crate::worktree::{Worktree, birth_time_of};

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
    /// When it was created, if the file system records it: inode numbers are reused.
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
        let FileIdentity { device: dev, inode: ino, born } = worktree.file_identity();
        let dir = worktree.open_dir(None).ok();
        let repo = dir.and_then(|dir| UserRepository::find(worktree, b"", &dir, b""));
        let real = |path: PathBuf| fs_err::canonicalize(&path).unwrap_or(path);
        let common_dir = repo.as_ref().and_then(|repo| repo.common_dir().ok()).map(real);
        let git_dir = repo.map(|repo| real(repo.git_dir().to_owned()));
        let path = worktree.path().to_owned();
        Self { born, path, dev, ino, git_dir, common_dir }
    }

    /// True if both describe the very same directory, wherever it is. Without a birth time the number of an
    /// inode proves nothing.
    pub(super) fn is_same_directory(&self, other: &Self) -> bool {
        self.born.is_some() && self.file_identity() == other.file_identity()
    }

    /// True if both are the same linked checkout: git itself keeps its name when it moves.
    pub(super) fn is_same_checkout(&self, other: &Self) -> bool {
        // A git directory inside its own checkout moves with it and proves nothing.
        let apart = |facts: &Self| {
            facts.git_dir.as_ref().is_some_and(|git_dir| !git_dir.starts_with(&facts.path))
        };
        apart(self)
            && apart(other)
            && self.git_dir == other.git_dir
            && self.common_dir == other.common_dir
    }

    /// True if both describe the same directory at the same path.
    pub(super) fn has_same_path_and_identity(&self, other: &Self) -> bool {
        self.path == other.path && self.file_identity().is_same_at_path(other.file_identity())
    }

    /// True if the directory is still where it was.
    pub(super) fn is_in_place(&self) -> bool {
        let found = read_directory_identity(&self.path);
        matches!(found, Ok(Some(found)) if self.file_identity().is_same_at_path(found))
    }

    /// What identifies the directory in its file system.
    #[must_use]
    pub fn file_identity(&self) -> FileIdentity {
        FileIdentity { device: self.dev, inode: self.ino, born: self.born }
    }
}

/// Reads what identifies a directory wherever it is moved; `None` if there is no directory at `path`.
///
/// # Errors
///
/// The path cannot be examined: the directory may be there.
pub fn read_directory_identity(path: &Path) -> io::Result<Option<FileIdentity>> {
    let stat = match rustix::fs::stat(path) {
        Ok(stat) => stat,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let is_dir = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    let (device, inode) = (stat.st_dev, stat.st_ino);
    Ok(is_dir.then(|| FileIdentity {
        device,
        inode,
        born: birth_time_of(CWD, path, AtFlags::empty()),
    }))
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
