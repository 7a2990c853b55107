//! What the snapshot library says, for people: exit codes, hints, reasons.

use turnstone_snapshot::{
    CaptureError, Failure, FailureKind, JournalState, OpenError, Reason, RegistryError,
    RestoreError, RootError, VaultError, Why,
};

use crate::exit::Exit;

/// The code a refusal ends with.
pub(crate) fn exit(error: &VaultError) -> Exit {
    match error {
        VaultError::Unreachable { .. }
        | VaultError::Open(OpenError::Kept(_))
        | VaultError::Keeper(Failure { kind: FailureKind::Busy, .. }) => Exit::Conflict,
        VaultError::Keeper(Failure { kind: FailureKind::Malformed, .. }) => Exit::Bug,
        VaultError::Registry(_)
        | VaultError::Untracked(_)
        | VaultError::Open(_)
        | VaultError::Capture(_)
        | VaultError::Expire(_)
        | VaultError::Restore(_)
        | VaultError::Object(_)
        | VaultError::Diff(_)
        | VaultError::NoCapture { .. }
        | VaultError::Ambiguous { .. }
        | VaultError::NoOperation(_)
        | VaultError::NothingToUndo(_)
        | VaultError::Keeper(_)
        | VaultError::Io(_) => Exit::Refused,
    }
}

/// The command that helps.
pub(crate) fn hint(error: &VaultError) -> Option<String> {
    let words = match error {
        VaultError::Untracked(_) => "`turnstone snapshot track` takes the first capture",
        VaultError::Registry(RegistryError::Root(RootError::Refused(_))) => {
            "change to a project in it, or insist: `turnstone snapshot track --insist`"
        }
        VaultError::Registry(RegistryError::InsideGit(_)) => {
            "change to a directory with files of yours"
        }
        VaultError::Registry(RegistryError::TooNew { .. })
        | VaultError::Keeper(Failure { kind: FailureKind::Version, .. }) => {
            "use the version of turnstone that wrote it, or end the one that runs"
        }
        VaultError::NoCapture { .. } => "`turnstone snapshot list` shows the captures",
        VaultError::Ambiguous { .. } => "give more digits",
        VaultError::NoOperation(_) => "`turnstone snapshot undo --list` shows the operations",
        VaultError::NothingToUndo(_) => {
            "`turnstone snapshot restore TREE` restores; `turnstone snapshot list` names the trees"
        }
        VaultError::Unreachable { .. } | VaultError::Open(OpenError::Kept(_)) => {
            "end the other process or wait for it"
        }
        VaultError::Capture(error) | VaultError::Restore(RestoreError::Guard(error)) => {
            return of_capture(error);
        }
        VaultError::Object(_) => "`turnstone snapshot verify` says what is damaged",
        VaultError::Registry(_)
        | VaultError::Open(_)
        | VaultError::Expire(_)
        | VaultError::Restore(_)
        | VaultError::Diff(_)
        | VaultError::Keeper(_)
        | VaultError::Io(_) => return None,
    };
    Some(words.to_owned())
}

fn of_capture(error: &CaptureError) -> Option<String> {
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
pub(crate) const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Ignored => "ignored",
        Reason::IndexUnreadable => "ignored, and the index cannot be read",
        Reason::Generated => "generated",
        Reason::TooLarge => "too large",
        Reason::Unreadable => "unreadable",
        Reason::Special => "not a file",
        Reason::Changing => "changing all the time",
        Reason::OwnData => "turnstone's own data",
        Reason::BehindLink => "behind a link",
        Reason::NotNamed => "not looked at",
        Reason::Forgotten => "its bytes were forgotten",
        Reason::NoGuard => "its present bytes could not be kept",
    }
}

/// Why a path was left as it is.
pub(crate) const fn why(why: Why) -> &'static str {
    match why {
        Why::Overlap => "the same lines were changed since",
        Why::NotMergeable => "changed since, and not a text that could be merged",
        Why::Changed => "changed while this ran",
        Why::InTheWay => "something else is in the way",
        Why::Refused => "the disk refused",
    }
}

/// Why the journal was of no use, if somebody wanted one.
pub(super) const fn journal(state: JournalState) -> Option<&'static str> {
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
