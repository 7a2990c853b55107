//! Questions to `git` about the checked-out files, and commands that change them.

use super::error::GitError;
use super::parse::{self, GitStatusEntry};
use super::run::Git;

impl Git {
    /// Every path that differs from the last commit, untracked ones included, ignored ones not.
    ///
    /// Does not look inside submodules: their own settings would count there.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn status(&self) -> Result<Vec<GitStatusEntry>, GitError> {
        let answer = self.run(&[
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
        ])?;
        parse::parse_status(&answer)
    }

    /// The URL of a remote, or `None` if there is no such remote.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn find_remote(&self, name: &str) -> Result<Option<String>, GitError> {
        check_name(name)?;
        Ok(self.configuration()?.local_value(&format!("remote.{name}.url")))
    }

    /// Puts a worktree and its branch to a commit; every change in tracked files is gone then.
    ///
    /// # Errors
    ///
    /// When `git` refuses.
    pub fn reset_hard(&self, commit: &str) -> Result<(), GitError> {
        check_name(commit)?;
        self.run(&["reset", "--hard", "--quiet", commit, "--"]).map(drop)
    }

    /// Removes every untracked file, those in repositories below too; ignored files
    /// stay.
    ///
    /// # Errors
    ///
    /// When `git` refuses.
    pub fn remove_untracked(&self) -> Result<(), GitError> {
        self.run(&["clean", "-ffd", "--quiet"]).map(drop)
    }
}

/// Refuses what `git` would take for an option or for nothing.
pub(super) fn check_name(name: &str) -> Result<(), GitError> {
    let bad = name.is_empty() || name.starts_with('-') || name.contains(['\0', '\n']);
    if bad { Err(GitError::BadName { name: name.to_owned() }) } else { Ok(()) }
}
