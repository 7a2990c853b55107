//! What can go wrong, here or in the owner.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::capture::CaptureError;
use crate::capture_expiry::ExpireError;
use crate::diff::DiffError;
use crate::object_store::{ObjectError, Oid};
use crate::registry::RegistryError;
use crate::restore::{RestoreError, RestoreOperationId};
use crate::snapshot_store::StoreOpenError;
use crate::storage_budget::OverBudget;
use crate::worktree::RootError;

/// Why a store refused a request. Unless the variant says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The store of the directory could not be determined.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The directory has no store yet.
    #[error("no captures of {0} yet")]
    Untracked(PathBuf),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// Nothing was captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Nothing expired.
    #[error(transparent)]
    Expire(#[from] ExpireError),
    /// Nothing was restored.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The store cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The worktree could not be compared.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// Neither a tree nor a capture is called that.
    #[error("no capture of {root} matches \"{text}\"")]
    NoCapture {
        /// What was asked for.
        text: String,
        /// Root of the worktree whose store is meant.
        root: PathBuf,
    },
    /// Several are.
    #[error("capture ID \"{text}\" is ambiguous; it matches {}", shorten(candidates))]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// What it could be.
        candidates: Vec<Oid>,
    },
    /// No operation is called that, or several are.
    #[error("no operation, or more than one, matches \"{0}\"")]
    NoOperation(String),
    /// Nothing was restored yet, so there is nothing to undo.
    #[error("nothing has been restored in {0} yet")]
    NothingToUndo(PathBuf),
    /// The owner of the store refused the request.
    #[error(transparent)]
    OwnerFailed(#[from] StoreFailure),
    /// Another process keeps the store and cannot be asked.
    #[error("the snapshot store is in use by another process ({who}) that does not respond")]
    Unreachable {
        /// The process, as its lock file names it.
        who: String,
        /// What came of asking it.
        source: io::Error,
    },
    /// The disk reported an error.
    #[error("cannot read or write the snapshot store")]
    Io(#[from] io::Error),
}

fn shorten(candidates: &[Oid]) -> String {
    let short = |oid: &Oid| oid.to_string()[..12].to_owned();
    let mut text = candidates.iter().take(5).map(short).collect::<Vec<_>>().join(", ");
    if candidates.len() > 5 {
        text.push_str(", …");
    }
    text
}

/// What kind of failure the owner met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreFailureKind {
    /// It has too much to do: ask again.
    Busy,
    /// The request was no request.
    Malformed,
    /// The request had too many bytes.
    TooLarge,
    /// Another user asked.
    Foreign,
    /// It is another version of the program.
    Version,
    /// The worktree is not the one that was opened.
    Root,
    /// Something that was asked for is not there.
    Missing,
    /// What was to be stored does not fit (R13).
    Full,
    /// Anything else; the words say what.
    Other,
}

/// The owner's response to a request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct StoreFailure {
    /// What kind.
    pub kind: StoreFailureKind,
    /// In words, causes included.
    pub message: String,
    /// The sizes, if the budget is exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<OverBudget>,
}

impl StoreFailure {
    pub(super) fn new(kind: StoreFailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), over: None }
    }

    /// Puts an error into words that can be sent.
    pub(super) fn from_error(error: &SnapshotError) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self { kind: failure_kind_of(error), message, over: error.over_budget() }
    }
}

/// True if the cause is that the disk is full.
pub(super) fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
        || error.source().is_some_and(is_disk_full)
}

fn failure_kind_of(error: &SnapshotError) -> StoreFailureKind {
    if is_disk_full(error) {
        return StoreFailureKind::Full;
    }
    match error {
        SnapshotError::OwnerFailed(failure) => failure.kind,
        SnapshotError::Capture(CaptureError::Root(_))
        | SnapshotError::Restore(RestoreError::Guard(CaptureError::Root(_)))
        | SnapshotError::Registry(RegistryError::Root(_))
        | SnapshotError::Open(StoreOpenError::Root(RootError::Replaced(_))) => {
            StoreFailureKind::Root
        }
        SnapshotError::Capture(
            CaptureError::OverBudget(_)
            | CaptureError::BelowFloor { .. }
            | CaptureError::NoSpace(_),
        ) => StoreFailureKind::Full,
        SnapshotError::Object(ObjectError::Missing(_))
        | SnapshotError::NoCapture { .. }
        | SnapshotError::NoOperation(_)
        | SnapshotError::NothingToUndo(_)
        | SnapshotError::Untracked(_) => StoreFailureKind::Missing,
        SnapshotError::Registry(_)
        | SnapshotError::Open(_)
        | SnapshotError::Capture(_)
        | SnapshotError::Expire(_)
        | SnapshotError::Restore(_)
        | SnapshotError::Object(_)
        | SnapshotError::Diff(_)
        | SnapshotError::Ambiguous { .. }
        | SnapshotError::Unreachable { .. }
        | SnapshotError::Io(_) => StoreFailureKind::Other,
    }
}

impl SnapshotError {
    /// True if the directory is too large to be captured unasked: a home, the whole disk.
    #[must_use]
    pub fn is_refused_root(&self) -> bool {
        matches!(
            self,
            Self::Registry(RegistryError::Root(RootError::Refused(_)))
                | Self::Open(StoreOpenError::Root(RootError::Refused(_)))
        )
    }

    /// True if a capture did not fit: make room, or set another budget (R13).
    #[must_use]
    pub fn is_full(&self) -> bool {
        failure_kind_of(self) == StoreFailureKind::Full
    }

    /// The sizes, if the budget is exceeded: eviction may free space (R13).
    #[must_use]
    pub fn over_budget(&self) -> Option<OverBudget> {
        if let Self::OwnerFailed(failure) = self {
            return failure.over;
        }
        let Self::Capture(CaptureError::OverBudget(over)) = self else { return None };
        Some(*over)
    }

    pub(super) fn no_operation(id: &RestoreOperationId) -> Self {
        Self::NoOperation(id.to_string())
    }
}
