//! The history of a repository: commits and branches.

use std::io;

use super::error::GitError;
use super::operation::check_name;
use super::parse;
use super::run::Git;
use crate::exit::CommandExit;

/// The commits and branches of one repository.
#[derive(Clone, Copy, Debug)]
pub struct GitHistory<'g> {
    pub(super) git: &'g Git,
}

impl GitHistory<'_> {
    /// The commit a revision names, or `None` if there is no such name.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell: no repository, a damaged one, or a bad name.
    pub fn find_commit(&self, revision: &str) -> Result<Option<String>, GitError> {
        check_name(revision)?;
        let name = format!("{revision}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        let answer = self.git.run_isolated(&args)?;
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
        let mut answer = self.git.run_isolated(&args)?;
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
        let answer = self.git.run_isolated(&args)?;
        match answer.exit {
            CommandExit::Code(0) => parse::parse_line("symbolic-ref", &answer.stdout).map(Some),
            CommandExit::Code(1) if answer.stderr.is_empty() => Ok(None),
            CommandExit::Code(_) | CommandExit::Signal(_) => Err(answer.into_error(&args)),
        }
    }

    /// The branch work goes back to: that of the remote, else the one new repositories of the user begin
    /// with, else `main` or `master`, whichever is there; or nothing.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn find_default_branch(&self) -> Result<Option<String>, GitError> {
        let args = ["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"];
        let answer = self.git.run_isolated(&args)?;
        match answer.exit {
            CommandExit::Code(0) => {
                let name = parse::parse_line("symbolic-ref", &answer.stdout)?;
                return Ok(Some(name.strip_prefix("origin/").unwrap_or(&name).to_owned()));
            }
            CommandExit::Code(1) if answer.stderr.is_empty() => {}
            CommandExit::Code(_) | CommandExit::Signal(_) => return Err(answer.into_error(&args)),
        }
        let configured = self.git.configuration()?.value("init.defaultbranch");
        for name in configured.as_deref().into_iter().chain(["main", "master"]) {
            if self.find_commit(&format!("refs/heads/{name}"))?.is_some() {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
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
        let used = self.git.worktrees().list()?;
        if used.iter().any(|row| row.branch == parse::WorktreeCheckout::Named(name.clone())) {
            let stderr = format!("{branch} is checked out in a worktree");
            let command = "update-ref".to_owned();
            return Err(GitError::Failed { command, exit: CommandExit::Code(1), stderr });
        }
        self.git.run(&["update-ref", "-d", &name, commit]).map(drop)
    }

    /// The commit where two histories part; `None` if they share none.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn find_merge_base(&self, one: &str, other: &str) -> Result<Option<String>, GitError> {
        let args = ["merge-base", "--end-of-options", one, other];
        let answer = self.git.run_isolated(&args)?;
        match answer.exit {
            CommandExit::Code(0) => parse::parse_line("merge-base", &answer.stdout).map(Some),
            CommandExit::Code(1) if answer.stderr.is_empty() => Ok(None),
            CommandExit::Code(_) | CommandExit::Signal(_) => Err(answer.into_error(&args)),
        }
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
        parse::parse_lines("rev-list", &self.git.run(&args)?)
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
        parse::parse_lines("rev-list", &self.git.run(&args)?)
    }

    /// The commits without a parent that the present commit descends from, sorted; none before the
    /// first commit.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn list_root_commits(&self) -> Result<Vec<String>, GitError> {
        let answer = match self.git.run(&["rev-list", "--max-parents=0", "HEAD", "--"]) {
            Ok(answer) => answer,
            // Asked only now: a process less where there is a commit, which is nearly everywhere.
            Err(error @ GitError::Failed { .. }) => match self.find_commit("HEAD")? {
                None => return Ok(Vec::new()),
                Some(_) => return Err(error),
            },
            Err(error) => return Err(error),
        };
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
        // The file that git itself looks for.
        let file = self.git.repository().common_dir.join("shallow");
        match fs_err::symlink_metadata(&file) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(GitError::Start { dir: file, source }),
        }
    }
}
