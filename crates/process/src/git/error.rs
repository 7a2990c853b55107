//! Why `git` gave no answer.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::exit::CommandExit;

/// Why `git` gave no answer. This is never an absence.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no `git` on this machine.
    #[error("git is not installed, or not in PATH")]
    Missing,
    /// Git is older than what keeps its commands from starting programs of a repository.
    #[error("git {found} ({}) is too old: {minimum} or newer is needed", program.display())]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        found: String,
        /// The oldest version that is accepted.
        minimum: String,
    },
    /// The repository's configuration includes other files on a condition. What they say in a new
    /// worktree cannot be known before it exists, so none is created.
    #[error("the configuration of the repository has a conditional include ({key})")]
    ConditionalInclude {
        /// The name of the setting.
        key: String,
    },
    /// `git` could not be started, or its output not be read.
    #[error("git could not be run in {}", dir.display())]
    Start {
        /// The directory it was to run in.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `git` refused, in its own words.
    #[error("git {command} failed with code {}: {stderr}", exit.code())]
    Failed {
        /// The subcommand.
        command: String,
        /// How it ended.
        exit: CommandExit,
        /// What it said.
        stderr: String,
    },
    /// `git` took longer than allowed and was ended.
    #[error("git {command} did not end within {limit:?}")]
    TimedOut {
        /// The subcommand.
        command: String,
        /// What was allowed.
        limit: Duration,
    },
    /// Something else is in place of a file that git would read, or the file is too large.
    #[error("git is not run: {} {problem}", path.display())]
    UnusableFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// `git` waited for something that did not come, and was ended.
    #[error("git {command} made no progress for {limit:?}")]
    Stalled {
        /// The subcommand.
        command: String,
        /// How long it did nothing.
        limit: Duration,
    },
    /// The caller needs no answer any more, or this program ends: `git` was ended or not started.
    #[error("git {command} was cancelled")]
    Cancelled {
        /// The subcommand.
        command: String,
    },
    /// Too many commands wait for their turn in this repository or in all.
    #[error("too many git commands are waiting")]
    Busy,
    /// `git` wrote more than allowed and was ended.
    #[error("git {command} wrote more than {limit} bytes")]
    TooMuch {
        /// The subcommand.
        command: String,
        /// What was allowed.
        limit: usize,
    },
    /// The answer is not what `git` documents.
    #[error("git {command} gave an unexpected answer: {answer:?}")]
    Unreadable {
        /// The subcommand.
        command: String,
        /// The part that was not understood.
        answer: String,
    },
    /// A name that `git` would take for an option, or for nothing.
    #[error("{name:?} cannot be the name of a revision, branch or path")]
    BadName {
        /// The name.
        name: String,
    },
}

impl GitError {
    /// What helps against the error, if something does.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("install git 2.38 or newer"),
            Self::TooOld { .. } => Some("install a newer git, or put it first in PATH"),
            Self::ConditionalInclude { .. } => {
                Some("move the conditional include to your own configuration (git config --global)")
            }
            Self::UnusableFile { .. } => {
                Some("remove it or the setting that names it, or put the file back")
            }
            Self::Stalled { .. } => Some(
                "a pipe in place of a .gitignore or .gitattributes? `find . -type p` lists pipes",
            ),
            Self::Cancelled { .. } | Self::Busy => None,
            Self::Start { .. } => Some("check that the directory and its .git can be read"),
            Self::Failed { .. } => Some("repair the repository or the file that git names"),
            Self::TimedOut { .. } => {
                Some("look for a pipe, a device or a huge file in the directory and in its .git")
            }
            Self::TooMuch { .. } => Some("commit, ignore or remove some of the changed files"),
            Self::Unreadable { .. } => Some("install another version of git"),
            Self::BadName { .. } => {
                Some("rename it, or correct the configuration of the repository that names it")
            }
        }
    }
}
