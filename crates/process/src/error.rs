//! What can go wrong before a command runs, and when a group is to be ended.

use std::io;
use std::path::PathBuf;

/// Why a command was not started. Nothing of it ran.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No program of this name; exit code 127.
    #[error("{program}: command not found")]
    NotFound {
        /// The program as it was asked for.
        program: String,
    },
    /// The program is there and the system refuses to run it; exit code 126.
    #[error("{program} cannot be executed")]
    NotExecutable {
        /// The program as it was asked for.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The directory to run in cannot be entered.
    #[error("cannot run in {}", dir.display())]
    Directory {
        /// The directory as it was given.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A name, value or argument that no program can be given.
    #[error("{what} cannot be passed to a program")]
    InvalidArgument {
        /// Which one.
        what: String,
    },
    /// The supervisor could not be started or prepared.
    #[error("the supervisor could not {what}")]
    Supervisor {
        /// What it was about to do.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The supervisor reported a failure of its own.
    #[error("the supervisor failed: {0}")]
    SupervisorReported(String),
    /// The supervisor ended before the command was started.
    #[error("the supervisor ended before the command was started")]
    SupervisorGone,
}

impl StartError {
    /// The exit code for this error: 127 not found, 126 not executable, 125 everything else (R33).
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Directory { .. }
            | Self::InvalidArgument { .. }
            | Self::Supervisor { .. }
            | Self::SupervisorReported(_)
            | Self::SupervisorGone => 125,
        }
    }

    pub(crate) fn supervisor(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Supervisor { what, source }
    }
}

/// Why it is not known that a group is gone.
#[derive(Debug, thiserror::Error)]
pub enum ProcessGroupError {
    /// `/proc` cannot be read, so it is unknown which processes live.
    #[error("the processes of this machine cannot be listed")]
    Unknown(#[source] io::Error),
    /// Processes of the group outlive every signal: stuck in the kernel, or not ours to signal.
    #[error("{} processes of group {pgid} are still alive: {left:?}", left.len())]
    StillAlive {
        /// The group.
        pgid: i32,
        /// Their ids.
        left: Vec<i32>,
    },
}
