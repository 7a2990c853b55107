//! What can go wrong, each with what is still true afterwards.

use std::io;
use std::path::PathBuf;

use turnstone_core::fork::ForkError;
use turnstone_core::id::{
    ChangeId, OperationId, PartId, PermissionId, ProjectId, SessionId, TurnId,
};
use turnstone_core::permission::{GatedOperation, RuleSource};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::EpochMillis;
use turnstone_process::{GitError, ProcessGroupError};
use turnstone_snapshot::{OidError, OverBudget, RepositoryError, SnapshotError};
use turnstone_store::{DatabaseOpenError, StoreError};

use crate::history::checkout_turns::TurnChoiceError;
use crate::history::undo::OperationReport;
use crate::permissions::GateRefusal;

/// What an engine call answers.
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Why the engine refused a request. Unless the variant says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The database refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database could not be opened.
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
    /// Another directory is at the path of the one whose files were changed.
    #[error(
        "{path} is not the directory whose files were changed: that one was moved or deleted, and another one \
         is in its place; no file was changed"
    )]
    DirectoryReplaced {
        /// The path.
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
    /// The sessions of a project have no turn for this.
    #[error(transparent)]
    TurnChoice(#[from] TurnChoiceError),
    /// A later turn replaced what the newest undo had hidden.
    #[error(
        "session {session} went on with a new turn after the undo of {}, so no undo is left to reverse",
        list_names(turns)
    )]
    UndoSuperseded {
        /// The session.
        session: SessionId,
        /// The undone turns.
        turns: Vec<TurnId>,
    },
    /// The selected turns changed no file at these paths.
    #[error("the selected turns changed no file at {}", list_names(paths))]
    NoSuchChange {
        /// The paths.
        paths: Vec<RelPath>,
    },
    /// What a command of a turn changed is not recorded yet: its directory is missing.
    #[error(
        "what turn {turn} changed in {} is not known yet: the directory does not exist",
        root.display()
    )]
    DirectoryMissing {
        /// The turn.
        turn: TurnId,
        /// The directory.
        root: PathBuf,
    },
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
        /// The files that stay as they are.
        paths: Vec<RelPath>,
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
    /// What a command changed cannot be captured until there is space on the disk. It is not lost:
    /// recovery tries again.
    #[error("no space left to record what a command of session {0} changed")]
    ChangesPending(SessionId),
    /// A session never was at the point that was asked for.
    #[error("session {session} has no checkpoint, turn or operation {point}")]
    NoPoint {
        /// The session.
        session: SessionId,
        /// What was asked for.
        point: String,
    },
    /// Another undo, redo or jump of the session is not over.
    #[error("another undo, redo or jump of session {0} is running")]
    OperationRunning(SessionId),
    /// An undo, redo or jump changed files, and what it did could not be stored. Recovery stores it.
    #[error("files were changed, and that could not be recorded yet")]
    Unrecorded {
        /// What was done, as far as it is known.
        report: Box<OperationReport>,
        /// Why it could not be stored.
        source: Box<EngineError>,
    },
    /// The message to fork at is not there.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// A plan is out of date: the session changed since. Plan again.
    #[error("the session has changed since operation {0} was planned")]
    StalePlan(OperationId),
    /// The database has an operation whose plan or report is invalid: what it did is not known,
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
    /// `git` could not answer a question about a directory.
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
        /// Whose rule it is.
        why: GateRefusal,
    },
    /// A rule denies what a tool is about to do (R38). It must not start.
    #[error("{permission} {pattern:?} is not allowed: denied by a rule ({})", decided_by.as_str())]
    ToolDenied {
        /// The permission that was judged.
        permission: String,
        /// What for.
        pattern: String,
        /// Where the rule comes from.
        decided_by: RuleSource,
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
    /// A configuration file with permission rules is invalid: it may hold a denial.
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
    /// The disk or the system reported an error.
    #[error("a system call failed")]
    Io(#[from] io::Error),
}

fn list_names<T: ToString>(names: &[T]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl EngineError {
    /// True if the turn is not this process's any more: it ended, its session was deleted, or another process
    /// took it over.
    #[must_use]
    pub const fn is_turn_lost(&self) -> bool {
        matches!(
            self,
            Self::Store(
                StoreError::Fenced(_)
                    | StoreError::Transition(_)
                    | StoreError::NoSession(_)
                    | StoreError::Deleted(_)
            )
        )
    }

    /// True if there is no space: on the disk, or within the budget.
    #[must_use]
    pub fn is_full(&self) -> bool {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the cause of the others decides")]
        match self {
            Self::Store(StoreError::Full { .. })
            | Self::OverBudget(_)
            | Self::ChangesPending(_) => {
                return true;
            }
            Self::Unrecorded { source, .. } => return source.is_full(),
            Self::Open(error) if error.is_full() => return true,
            Self::Snapshot(error) if error.is_full() => return true,
            _ => {}
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
