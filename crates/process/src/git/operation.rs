//! What is asked of `git`, one method per question.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::error::GitError;
use super::parse::{self, GitStatusEntry, GitWorktreeRow};
use super::run::Git;
use crate::exit::CommandExit;

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

impl Git {
    /// The commit a revision names, or nothing if there is none of that name.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell: no repository, a damaged one, or a bad name.
    pub fn find_commit(&self, revision: &str) -> Result<Option<String>, GitError> {
        check_name(revision)?;
        let name = format!("{revision}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        let answer = self.run_isolated(&args)?;
        match answer.exit {
            CommandExit::Code(0) => parse::parse_line("rev-parse", &answer.stdout).map(Some),
            CommandExit::Code(1) if answer.stderr.is_empty() => {
                self.check_unnamed(revision).map(|()| None)
            }
            CommandExit::Code(_) | CommandExit::Signal(_) => Err(answer.into_error(&args)),
        }
    }

    /// Makes sure that a name without a commit names nothing at all: git says the same of a commit that
    /// is missing in a damaged repository.
    fn check_unnamed(&self, revision: &str) -> Result<(), GitError> {
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", revision];
        let mut answer = self.run_isolated(&args)?;
        match answer.exit {
            CommandExit::Code(1) if answer.stderr.is_empty() => return Ok(()),
            CommandExit::Code(0) => {
                let id = parse::parse_line("rev-parse", &answer.stdout)?;
                answer.stderr = format!("{revision} is {id}, which is no commit here").into_bytes();
            }
            CommandExit::Code(_) | CommandExit::Signal(_) => {}
        }
        Err(answer.into_error(&args))
    }

    /// The branch that is checked out, as `refs/heads/main`, or nothing.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn find_head_branch(&self) -> Result<Option<String>, GitError> {
        let args = ["symbolic-ref", "--quiet", "HEAD"];
        let answer = self.run_isolated(&args)?;
        match answer.exit {
            CommandExit::Code(0) => parse::parse_line("symbolic-ref", &answer.stdout).map(Some),
            CommandExit::Code(1) if answer.stderr.is_empty() => Ok(None),
            CommandExit::Code(_) | CommandExit::Signal(_) => Err(answer.into_error(&args)),
        }
    }

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

    /// Every worktree of the repository, the main one first.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn list_worktrees(&self) -> Result<Vec<GitWorktreeRow>, GitError> {
        parse::parse_worktrees(&self.run_with_configuration(&[
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
    pub fn add_worktree(&self, new: GitWorktreeRequest<'_>) -> Result<(), GitError> {
        check_name(new.from)?;
        if let Some(key) = self.configuration()?.find_local_include_condition() {
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
        self.run_with_configuration(&args)?;
        let filled = self.in_linked_worktree(new.path).and_then(|inside| inside.reset_hard("HEAD"));
        if filled.is_err() {
            self.discard_worktree(new);
        }
        filled
    }

    /// Removes what is left of a worktree that could not be filled; the first error is reported.
    fn discard_worktree(&self, new: GitWorktreeRequest<'_>) {
        let commit = new.branch.map(|branch| self.find_commit(&format!("refs/heads/{branch}")));
        self.remove_worktree(new.path).ok();
        if let (Some(branch), Some(Ok(Some(commit)))) = (new.branch, commit) {
            self.delete_branch(branch, &commit).ok();
        }
    }

    /// Removes a worktree with whatever it holds: its folder and its administration, never its branch.
    ///
    /// Git is not asked whether it holds changes: for that it would read the files with the
    /// repository's filters. [`Self::status`] tells it.
    ///
    /// # Errors
    ///
    /// [`GitError::Failed`] if it is locked.
    pub fn remove_worktree(&self, path: &Path) -> Result<(), GitError> {
        let path = checked_path(path)?;
        let mut args: Vec<&OsStr> =
            ["worktree", "remove", "--force", "--"].map(OsStr::new).to_vec();
        args.push(&path);
        self.run_with_configuration(&args).map(drop)
    }

    /// Forgets worktrees whose folders are gone.
    ///
    /// # Errors
    ///
    /// When `git` refuses.
    pub fn prune_worktrees(&self) -> Result<(), GitError> {
        self.run_with_configuration(&["worktree", "prune", "--expire", "now"]).map(drop)
    }

    /// The local branches by their full names.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn list_branches(&self) -> Result<Vec<String>, GitError> {
        let answer = self.run(&["for-each-ref", "--format=%(refname)", "refs/heads"])?;
        parse::parse_lines("for-each-ref", &answer)
    }

    /// Deletes a branch that is nowhere checked out and still names this commit.
    ///
    /// # Errors
    ///
    /// [`GitError::Failed`] if it has moved, or a worktree uses it.
    pub fn delete_branch(&self, branch: &str, commit: &str) -> Result<(), GitError> {
        check_name(branch)?;
        check_name(commit)?;
        let name = format!("refs/heads/{branch}");
        let used = self.list_worktrees()?;
        if used.iter().any(|row| row.branch == parse::WorktreeCheckout::Named(name.clone())) {
            let stderr = format!("{branch} is checked out in a worktree");
            let command = "update-ref".to_owned();
            return Err(GitError::Failed { command, exit: CommandExit::Code(1), stderr });
        }
        self.run(&["update-ref", "-d", &name, commit]).map(drop)
    }

    /// The commits that can be reached from `tip` and from no other branch, tag or remote.
    ///
    /// At most `limit` of them, the newest first: work that goes with the last name it has.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn list_commits_only_on(
        &self,
        branch: &str,
        limit: usize,
    ) -> Result<Vec<String>, GitError> {
        check_name(branch)?;
        let (count, own) = (format!("--max-count={limit}"), format!("refs/heads/{branch}"));
        let exclude = format!("--exclude={branch}");
        let args =
            ["rev-list", &count, &own, "--not", &exclude, "--branches", "--tags", "--remotes"];
        parse::parse_lines("rev-list", &self.run(&args)?)
    }

    /// The commits that can be reached from what is checked out here and from no branch, tag or
    /// remote: at most `limit` of them, the newest first.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn list_unnamed_commits(&self, limit: usize) -> Result<Vec<String>, GitError> {
        if self.find_commit("HEAD")?.is_none() {
            return Ok(Vec::new());
        }
        let count = format!("--max-count={limit}");
        let args = ["rev-list", &count, "HEAD", "--not", "--branches", "--tags", "--remotes"];
        parse::parse_lines("rev-list", &self.run(&args)?)
    }

    /// The commits without a parent that the present commit descends from, sorted; none before the
    /// first commit.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn list_root_commits(&self) -> Result<Vec<String>, GitError> {
        if self.find_commit("HEAD")?.is_none() {
            return Ok(Vec::new());
        }
        let answer = self.run(&["rev-list", "--max-parents=0", "HEAD", "--"])?;
        let mut roots = parse::parse_lines("rev-list", &answer)?;
        roots.sort_unstable();
        Ok(roots)
    }

    /// True if the history is cut off.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn is_shallow(&self) -> Result<bool, GitError> {
        let answer = self.run(&["rev-parse", "--is-shallow-repository"])?;
        Ok(parse::parse_line("rev-parse", &answer)? == "true")
    }

    /// Where a remote is, or nothing if there is none of that name.
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

    /// Removes every file git was never told of, those in repositories below too; ignored files
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
fn check_name(name: &str) -> Result<(), GitError> {
    let bad = name.is_empty() || name.starts_with('-') || name.contains(['\0', '\n']);
    if bad { Err(GitError::BadName { name: name.to_owned() }) } else { Ok(()) }
}

fn checked_path(path: &Path) -> Result<OsString, GitError> {
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() || bytes.contains(&0) {
        return Err(GitError::BadName { name: path.display().to_string() });
    }
    Ok(path.as_os_str().to_owned())
}
