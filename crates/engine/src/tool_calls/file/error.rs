//! Why a file was not read or written.

use std::io;
use std::path::PathBuf;

use turnstone_snapshot::SnapshotError;
use turnstone_store::StoreError;

use super::read::FileStamp;
use crate::error::EngineError;

/// Why a file was not read or written. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The session has not looked at the file it wants to overwrite.
    #[error("{path} must be read before it is written")]
    NeverRead {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what the session read last: it was changed since.
    #[error("{path} has changed since it was read; read it again")]
    Stale {
        /// The file.
        path: PathBuf,
        /// What the session saw, and when.
        read: Box<FileStamp>,
        /// What is there now.
        now: Box<FileStamp>,
    },
    /// No file can have this path: it is empty, or a name in it is followed by `/` though it is a file.
    #[error("{path:?} is not the path of a file")]
    InvalidPath {
        /// The path.
        path: PathBuf,
    },
    /// One request names a file twice.
    #[error("{path} is named twice")]
    NamedTwice {
        /// The file.
        path: PathBuf,
    },
    /// The path leads out of the root: it is not ours to write.
    #[error("{path} is outside of the project")]
    Outside {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be kept, so it is not overwritten.
    #[error("{path} is not captured: {reason}")]
    NotCovered {
        /// The file.
        path: PathBuf,
        /// Why, in one word.
        reason: String,
    },
    /// Somebody else writes the file and did not end in time.
    #[error("{path} is being written by another process")]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StoreError> for FileError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<SnapshotError> for FileError {
    fn from(error: SnapshotError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Engine(error.into())
    }
}
