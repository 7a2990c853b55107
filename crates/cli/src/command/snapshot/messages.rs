//! Exit codes, hints and reasons for results of the snapshot store.

use turnstone_snapshot::{
    CaptureError, ConflictReason, JournalState, RegistryError, RestoreError, RootError,
    SnapshotError, StoreFailure, StoreFailureKind, StoreOpenError, UncoveredReason,
};

use crate::exit_code::ProgramExit;

/// The exit code of an error.
pub(crate) fn exit_for_snapshot_error(error: &SnapshotError) -> ProgramExit {
    match error {
        SnapshotError::Unreachable { .. }
        | SnapshotError::Open(StoreOpenError::Locked(_))
        | SnapshotError::OwnerFailed(StoreFailure { kind: StoreFailureKind::Busy, .. }) => {
            ProgramExit::Conflict
        }
        SnapshotError::OwnerFailed(StoreFailure { kind: StoreFailureKind::Malformed, .. }) => {
            ProgramExit::Bug
        }
        SnapshotError::Registry(_)
        | SnapshotError::Untracked(_)
        | SnapshotError::Open(_)
        | SnapshotError::Capture(_)
        | SnapshotError::Expire(_)
        | SnapshotError::Restore(_)
        | SnapshotError::Object(_)
        | SnapshotError::Diff(_)
        | SnapshotError::NoCapture { .. }
        | SnapshotError::Ambiguous { .. }
        | SnapshotError::NoOperation(_)
        | SnapshotError::NothingToUndo(_)
        | SnapshotError::OwnerFailed(_)
        | SnapshotError::Io(_) => ProgramExit::Refused,
    }
}

/// What the user can do about an error.
pub(crate) fn hint_for_snapshot_error(error: &SnapshotError) -> Option<String> {
    let hint = match error {
        SnapshotError::Untracked(_) => "create the first capture with `turnstone snapshot track`",
        SnapshotError::Registry(RegistryError::Root(RootError::Refused(_))) => {
            "change to a project directory, or use `turnstone snapshot track --force`"
        }
        SnapshotError::Registry(RegistryError::InsideGit(_)) => {
            "change to a directory outside of .git"
        }
        SnapshotError::Registry(RegistryError::TooNew { .. })
        | SnapshotError::OwnerFailed(StoreFailure { kind: StoreFailureKind::Version, .. }) => {
            "use the newer version of Turnstone, or end the process that runs it"
        }
        SnapshotError::NoCapture { .. } => "`turnstone snapshot list` lists the captures",
        SnapshotError::Ambiguous { .. } => "use a longer prefix of the ID",
        SnapshotError::NoOperation(_) => "`turnstone snapshot undo --list` lists the operations",
        SnapshotError::NothingToUndo(_) => {
            "`turnstone snapshot list` lists captures, `turnstone snapshot restore TREE` restores one"
        }
        SnapshotError::Unreachable { .. } | SnapshotError::Open(StoreOpenError::Locked(_)) => {
            "wait for the other process, or end it"
        }
        SnapshotError::Capture(error) | SnapshotError::Restore(RestoreError::Guard(error)) => {
            return hint_for_capture_error(error);
        }
        SnapshotError::Object(_) => "`turnstone snapshot verify` shows what is damaged",
        SnapshotError::Registry(_)
        | SnapshotError::Open(_)
        | SnapshotError::Expire(_)
        | SnapshotError::Restore(_)
        | SnapshotError::Diff(_)
        | SnapshotError::OwnerFailed(_)
        | SnapshotError::Io(_) => return None,
    };
    Some(hint.to_owned())
}

fn hint_for_capture_error(error: &CaptureError) -> Option<String> {
    let hint = match error {
        CaptureError::OverBudget(_) => {
            "`turnstone snapshot du` shows the disk usage, `turnstone snapshot gc` frees space, and \
             `snapshot.budget` in the configuration sets the limit"
        }
        CaptureError::BelowFloor { .. } | CaptureError::NoSpace(_) => "free some disk space",
        CaptureError::Root(_) | CaptureError::Object(_) | CaptureError::Io(_) => return None,
    };
    Some(hint.to_owned())
}

/// Why a path is not in a capture.
pub(crate) const fn describe_skip_reason(reason: UncoveredReason) -> &'static str {
    match reason {
        UncoveredReason::Ignored => "ignored",
        UncoveredReason::IndexUnreadable => "ignored; git index unreadable",
        UncoveredReason::Generated => "generated",
        UncoveredReason::TooLarge => "too large",
        UncoveredReason::Unreadable => "unreadable",
        UncoveredReason::Special => "not a regular file",
        UncoveredReason::Changing => "it was being written at the time",
        UncoveredReason::OwnData => "Turnstone's own data",
        UncoveredReason::BehindLink => "behind a symbolic link",
        UncoveredReason::NotNamed => "not captured",
        UncoveredReason::Forgotten => "its content was erased",
        UncoveredReason::NoGuard => "no space left to save its current content",
        UncoveredReason::OverBudget => "over the budget",
        UncoveredReason::GitDirectory => "its .git directory is never captured",
        UncoveredReason::NoSpace => "no space left on the disk",
        UncoveredReason::Missing => "captured content is missing from the store, or damaged",
        UncoveredReason::Unknown => "for an unknown reason",
    }
}

/// Why a path is not in a capture, from the stored word.
pub(crate) fn describe_stored_reason(word: &str) -> &str {
    match serde_json::from_value(serde_json::Value::from(word)) {
        Ok(UncoveredReason::Unknown) | Err(_) => word,
        Ok(reason) => describe_skip_reason(reason),
    }
}

/// Why a path was skipped.
pub(crate) const fn describe_conflict(why: ConflictReason) -> &'static str {
    match why {
        ConflictReason::Overlap => "the same lines have changed since",
        ConflictReason::NotMergeable => "changed since, and not mergeable as text",
        ConflictReason::Changed => "changed during the operation",
        ConflictReason::InTheWay => "another file is in the way",
        ConflictReason::Refused => "the file system refused the change",
        ConflictReason::ModeChanged => "its permissions have changed since",
        ConflictReason::ChangedSinceCreation => "created by the turn and changed since",
        ConflictReason::Removed => "removed since",
        ConflictReason::Recreated => "created again since",
        ConflictReason::KindChanged => "a file, directory or link has taken its place since",
        ConflictReason::OnlyCopy => "the only copy of a file that cannot be restored",
        ConflictReason::ReadOnly => "read-only: permission denied",
        ConflictReason::Immutable => "immutable or append-only",
        ConflictReason::NoSpace => "no space left on the disk",
    }
}

/// Why the journal could not be used, if it was requested.
pub(crate) const fn describe_journal_problem(state: JournalState) -> Option<&'static str> {
    match state {
        JournalState::Off | JournalState::Starting | JournalState::On => None,
        JournalState::Overflow => Some("too many changes for the kernel's event queue"),
        JournalState::WatchLimit => {
            Some("the limit of inotify watches is reached (fs.inotify.max_user_watches)")
        }
        JournalState::NoEvents => Some("this file system does not report changes"),
        JournalState::Linked => Some("many files have hard links"),
        JournalState::Distrusted => Some("the watcher missed a change"),
    }
}
