//! What can go wrong, each with what is still true afterwards.

use std::io;
use std::path::PathBuf;

use turnstone_core::fork::ForkError;
use turnstone_core::id::{
    ChangeId, OperationId, PartId, PermissionId, ProjectId, SessionId, TurnId,
};
use turnstone_core::permission::GatedOperation;
use turnstone_core::time::EpochMillis;
use turnstone_process::{GitError, ProcessGroupError};
use turnstone_snapshot::{OidError, OverBudget, RepositoryError, SnapshotError};
use turnstone_store::{DatabaseOpenError, StoreError};

use crate::permissions::GateRefusal;

/// What an engine call answers.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Why the engine did not do what it was asked. Unless it says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The ledger refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger could not be opened.
    #[error(transparent)]
    Open(#[from] DatabaseOpenError),
    /// The snapshot store refused.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The directory of a session does not exist any more.
    #[error(
        "the directory {path} of session {session} no longer exists; `project relink` sets its new location"
    )]
    RootGone {
        /// The session.
        session: SessionId,
        /// The directory it had.
        path: PathBuf,
    },
    /// The directory whose files were changed does not exist any more, and no store knows where it moved.
    #[error("the directory {path} no longer exists; `project relink` sets its new location")]
    DirectoryGone {
        /// The directory.
        path: PathBuf,
    },
    /// No directory of a project exists any more.
    #[error(
        "the directory {path} of project {project} no longer exists; `project relink` sets its new location"
    )]
    ProjectGone {
        /// The project.
        project: ProjectId,
        /// The directory it had.
        path: PathBuf,
    },
    /// There is no such project, or it was removed.
    #[error("no project {0}")]
    NoProject(ProjectId),
    /// There is no turn before the head.
    #[error("session {0} has nothing left to undo")]
    NothingToUndo(SessionId),
    /// There is nothing to redo.
    #[error("session {0} has nothing to redo")]
    NothingToRedo(SessionId),
    /// The session has no such turn.
    #[error("session {session} has no turn {turn}")]
    NoTurn {
        /// The session.
        session: SessionId,
        /// What was asked for.
        turn: TurnId,
    },
    /// The undo data of the turn was evicted, so it can neither be undone nor redone (R13).
    #[error("the undo data of turn {turn} of session {session} expired on {}", at.iso8601())]
    UndoExpired {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
        /// When.
        at: EpochMillis,
    },
    /// The guard of an operation was evicted, so what it undid cannot be restored exactly (R14).
    #[error("the data to reverse operation {operation} expired on {}", at.iso8601())]
    GuardExpired {
        /// The operation.
        operation: OperationId,
        /// When.
        at: EpochMillis,
    },
    /// What an undo would need does not fit, and nothing more may expire (R13).
    #[error("not enough space for undo data: {0}")]
    OverBudget(OverBudget),
    /// A session never was at the point that was asked for.
    #[error("session {session} has no checkpoint, turn or operation {point}")]
    NoPoint {
        /// The session.
        session: SessionId,
        /// What was asked for.
        point: String,
    },
    /// The message to fork at is not there.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// A plan is out of date: the session changed since. Plan again.
    #[error("the session has changed since operation {0} was planned")]
    StalePlan(OperationId),
    /// The ledger has an operation whose plan or report makes no sense: what it did is not known,
    /// so nothing that depends on it is done.
    #[error("the stored form of operation {operation} is invalid")]
    UnreadableOperation {
        /// The operation.
        operation: OperationId,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A change set names a capture by something that is no name.
    #[error("change set {change} refers to a capture with an invalid name")]
    UnreadableCaptureId {
        /// The change set.
        change: ChangeId,
        /// What is wrong with the name.
        source: OidError,
    },
    /// The recorded processes of a call cannot be read: they may still run.
    #[error("the stored processes of call {part} are invalid")]
    UnreadableProcessGroup {
        /// The call.
        part: PartId,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// `git` was asked about a directory and could not tell.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The directory has a repository that must not be used: nothing of it was read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A rule or an answer refuses it (R37). Nothing has changed but the log, which
    /// has the refusal.
    #[error("{} {pattern:?} is not allowed: {why}", gate.as_str())]
    PermissionRefused {
        /// What was wanted.
        gate: GatedOperation,
        /// The path or command that is not allowed.
        pattern: String,
        /// Who says so.
        why: GateRefusal,
    },
    /// Somebody has to allow it first (R37). Until they have answered nothing is done; the same call
    /// again gets their answer.
    #[error("this needs the permission \"{}\": request {request} is waiting for an answer", gate.as_str())]
    PermissionPending {
        /// What is wanted.
        gate: GatedOperation,
        /// The request that waits for an answer.
        request: PermissionId,
    },
    /// A configuration file with permission rules makes no sense: it may hold a denial.
    #[error("{}: the permission rules cannot be read: {reason}", path.display())]
    UnreadableRules {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without any of the file's content: it may be a link to a secret.
        reason: String,
    },
    /// A path pattern that is not exactly one pattern of an ignore file.
    #[error("{pattern:?} is not a path pattern: {reason}")]
    BadPattern {
        /// The pattern as it was given.
        pattern: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A call was closed that is not open.
    #[error("change set {0} is not open")]
    CallNotOpen(ChangeId),
    /// Processes of a command whose owner died may still run; what they change is not known yet.
    #[error(transparent)]
    ProcessGroup(#[from] ProcessGroupError),
    /// The disk or the system said no.
    #[error("a system call failed")]
    Io(#[from] io::Error),
}
