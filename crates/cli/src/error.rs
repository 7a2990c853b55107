//! What can go wrong, in words for people: what happened, and the command that helps.

use std::io;
use std::path::PathBuf;

use turnstone_core::id::SessionId;
use turnstone_engine::EngineError;
use turnstone_exchange::{ExportError, SourceError};
use turnstone_snapshot::SnapshotError;
use turnstone_store::{DatabaseOpenError, StoreError};

use crate::clock;
use crate::command::snapshot;
use crate::exit_code::{BUG_REPORT_HINT, ProgramExit};
use crate::time_format;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] DatabaseOpenError),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The source of an import cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The import was cut off.
    #[error("the import stopped; what was imported until then is kept")]
    Import(#[source] StoreError),
    /// The session cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Snapshots were asked for and refused.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The engine refused.
    #[error(transparent)]
    Engine(EngineError),
    /// No turn is called that.
    #[error("no turn here begins with {0}")]
    NoTurn(String),
    /// The directory has no session yet.
    #[error("there is no session in {}", .0.display())]
    NoSessionHere(PathBuf),
    /// No session is called that.
    #[error("no session begins with {0}")]
    NoSession(String),
    /// Several sessions are.
    #[error("{} sessions begin with {prefix}:{}", count(*more, candidates.len()), list(candidates, *more))]
    AmbiguousSession {
        /// What was asked for.
        prefix: String,
        /// What it could be, with titles.
        candidates: Vec<(SessionId, String)>,
        /// There are more than these.
        more: bool,
    },
    /// No project is called that.
    #[error("no project begins with {0}")]
    NoProject(String),
    /// Several projects are.
    #[error("several projects begin with {prefix}: {}", candidates.join(", "))]
    AmbiguousProject {
        /// What was asked for.
        prefix: String,
        /// What it could be.
        candidates: Vec<String>,
    },
    /// The current directory belongs to no project.
    #[error("{} belongs to no project", .0.display())]
    NotInProject(PathBuf),
    /// A deletion needs somebody's word.
    #[error("not deleting anything without a yes")]
    NotConfirmed,
    /// There is no directory to work in.
    #[error("the current directory does not exist any more")]
    NoDirectory,
    /// There is no home for the data.
    #[error("cannot tell where to keep the data: there is no home directory")]
    NoDataDirectory,
    /// Something about the request does not fit.
    #[error("{what}")]
    Refused {
        /// What is wrong.
        what: String,
        /// What helps.
        hint: Option<String>,
    },
    /// A file could not be written or read.
    #[error("{what}")]
    File {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Standard output does not take any more.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    /// A value of ours has no JSON form.
    #[error("internal error: a value has no JSON form")]
    Json(#[from] serde_json::Error),
}

impl From<EngineError> for CliError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "what is the engine's own stays its own")]
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => Self::Store(error),
            EngineError::Open(error) => Self::Open(error),
            EngineError::Snapshot(error) => Self::Snapshot(error),
            EngineError::UndoExpired { session, turn, at } => Self::Refused {
                what: format!(
                    "the undo of turn {turn} of session {session} expired {}: nothing was changed",
                    time_format::format_local_time(at.0, clock::now())
                ),
                hint: Some(
                    "its bytes made room for newer ones; `turnstone log` shows which turns can be \
                     undone, `snapshot.budget` in the configuration gives them more room"
                        .to_owned(),
                ),
            },
            EngineError::GuardExpired { operation, at } => Self::Refused {
                what: format!(
                    "what operation {operation} displaced expired {}: nothing was changed",
                    time_format::format_local_time(at.0, clock::now())
                ),
                hint: Some(
                    "its bytes made room for newer ones; `snapshot.budget` in the configuration \
                     gives them more room"
                        .to_owned(),
                ),
            },
            error => Self::Engine(error),
        }
    }
}

fn count(more: bool, shown: usize) -> String {
    if more { format!("more than {shown}") } else { shown.to_string() }
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
    /// The code the program ends with.
    pub(crate) fn exit_code(&self) -> ProgramExit {
        match self {
            Self::Open(DatabaseOpenError::Locked { .. }) => ProgramExit::Conflict,
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
            | Self::NoSessionHere(_)
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

    /// The command or step that helps.
    pub(crate) fn hint(&self) -> Option<String> {
        let words = match self {
            Self::Open(error) => error.remedy(),
            Self::Store(error) | Self::Export(ExportError::Store(error)) => {
                return hint_for_store_error(error);
            }
            Self::Import(error) => {
                return hint_for_store_error(error)
                    .or_else(|| Some("run the import again".to_owned()));
            }
            Self::Source(error) => error.remedy(),
            Self::Snapshot(error) => return snapshot::hint_for_snapshot_error(error),
            Self::Engine(error) => return hint_for_engine_error(error),
            Self::NoTurn(_) => {
                "`turnstone log` shows the turns, `--session ID` those of another session"
            }
            Self::NoSessionHere(_) => {
                "`turnstone exec -- COMMAND` runs a command that can be undone"
            }
            Self::NoSession(_) | Self::Export(_) => {
                "`turnstone session list --all` shows every session"
            }
            Self::AmbiguousSession { .. } => "give more letters of the id",
            Self::NoProject(_) => "`turnstone project list` names the projects",
            Self::AmbiguousProject { .. } => "give more letters of the id",
            Self::NotInProject(_) => "name one with --project ID",
            Self::NotConfirmed => "`--dry-run` shows what would go, `--yes` deletes it",
            Self::NoDirectory => "change to a directory that exists",
            Self::NoDataDirectory => "choose a place with --data DIR or TURNSTONE_DATA",
            Self::Refused { hint, .. } => return hint.clone(),
            Self::Json(_) => BUG_REPORT_HINT,
            Self::File { .. } | Self::Output(_) => return None,
        };
        Some(words.to_owned())
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow; the rest is a refusal")]
fn exit_for_engine_error(error: &EngineError) -> ProgramExit {
    match error {
        EngineError::ProcessGroup(_)
        | EngineError::StalePlan(_)
        | EngineError::PermissionPending { .. } => ProgramExit::Conflict,
        _ => ProgramExit::Refused,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow; the rest needs no words")]
fn hint_for_engine_error(error: &EngineError) -> Option<String> {
    let words = match error {
        EngineError::NothingToUndo(_) => {
            "`turnstone log` shows what happened; `turnstone session list` names the other sessions, \
             --session chooses one"
        }
        EngineError::NothingToRedo(_) => "`turnstone log` shows what was undone and redone",
        EngineError::NoTurn { .. } => "`turnstone log` shows the turns",
        EngineError::RootGone { .. }
        | EngineError::DirectoryGone { .. }
        | EngineError::ProjectGone { .. } => {
            "`turnstone project list` and `turnstone project relink ID DIR` tell where it went"
        }
        EngineError::NoProject(_) => "`turnstone project list` names the projects",
        EngineError::ProcessGroup(_) => "end those processes, then try again",
        EngineError::StalePlan(_) => "try again",
        EngineError::PermissionRefused { gate, pattern, .. } => {
            let gate = gate.as_str();
            return Some(format!(
                "`turnstone permission explain {gate} {pattern:?}` shows the rule"
            ));
        }
        EngineError::PermissionPending { request, .. } => {
            return Some(format!("approve it with `turnstone permission reply {request} always`"));
        }
        EngineError::Git(error) => return error.hint().map(str::to_owned),
        EngineError::Repository(error) => return error.hint(),
        EngineError::UnreadableRules { .. } => "fix the file, or move it away for now",
        EngineError::UnreadableOperation { .. } => "run `turnstone doctor`",
        EngineError::OverBudget(_) => {
            "delete or archive sessions you do not need, raise `snapshot.budget` or \
             `snapshot.total_budget` in the configuration, or let commands run without undo with \
             \"undo\": \"best-effort\"; `turnstone snapshot du` shows what takes the space"
        }
        _ => return None,
    };
    Some(words.to_owned())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow; the rest needs no words")]
fn exit_for_store_error(error: &StoreError) -> ProgramExit {
    match error {
        StoreError::Busy(_)
        | StoreError::InUse { .. }
        | StoreError::Locked { .. }
        | StoreError::Stale { .. }
        | StoreError::Fenced(_)
        | StoreError::Conflict { .. } => ProgramExit::Conflict,
        StoreError::Internal(_) => ProgramExit::Bug,
        _ => ProgramExit::Refused,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum may grow; the rest needs no words")]
fn hint_for_store_error(error: &StoreError) -> Option<String> {
    let words = match error {
        StoreError::NoSession(_) | StoreError::Deleted(_) => {
            "`turnstone session list --all` shows every session"
        }
        StoreError::Busy(_) => "wait for the turn to end, then try again",
        StoreError::Locked { .. } | StoreError::InUse { .. } => {
            "end the other process or wait for it"
        }
        StoreError::Stale { .. } | StoreError::Fenced(_) => "look at the session, then try again",
        StoreError::Full { .. } => "free some space and try again; nothing acknowledged is lost",
        StoreError::Corrupt { .. } | StoreError::Poisoned { .. } | StoreError::Database { .. } => {
            "run `turnstone doctor`"
        }
        StoreError::ReadOnly { .. } => "use the version of turnstone that wrote it",
        StoreError::Internal(_) => BUG_REPORT_HINT,
        _ => return None,
    };
    Some(words.to_owned())
}
