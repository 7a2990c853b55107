//! What the snapshot library says, for people: exit codes, hints, reasons.

use turnstone_snapshot::{
    CaptureError, ConflictReason, JournalState, RegistryError, RestoreError, RootError,
    SnapshotError, StoreFailure, StoreFailureKind, StoreOpenError, UncoveredReason,
};

use crate::exit_code::ProgramExit;

/// The code a refusal ends with.
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

/// The command that helps.
pub(crate) fn hint_for_snapshot_error(error: &SnapshotError) -> Option<String> {
    let words = match error {
        SnapshotError::Untracked(_) => "`turnstone snapshot track` takes the first capture",
        SnapshotError::Registry(RegistryError::Root(RootError::Refused(_))) => {
            "change to a project in it, or insist: `turnstone snapshot track --insist`"
        }
        SnapshotError::Registry(RegistryError::InsideGit(_)) => {
            "change to a directory with files of yours"
        }
        SnapshotError::Registry(RegistryError::TooNew { .. })
        | SnapshotError::OwnerFailed(StoreFailure { kind: StoreFailureKind::Version, .. }) => {
            "use the version of turnstone that wrote it, or end the one that runs"
        }
        SnapshotError::NoCapture { .. } => "`turnstone snapshot list` shows the captures",
        SnapshotError::Ambiguous { .. } => "give more digits",
        SnapshotError::NoOperation(_) => "`turnstone snapshot undo --list` shows the operations",
        SnapshotError::NothingToUndo(_) => {
            "`turnstone snapshot restore TREE` restores; `turnstone snapshot list` names the trees"
        }
        SnapshotError::Unreachable { .. } | SnapshotError::Open(StoreOpenError::Locked(_)) => {
            "end the other process or wait for it"
        }
        SnapshotError::Capture(error) | SnapshotError::Restore(RestoreError::Guard(error)) => {
            return hint_for_capture_error(error);
        }
        SnapshotError::Object(_) => "`turnstone snapshot verify` says what is damaged",
        SnapshotError::Registry(_)
        | SnapshotError::Open(_)
        | SnapshotError::Expire(_)
        | SnapshotError::Restore(_)
        | SnapshotError::Diff(_)
        | SnapshotError::OwnerFailed(_)
        | SnapshotError::Io(_) => return None,
    };
    Some(words.to_owned())
}

fn hint_for_capture_error(error: &CaptureError) -> Option<String> {
    let words = match error {
        CaptureError::OverBudget(_) => {
            "`turnstone snapshot du` shows what takes space, `gc` frees some; `snapshot.budget` in \
             the configuration sets another limit"
        }
        CaptureError::BelowFloor { .. } | CaptureError::NoSpace(_) => "free some space on the disk",
        CaptureError::Root(_) | CaptureError::Object(_) | CaptureError::Io(_) => return None,
    };
    Some(words.to_owned())
}

/// Why a path is not in a capture.
pub(crate) const fn describe_skip_reason(reason: UncoveredReason) -> &'static str {
    match reason {
        UncoveredReason::Ignored => "ignored",
        UncoveredReason::IndexUnreadable => "ignored, and the index cannot be read",
        UncoveredReason::Generated => "generated",
        UncoveredReason::TooLarge => "too large",
        UncoveredReason::Unreadable => "unreadable",
        UncoveredReason::Special => "not a file",
        UncoveredReason::Changing => "changing all the time",
        UncoveredReason::OwnData => "turnstone's own data",
        UncoveredReason::BehindLink => "behind a link",
        UncoveredReason::NotNamed => "not looked at",
        UncoveredReason::Forgotten => "its bytes were forgotten",
        UncoveredReason::NoGuard => "its present bytes could not be kept",
    }
}

/// Why a path was left as it is.
pub(crate) const fn describe_conflict(why: ConflictReason) -> &'static str {
    match why {
        ConflictReason::Overlap => "the same lines were changed since",
        ConflictReason::NotMergeable => "changed since, and not a text that could be merged",
        ConflictReason::Changed => "changed while this ran",
        ConflictReason::InTheWay => "something else is in the way",
        ConflictReason::Refused => "the disk refused",
    }
}

/// Why the journal was of no use, if somebody wanted one.
pub(super) const fn describe_journal_problem(state: JournalState) -> Option<&'static str> {
    match state {
        JournalState::Off | JournalState::Starting | JournalState::On => None,
        JournalState::Overflow => Some("more happened than the kernel could note"),
        JournalState::WatchLimit => {
            Some("the kernel allows no more watches (fs.inotify.max_user_watches)")
        }
        JournalState::NoEvents => Some("this file system does not tell of changes"),
        JournalState::Linked => Some("many files have a second name"),
        JournalState::Distrusted => Some("the journal missed a change"),
    }
}
