//! What can go wrong, split by what the caller can do about it.

use std::path::PathBuf;

use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::time::SessionSeq;
use turnstone_core::turn::IllegalTurnTransition;

/// The result of a store call.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a call was refused or failed. Nothing of the call was written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such session (any more).
    #[error("session {0} does not exist")]
    NoSession(SessionId),
    /// There is no such message in that session.
    #[error("message {message} is not part of session {session}")]
    NoMessage {
        /// The session asked.
        session: SessionId,
        /// The message asked for.
        message: MessageId,
    },
    /// There is no such part in that session.
    #[error("part {part} is not part of session {session}")]
    NoPart {
        /// The session asked.
        session: SessionId,
        /// The part asked for.
        part: PartId,
    },
    /// Something else that was named does not exist.
    #[error("{kind} {id} does not exist")]
    NotFound {
        /// What kind of thing.
        kind: &'static str,
        /// Its name.
        id: String,
    },
    /// The id names a thing of another owner; it is never overwritten.
    #[error("{kind} {id} belongs to {owner}")]
    WrongOwner {
        /// What kind of thing.
        kind: &'static str,
        /// Its id.
        id: String,
        /// Whose it is.
        owner: String,
    },
    /// The id is taken by something that differs from what was sent.
    #[error("{kind} {id} already exists and differs")]
    Conflict {
        /// What kind of thing.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The session was deleted; its id is not used again.
    #[error("session {0} was deleted")]
    Deleted(SessionId),
    /// The session has moved on since the caller looked.
    #[error("session {session} is at event {current}, not at {expected}")]
    Stale {
        /// The session.
        session: SessionId,
        /// What the caller expected.
        expected: SessionSeq,
        /// Where it stands.
        current: SessionSeq,
    },
    /// Another process took the session over; this one must stop its work on it.
    #[error("the lease on session {0} was taken over by another process")]
    Fenced(SessionId),
    /// A turn runs, and this call would disturb it.
    #[error("session {0} is busy with a turn")]
    Busy(SessionId),
    /// The session cannot be reverted to that point: it is not the end of a turn or step.
    #[error("{seq} is not a boundary of session {session}")]
    NoBoundary {
        /// The session.
        session: SessionId,
        /// The place asked for.
        seq: SessionSeq,
    },
    /// The session has not come that far.
    #[error("session {session} ends at {end}, before {seq}")]
    BeyondEnd {
        /// The session.
        session: SessionId,
        /// The place asked for.
        seq: SessionSeq,
        /// Where it ends.
        end: SessionSeq,
    },
    /// The state machine does not allow it.
    #[error(transparent)]
    Transition(#[from] IllegalTurnTransition),
    /// A tool call may not change in this way.
    #[error(transparent)]
    Tool(#[from] turnstone_core::tool_state::IllegalToolTransition),
    /// An argument does not make sense.
    #[error("{0}")]
    Invalid(String),
    /// One call would write too much at once (R23).
    #[error("one write of {rows} rows and {bytes} bytes is over the limit of 500 rows and 4 MiB")]
    TooLarge {
        /// Rows it would touch.
        rows: u64,
        /// Bytes it would add.
        bytes: u64,
    },
    /// The disk is full; what was acknowledged is safe, this call is not stored.
    #[error("no space left for {}", file.display())]
    Full {
        /// The file that could not grow.
        file: PathBuf,
    },
    /// A write to disk failed. The next write checks the database and opens it again.
    #[error("a write to {} failed ({reason}); the next write checks and reopens it", file.display())]
    Poisoned {
        /// The database.
        file: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The store is open for reading only.
    #[error("{} is open read-only: {reason}", file.display())]
    ReadOnly {
        /// The database.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another process held the database too long.
    #[error("{} is locked by another process", file.display())]
    Locked {
        /// The database.
        file: PathBuf,
    },
    /// Another process reads the database, so that what was removed is still in its write-ahead log.
    #[error("another process reads {}, and old pages stay in its log until then", file.display())]
    OldPagesInUse {
        /// The database.
        file: PathBuf,
    },
    /// Other processes have the store open, and this call needs it alone.
    #[error("{} is open in another process: {}", file.display(), by.join(", "))]
    InUse {
        /// The database.
        file: PathBuf,
        /// Who they are, as far as they say.
        by: Vec<String>,
    },
    /// The file does not hold what it should.
    #[error("{} is damaged: {reason}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The store was closed while the call waited.
    #[error("the store is closed")]
    Closed,
    /// A bug in the store.
    #[error("internal error: {0}")]
    Internal(String),
    /// The database refused for another reason.
    #[error("database error in {}: {reason}", file.display())]
    Database {
        /// The database.
        file: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// A file next to the database could not be read or written.
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match matches!(error.kind(), StorageFull | QuotaExceeded) {
            true => Self::Full { file: PathBuf::from("turnstone.db") },
            false => Self::Io(error.to_string()),
        }
    }
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::Internal(format!("stored payload: {error}"))
    }
}

impl From<turnstone_core::wire::ShapeError> for StoreError {
    fn from(error: turnstone_core::wire::ShapeError) -> Self {
        Self::Corrupt { file: PathBuf::from("turnstone.db"), reason: error.to_string() }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        classify_sqlite_error(&error, &PathBuf::from("turnstone.db"))
    }
}

impl From<DatabaseOpenError> for StoreError {
    fn from(error: DatabaseOpenError) -> Self {
        match error {
            DatabaseOpenError::Corrupt { path: file, reason } => Self::Corrupt { file, reason },
            DatabaseOpenError::ReadOnly { path: file, reason } => Self::ReadOnly { file, reason },
            DatabaseOpenError::Full { path: file } => Self::Full { file },
            DatabaseOpenError::Locked { path: file } => Self::Locked { file },
            DatabaseOpenError::Recovery(error) | DatabaseOpenError::Rebuild(error) => error,
            DatabaseOpenError::Directory { .. }
            | DatabaseOpenError::Network { .. }
            | DatabaseOpenError::Foreign { .. }
            | DatabaseOpenError::Setting { .. }
            | DatabaseOpenError::Backup { .. }
            | DatabaseOpenError::Migration { .. }
            | DatabaseOpenError::Database { .. } => Self::Io(error.to_string()),
        }
    }
}

impl StoreError {
    /// What to do about it, where the error itself does not say so.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others are about the request")]
        match self {
            Self::Full { .. } => {
                Some("free some disk space and try again; no recorded data is lost")
            }
            Self::Poisoned { .. } => Some(
                "check the disk, then try again: nothing that was confirmed is lost; if the error \
                 stays, run `turnstone doctor`",
            ),
            Self::Corrupt { .. } => {
                Some("run `turnstone doctor --salvage DIR`; the damaged file is not changed")
            }
            _ => None,
        }
    }

    /// Names the real file in errors that were made where it was not known.
    #[must_use]
    pub(crate) fn with_file(self, path: &std::path::Path) -> Self {
        let file = path.to_path_buf();
        if file.as_os_str().is_empty() {
            return self;
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others name no file")]
        match self {
            Self::Full { .. } => Self::Full { file },
            Self::Locked { .. } => Self::Locked { file },
            Self::Corrupt { reason, file: old } if old.is_relative() => {
                Self::Corrupt { file, reason }
            }
            Self::Database { reason, .. } => Self::Database { file, reason },
            Self::ReadOnly { reason, .. } => Self::ReadOnly { file, reason },
            other => other,
        }
    }
}

/// Sorts an error of SQLite by what the caller can do.
pub(crate) fn classify_sqlite_error(error: &rusqlite::Error, path: &std::path::Path) -> StoreError {
    use rusqlite::ErrorCode as Code;
    let file = path.to_path_buf();
    let reason = error.to_string();
    // Shared memory is a file: what fails is its growth, for want of space.
    let extended = error.sqlite_error().map(|it| it.extended_code);
    if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
        return StoreError::Full { file };
    }
    match error.sqlite_error_code() {
        Some(Code::DiskFull) => StoreError::Full { file },
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => StoreError::Locked { file },
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => StoreError::Corrupt { file, reason },
        Some(Code::ReadOnly) => StoreError::ReadOnly { file, reason },
        _ => StoreError::Database { file, reason },
    }
}

/// Why a store could not be opened. The file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseOpenError {
    /// The data directory cannot be made or used.
    #[error("the data directory {} cannot be used: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// SQLite's locks do not work there.
    #[error("{} is on a network file system ({fs}), where database locks cannot be trusted", path.display())]
    Network {
        /// The directory.
        path: PathBuf,
        /// The file system's name.
        fs: &'static str,
    },
    /// The file is not ours.
    #[error("{} is not a Turnstone database", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file or its directory cannot be written.
    #[error("{} cannot be written: {reason}", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// There is no space for it.
    #[error("no space left for {}", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// A setting that durability depends on did not take.
    #[error("{} does not keep {pragma}={wanted} (found {found})", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// Which setting.
        pragma: &'static str,
        /// What it must be.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The backup before an upgrade failed; nothing was changed.
    #[error("{} was not upgraded: its backup failed: {reason}", path.display())]
    Backup {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// A step of the upgrade failed and was rolled back.
    #[error("{} could not be upgraded to version {version}: {reason}", path.display())]
    Migration {
        /// The file.
        path: PathBuf,
        /// The version that failed.
        version: i64,
        /// What went wrong.
        reason: String,
    },
    /// Another process holds the file.
    #[error("{} is locked by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// Recovery of what a dead process left failed.
    #[error("cannot recover the work of an earlier process")]
    Recovery(#[source] StoreError),
    /// A rebuild that was cut off could not be finished; the log is as it was.
    #[error("cannot finish rebuilding the tables from the log")]
    Rebuild(#[source] StoreError),
    /// SQLite refused for another reason.
    #[error("cannot open {}: {reason}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
}

impl DatabaseOpenError {
    /// True if there is no space on the disk: what is stored may still be readable.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(
            self,
            Self::Full { .. }
                | Self::Recovery(StoreError::Full { .. })
                | Self::Rebuild(StoreError::Full { .. })
        )
    }

    /// Why a file that should be ours cannot be used.
    pub(crate) fn from_io(error: &std::io::Error, path: &std::path::Path) -> Self {
        use std::io::ErrorKind as Kind;
        let (path, reason) = (path.to_path_buf(), error.to_string());
        if matches!(error.kind(), Kind::PermissionDenied | Kind::ReadOnlyFilesystem) {
            Self::ReadOnly { path, reason }
        } else if matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded) {
            Self::Full { path }
        } else {
            Self::Directory { path, reason }
        }
    }

    /// The command or step that helps.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Directory { .. } => {
                "choose another directory with `--data DIR` or TURNSTONE_DATA"
            }
            Self::ReadOnly { .. } => {
                "make it writable, or choose another directory with `--data DIR`"
            }
            Self::Network { .. } => "put the data on a local disk with `--data DIR`",
            Self::Foreign { .. } => "to read OpenCode's database, use `turnstone import FILE`",
            Self::Corrupt { .. } => {
                "run `turnstone doctor --salvage DIR`; the damaged file is not changed"
            }
            Self::Full { .. } => "free some disk space and try again; no recorded data is lost",
            Self::Setting { .. } => "put the data on a local disk with `--data DIR`",
            Self::Backup { .. } => "free some disk space or make backup/ writable, then try again",
            Self::Migration { .. } => "the previous file is in backup/",
            Self::Locked { .. } => "wait for the other process, or end it",
            Self::Rebuild(_) => "run `turnstone doctor`; `--salvage DIR` copies what can be read",
            Self::Recovery(_) | Self::Database { .. } => "run `turnstone doctor`",
        }
    }

    pub(crate) fn from_sqlite(error: &rusqlite::Error, path: &std::path::Path) -> Self {
        let path = path.to_path_buf();
        #[expect(clippy::wildcard_enum_match_arm, reason = "classify makes no others")]
        match classify_sqlite_error(error, &path) {
            StoreError::Full { .. } => Self::Full { path },
            StoreError::Locked { .. } => Self::Locked { path },
            StoreError::Corrupt { reason, .. } => Self::Corrupt { path, reason },
            StoreError::ReadOnly { reason, .. } => Self::ReadOnly { path, reason },
            _ if error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) => {
                Self::ReadOnly { path, reason: error.to_string() }
            }
            _ => Self::Database { path, reason: error.to_string() },
        }
    }
}
