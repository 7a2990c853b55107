//! Why a worktree was not made, reset or removed.

use std::path::PathBuf;

use turnstone_core::id::{MessageId, ProjectId, SessionId};
use turnstone_process::GitError;

use super::remove::UnsavedWork;
use crate::error::EngineError;

/// Why nothing was done. Unless it says otherwise, no file and no branch has changed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The project is no repository.
    #[error("project {0} has no git repository")]
    NotGit(ProjectId),
    /// The repository has no commit a worktree could begin with.
    #[error("project {0} has no commit yet")]
    NoCommit(ProjectId),
    /// Every name that was tried is taken.
    #[error("no free worktree name similar to {0}")]
    NoName(String),
    /// Turnstone did not create this directory and does not change it.
    #[error("{} is not a worktree that Turnstone created", .0.display())]
    NotOurs(PathBuf),
    /// It is the project's own directory.
    #[error("{} is the primary directory of the project", .0.display())]
    Primary(PathBuf),
    /// It holds work that exists nowhere else.
    #[error("{} has {work}", directory.display())]
    UnsavedWork {
        /// Where.
        directory: PathBuf,
        /// What.
        work: UnsavedWork,
    },
    /// There is no branch it could be reset to.
    #[error("project {0} has no default branch: no remote HEAD, no main and no master")]
    NoDefaultBranch(ProjectId),
    /// No capture holds all files of a session as they were before a message: nothing is guessed.
    #[error("no capture contains the files of session {session} from before {message}")]
    NoCapture {
        /// The session.
        session: SessionId,
        /// The message.
        message: MessageId,
    },
    /// The files of a session are not captured: why.
    #[error("the files of session {session} are not captured: {why}")]
    NotCaptured {
        /// The session.
        session: SessionId,
        /// Why.
        why: String,
    },
    /// Files of a new worktree could not be brought to what they should be; it was taken away again.
    #[error("cannot create all files of {}: {}", directory.display(), paths.join(", "))]
    NotFilled {
        /// Where.
        directory: PathBuf,
        /// Which files.
        paths: Vec<String>,
    },
    /// The reset went through, and files still differ. The capture holds what was there before.
    #[error("{} still differs from the default branch: {}", directory.display(), paths.join(", "))]
    LeftChanges {
        /// Where.
        directory: PathBuf,
        /// Which files.
        paths: Vec<String>,
    },
    /// `git` refused.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The database, a snapshot store or the disk refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<std::io::Error> for WorktreeError {
    fn from(error: std::io::Error) -> Self {
        Self::Engine(error.into())
    }
}
