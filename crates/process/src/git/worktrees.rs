//! The worktrees of a repository.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::error::GitError;
use super::operation::check_name;
use super::parse::{self, GitWorktreeRow};
use super::run::Git;

/// A worktree to be made.
#[derive(Clone, Copy, Debug)]
pub struct GitWorktreeRequest<'a> {
    /// Where; the folder must not exist, or be empty.
    pub path: &'a Path,
    /// The branch made for it; without one it has a commit and no branch.
    pub branch: Option<&'a str>,
    /// The commit it begins with.
    pub from: &'a str,
}

/// The worktrees of one repository: listed, added and removed.
#[derive(Clone, Copy, Debug)]
pub struct GitWorktrees<'g> {
    pub(super) git: &'g Git,
}

impl GitWorktrees<'_> {
    /// Every worktree of the repository, the main one first.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn list(&self) -> Result<Vec<GitWorktreeRow>, GitError> {
        parse::parse_worktrees(&self.git.run_with_configuration(&[
            "worktree",
            "list",
            "--porcelain",
            "-z",
        ])?)
    }

    /// Creates a worktree with the files of a commit, as they are stored: no filter converts them.
    ///
    /// # Errors
    ///
    /// [`GitError::Failed`] if the branch or the folder exists, or the commit does not;
    /// [`GitError::ConditionalInclude`]. If the files cannot be written, worktree and branch are removed.
    pub fn add(&self, new: GitWorktreeRequest<'_>) -> Result<(), GitError> {
        check_name(new.from)?;
        if let Some(key) = self.git.configuration()?.find_local_include_condition() {
            return Err(GitError::ConditionalInclude { key });
        }
        let mut args: Vec<&OsStr> =
            ["worktree", "add", "--quiet", "--no-checkout"].map(OsStr::new).to_vec();
        match new.branch {
            Some(branch) => {
                check_name(branch)?;
                args.extend(["--no-track", "-b", branch].map(OsStr::new));
            }
            None => args.push(OsStr::new("--detach")),
        }
        let path = checked_path(new.path)?;
        args.extend([OsStr::new("--"), &path, OsStr::new(new.from)]);
        self.git.run_with_configuration(&args)?;
        let filled =
            self.git.in_linked_worktree(new.path).and_then(|inside| inside.reset_hard("HEAD"));
        if filled.is_err() {
            self.discard(new);
        }
        filled
    }

    /// Removes what is left of a worktree that could not be filled; the first error is reported.
    fn discard(&self, new: GitWorktreeRequest<'_>) {
        let commit = new
            .branch
            .map(|branch| self.git.history().find_commit(&format!("refs/heads/{branch}")));
        self.remove(new.path).ok();
        if let (Some(branch), Some(Ok(Some(commit)))) = (new.branch, commit) {
            self.git.history().delete_branch(branch, &commit).ok();
        }
    }

    /// Removes a worktree with whatever it holds: its folder and its administration, never its branch.
    ///
    /// Git is not asked whether it holds changes: for that it would read the files with the
    /// repository's filters. [`Git::status`] tells it.
    ///
    /// # Errors
    ///
    /// [`GitError::Failed`] if it is locked.
    pub fn remove(&self, path: &Path) -> Result<(), GitError> {
        let path = checked_path(path)?;
        let mut args: Vec<&OsStr> =
            ["worktree", "remove", "--force", "--"].map(OsStr::new).to_vec();
        args.push(&path);
        self.git.run_with_configuration(&args).map(drop)
    }

    /// Forgets worktrees whose folders are gone.
    ///
    /// # Errors
    ///
    /// When `git` refuses.
    pub fn prune(&self) -> Result<(), GitError> {
        self.git.run_with_configuration(&["worktree", "prune", "--expire", "now"]).map(drop)
    }
}

fn checked_path(path: &Path) -> Result<OsString, GitError> {
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() || bytes.contains(&0) {
        return Err(GitError::BadName { name: path.display().to_string() });
    }
    Ok(path.as_os_str().to_owned())
}
