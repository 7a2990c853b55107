//! Why `git` gave no answer.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::exit::Exit;

/// Why `git` gave no answer. Never to be read as "there is none".
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no `git` on this machine.
    #[error("git is not installed, or not in PATH")]
    Missing,
    /// `git` could not be started or heard.
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
        exit: Exit,
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
    /// `git` wrote more than allowed and was ended.
    #[error("git {command} wrote more than {limit} bytes")]
    TooMuch {
        /// The subcommand.
        command: String,
        /// What was allowed.
        limit: usize,
    },
    /// The answer is not what `git` documents.
    #[error("git {command} answered what it should not: {answer:?}")]
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
