//! Errors of commands: what happened, and a hint what to do.

use std::io;
use std::path::PathBuf;

use turnstone_core::id::{ProjectId, SessionId, TurnId};
use turnstone_core::rel_path::RelPath;
use turnstone_engine::{EngineError, TurnChoiceError};
use turnstone_exchange::{ExportError, SourceError};
use turnstone_snapshot::SnapshotError;
use turnstone_store::{DatabaseOpenError, StoreError};

use crate::clock;
use crate::command::snapshot;
use crate::exit_code::{BUG_REPORT_HINT, ProgramExit};
use crate::text;
use crate::time_format;

/// Files that an error names.
const MAX_LISTED_FILES: usize = 10;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] DatabaseOpenError),
    /// The store rejected the request.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The source of an import cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The import was interrupted.
    #[error("the import was interrupted; everything imported so far is kept")]
    Import(#[source] StoreError),
    /// The session cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A snapshot operation failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The engine rejected the request.
    #[error(transparent)]
    Engine(EngineError),
    /// No turn has this ID or prefix.
    #[error("no turn in this directory matches \"{0}\"")]
    NoTurn(String),
    /// The directory has no session yet.
    #[error("no session in {}", directory.display())]
    NoSessionHere {
        /// The directory.
        directory: PathBuf,
        /// Projects that look alike or may have moved here, with their directories.
        similar: Vec<(ProjectId, String)>,
        /// Projects with sessions whose directory is gone, with that directory.
        gone: Vec<(ProjectId, String)>,
    },
    /// No session has this ID or prefix.
    #[error("no session matches \"{0}\"")]
    NoSession(String),
    /// More than one session has this prefix.
    #[error("session ID \"{prefix}\" is ambiguous; it matches {}:{}", count(*more, candidates.len()), list(candidates, *more))]
    AmbiguousSession {
        /// The typed prefix.
        prefix: String,
        /// Matching sessions with titles.
        candidates: Vec<(SessionId, String)>,
        /// Whether more sessions match.
        more: bool,
    },
    /// No project has this ID or prefix.
    #[error("no project matches \"{0}\"")]
    NoProject(String),
    /// More than one project has this prefix.
    #[error("project ID \"{prefix}\" is ambiguous; it matches {}", candidates.join(", "))]
    AmbiguousProject {
        /// The typed prefix.
        prefix: String,
        /// Matching projects.
        candidates: Vec<String>,
    },
    /// The current directory belongs to no project.
    #[error("{} does not belong to a project", .0.display())]
    NotInProject(PathBuf),
    /// The user did not confirm a deletion.
    #[error("aborted: not confirmed")]
    NotConfirmed,
    /// The current directory is gone.
    #[error("the current directory no longer exists")]
    NoDirectory,
    /// No data directory is configured and there is no home directory.
    #[error("no data directory: neither --data nor TURNSTONE_DATA nor a home directory is set")]
    NoDataDirectory,
    /// The request is invalid.
    #[error("{what}")]
    Refused {
        /// What is invalid.
        what: String,
        /// What to do.
        hint: Option<String>,
    },
    /// What an undo or a redo needs was removed to make room.
    #[error("{what}")]
    Expired {
        /// What is gone.
        what: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A file could not be written or read.
    #[error("{what}")]
    File {
        /// The failed action.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// A value cannot be serialized.
    #[error("internal error: cannot serialize a value as JSON")]
    Json(#[from] serde_json::Error),
}

impl From<EngineError> for CliError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all other errors stay errors of the engine"
    )]
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => Self::Store(error),
            EngineError::Open(error) => Self::Open(error),
            EngineError::Snapshot(error) => Self::Snapshot(error),
            EngineError::UndoExpired { session, turn, at, paths } => Self::Expired {
                what: format!(
                    "turn {turn} of session {session} can no longer be undone: its undo data expired {}; \
                     no file was changed{}",
                    time_format::format_local_time(at.0, clock::now()),
                    list_files(&paths)
                ),
                hint: Some(
                    "old undo data is removed when space runs out; `turnstone log` shows which turns can \
                     still be undone, and a larger `snapshot.budget` keeps more of them"
                        .to_owned(),
                ),
            },
            EngineError::GuardExpired { operation, at } => Self::Expired {
                what: format!(
                    "the data to reverse operation {operation} expired {}; no file was changed",
                    time_format::format_local_time(at.0, clock::now())
                ),
                hint: Some(
                    "old undo data is removed when space runs out; a larger `snapshot.budget` in the \
                     configuration keeps more"
                        .to_owned(),
                ),
            },
            error => Self::Engine(error),
        }
    }
}

/// Names files that stay as they are, as many as can be read at a glance.
fn list_files(paths: &[RelPath]) -> String {
    let names: Vec<String> = paths
        .iter()
        .take(MAX_LISTED_FILES)
        .map(|path| crate::text::sanitize_line(&path.to_string()))
        .collect();
    match (names.is_empty(), paths.len().saturating_sub(names.len())) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", names.join(", ")),
        (false, more) => format!(": {} and {more} more", names.join(", ")),
    }
}

fn count(more: bool, shown: usize) -> String {
    if more { format!("more than {shown} sessions") } else { format!("{shown} sessions") }
}

fn list(candidates: &[(SessionId, String)], more: bool) -> String {
    let mut text = String::new();
    for (id, title) in candidates {
        text.push_str(&format!("\n  {id}  {}", crate::text::sanitize_line(title)));
    }
    if more {
        text.push_str("\n  …");
    }
    text
}

impl CliError {
    /// The exit code.
    pub(crate) fn exit_code(&self) -> ProgramExit {
        match self {
            Self::Open(DatabaseOpenError::Locked { .. }) | Self::Expired { .. } => {
                ProgramExit::Conflict
            }
            Self::Open(DatabaseOpenError::Recovery(error))
            | Self::Store(error)
            | Self::Import(error)
            | Self::Export(ExportError::Store(error)) => exit_for_store_error(error),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                ProgramExit::BrokenPipe
            }
            Self::Json(_) => ProgramExit::Bug,
            Self::Snapshot(error) => snapshot::exit_for_snapshot_error(error),
            Self::Engine(error) => exit_for_engine_error(error),
            Self::NoTurn(_)
            | Self::NoSessionHere { .. }
            | Self::Open(_)
            | Self::Source(_)
            | Self::Export(_)
            | Self::NoSession(_)
            | Self::AmbiguousSession { .. }
            | Self::NoProject(_)
            | Self::AmbiguousProject { .. }
            | Self::NotInProject(_)
            | Self::NotConfirmed
            | Self::NoDirectory
            | Self::NoDataDirectory
            | Self::Refused { .. }
            | Self::File { .. }
            | Self::Output(_) => ProgramExit::Refused,
        }
    }

    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Open(error) => error.remedy(),
            Self::Store(error) | Self::Export(ExportError::Store(error)) => {
                return hint_for_store_error(error);
            }
            Self::Import(error) => {
                return hint_for_store_error(error)
                    .or_else(|| Some("run the import again to finish it".to_owned()));
            }
            Self::Source(error) => error.remedy(),
            Self::Snapshot(error) => return snapshot::hint_for_snapshot_error(error),
            Self::Engine(error) => return hint_for_engine_error(error),
            Self::NoTurn(_) => {
                "`turnstone log` lists the turns; add `--session ID` for another session"
            }
            Self::NoSessionHere { similar, gone, .. } => {
                return Some(hint_for_no_session(similar, gone));
            }
            Self::NoSession(_) | Self::Export(_) => {
                "`turnstone session list --all` lists all sessions"
            }
            Self::AmbiguousSession { .. } => "use a longer prefix of the ID",
            Self::NoProject(_) => "`turnstone project list` lists the projects",
            Self::AmbiguousProject { .. } => "use a longer prefix of the ID",
            Self::NotInProject(_) => {
                "choose a project with `--project ID`, or run `turnstone exec` here to create one"
            }
            Self::NotConfirmed => "`--dry-run` only shows the plan, `--yes` skips the confirmation",
            Self::NoDirectory => "change to a directory that exists",
            Self::NoDataDirectory => "choose a directory with `--data DIR` or TURNSTONE_DATA",
            Self::Refused { hint, .. } | Self::Expired { hint, .. } => return hint.clone(),
            Self::Json(_) => BUG_REPORT_HINT,
            Self::File { source, .. } => return hint_for_io_error(source).map(str::to_owned),
            Self::Output(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// How to find the sessions of a directory that has none.
fn hint_for_no_session(similar: &[(ProjectId, String)], gone: &[(ProjectId, String)]) -> String {
    let start = "start one with `turnstone exec -- COMMAND`, or choose one with `--session ID`";
    let relink = |id: &str| format!("`turnstone project relink {id}` links this directory to it");
    let name = |(id, directory): &(ProjectId, String)| {
        format!("{id} ({})", crate::text::sanitize_line(directory))
    };
    let names =
        |projects: &[(ProjectId, String)]| projects.iter().map(name).collect::<Vec<_>>().join(", ");
    match similar {
        [] => match gone {
            [] => start.to_owned(),
            [only] => format!(
                "{start}; the directory of project {} is missing: if it was moved here, {}",
                name(only),
                relink(only.0.as_str())
            ),
            several => format!(
                "{start}; the directories of the projects {} are missing: if one was moved here, {}",
                names(several),
                relink("ID")
            ),
        },
        [only] => format!(
            "it may be a moved or copied directory of project {}; if it was moved, {}",
            name(only),
            relink(only.0.as_str())
        ),
        several => format!(
            "it may be a moved or copied directory of one of the projects {}; if it was moved, {}",
            names(several),
            relink("ID")
        ),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other system errors explain themselves")]
fn hint_for_io_error(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound => Some("check that the path exists"),
        io::ErrorKind::PermissionDenied => {
            Some("check the permissions of the file and its directory")
        }
        io::ErrorKind::StorageFull => Some("free some disk space"),
        _ => None,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum may grow; all other errors are refusals"
)]
fn exit_for_engine_error(error: &EngineError) -> ProgramExit {
    match error {
        EngineError::ProcessGroup(_)
        | EngineError::OperationRunning(_)
        | EngineError::StalePlan(_)
        | EngineError::DirectoryMissing { .. }
        | EngineError::DirectoryReplaced { .. }
        | EngineError::PermissionPending { .. } => ProgramExit::Conflict,
        _ => ProgramExit::Refused,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "only errors of undo and redo")]
fn hint_for_undo_error(error: &EngineError) -> Option<String> {
    let hint = match error {
        EngineError::NothingToUndo(_) => {
            "`turnstone log` shows the turns of this session; `turnstone session list` lists the \
             others, and `--session ID` selects one"
        }
        EngineError::TurnChoice(TurnChoiceError::NothingToUndo { running, elsewhere, .. }) => {
            return Some(hint_for_nothing_left(running, elsewhere));
        }
        EngineError::NothingToRedo(_)
        | EngineError::TurnChoice(TurnChoiceError::NothingToRedo(_)) => {
            "`turnstone log` shows what has been undone and redone"
        }
        EngineError::TurnChoice(TurnChoiceError::TooFewTurns { found, .. }) => {
            return Some(format!("`turnstone undo --last {found}` undoes all of them"));
        }
        EngineError::OperationRunning(_) => "wait for it to end, then try again",
        EngineError::Unrecorded { source, .. } if source.is_full() => {
            "free some disk space; the next command records what was changed"
        }
        EngineError::Unrecorded { .. } => "the next command records what was changed",
        EngineError::UndoSuperseded { turns, .. } => {
            let turns: Vec<String> = turns.iter().map(ToString::to_string).collect();
            return Some(format!("`turnstone redo {}` redoes their files", turns.join(" ")));
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Where a turn can still be undone, or when.
fn hint_for_nothing_left(running: &[TurnId], elsewhere: &[String]) -> String {
    let mut hints = Vec::new();
    if let Some(turn) = running.first() {
        let more = if running.len() > 1 {
            format!(" and {} more", running.len() - 1)
        } else {
            String::new()
        };
        hints.push(format!("{turn}{more} is still running and can be undone once it has ended"));
    }
    if !elsewhere.is_empty() {
        let named = elsewhere.iter().map(|it| text::sanitize_line(it)).collect::<Vec<_>>();
        hints.push(format!("run `turnstone undo` in {} to undo turns there", named.join(" or ")));
    }
    if hints.is_empty() {
        let general = "`turnstone log` shows the turns of this project; `turnstone redo` redoes what was undone";
        hints.push(general.to_owned());
    }
    hints.join("; ")
}

/// The command that shows which rule refused something.
fn hint_to_explain(permission: &str, pattern: &str) -> String {
    format!("`turnstone permission explain {permission} {pattern:?}` shows which rule decides")
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow; other errors need no hint")]
fn hint_for_engine_error(error: &EngineError) -> Option<String> {
    if let Some(hint) = hint_for_undo_error(error) {
        return Some(hint);
    }
    let hint = match error {
        EngineError::NoTurn { .. } => "`turnstone log` lists the turns",
        EngineError::NoSuchChange { .. } => {
            "without `--path`, `--dry-run` lists the files of the turns; nothing was changed"
        }
        EngineError::DirectoryMissing { .. } => {
            "create the directory again, then repeat the command: the files from before the turn are \
             restored"
        }
        EngineError::NoPoint { .. } => {
            "`turnstone checkpoint list` lists the checkpoints, `turnstone log --all` turns and \
             operations"
        }
        EngineError::RootGone { .. }
        | EngineError::DirectoryGone { .. }
        | EngineError::ProjectGone { .. } => {
            "if the project has moved, run `turnstone project relink ID DIR`; \
             `turnstone project list` shows the IDs"
        }
        EngineError::DirectoryReplaced { .. } => {
            "run a command in the directory if it has moved, and it is found again; if this one is to take \
             its place, run `turnstone project relink ID` here; `turnstone project list` shows the IDs"
        }
        EngineError::NoProject(_) => "`turnstone project list` lists the projects",
        EngineError::ProcessGroup(_) => "end these processes, then try again",
        EngineError::StalePlan(_) => "try again",
        EngineError::PermissionRefused { gate, pattern, .. } => {
            return Some(hint_to_explain(gate.as_str(), pattern));
        }
        EngineError::ToolDenied { permission, pattern, .. } => {
            return Some(hint_to_explain(permission, pattern));
        }
        EngineError::PermissionPending { request, .. } => {
            return Some(format!(
                "a person can approve it with `turnstone permission reply {request} once`"
            ));
        }
        EngineError::Git(error) => return error.hint().map(str::to_owned),
        EngineError::Repository(error) => return error.hint(),
        EngineError::UnreadableRules { .. } => "correct the file, or move it out of the way",
        EngineError::UnreadableOperation { .. } => "run `turnstone doctor`",
        EngineError::ChangesPending(_) => {
            "free some disk space and try again; the changes are recorded as soon as they fit"
        }
        EngineError::OverBudget(_) => {
            "delete or archive old sessions, raise `snapshot.budget` or `snapshot.total_budget` in \
             the configuration, or set \"undo\": \"best-effort\" to run commands without undo; \
             `turnstone snapshot du` shows the disk usage"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow; other errors need no hint")]
fn exit_for_store_error(error: &StoreError) -> ProgramExit {
    match error {
        StoreError::Busy(_)
        | StoreError::InUse { .. }
        | StoreError::OldPagesInUse { .. }
        | StoreError::Locked { .. }
        | StoreError::Stale { .. }
        | StoreError::Fenced(_)
        | StoreError::Conflict { .. } => ProgramExit::Conflict,
        StoreError::Internal(_) => ProgramExit::Bug,
        _ => ProgramExit::Refused,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow; other errors need no hint")]
fn hint_for_store_error(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::NoSession(_) | StoreError::Deleted(_) => {
            "`turnstone session list --all` lists all sessions"
        }
        StoreError::Busy(_) => "wait for the turn to end, then try again",
        StoreError::Locked { .. } | StoreError::InUse { .. } | StoreError::OldPagesInUse { .. } => {
            "wait for the other process, or end it"
        }
        StoreError::Stale { .. } | StoreError::Fenced(_) => "check the session, then try again",
        StoreError::Database { .. } => "run `turnstone doctor`",
        StoreError::ReadOnly { .. } => "use the version of Turnstone that wrote it, or a newer one",
        StoreError::Internal(_) => BUG_REPORT_HINT,
        _ => return error.remedy().map(str::to_owned),
    };
    Some(hint.to_owned())
}
