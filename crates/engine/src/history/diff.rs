//! Differences: what a turn, an answer, a session changed, or what lies between two points. Only
//! what its calls changed: nothing a person or another session did is in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Number;
use turnstone_core::change::{ChangeRoot, Evidence, TraceReport};
use turnstone_core::id::{MessageId, SessionId, TurnId};
use turnstone_core::model::{ChangeSummary, ExtraFields, MessageBody, SessionFileDiff};
use turnstone_core::operation::UndoExtent;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_snapshot::DiffOptions;
use turnstone_store::{ChangeSetRow, Context, Store};

use crate::error::{EngineError, Result};
use crate::history::historical_state::HistoricalState;
use crate::history::jump::{SessionPoint, resolve_point};
use crate::history::session_changes::SessionChanges;
use crate::history::session_recovery::SessionRecovery;
use crate::history::timeline::Timeline;
use crate::history::undo::ChangeSetUndoState;

/// Larger patches are left out, and all after this much together.
const MAX_PATCH_BYTES: usize = 1 << 20;
const MAX_TOTAL_PATCH_BYTES: usize = 16 << 20;
/// A patch shows the whole file, as OpenCode's do.
const WHOLE_FILE_CONTEXT: usize = 1 << 30;

/// What changed, file by file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionDiff {
    /// The files; one outside of the session's root by its whole path.
    pub files: Vec<SessionFileDiff>,
    /// Paths that are not covered: where, which, why.
    pub not_covered: Vec<(ChangeRoot, RelPath, String)>,
    /// How the files are known, by their names: a file that several calls changed by the least certain evidence.
    /// Files of imported turns have none.
    pub evidence: BTreeMap<String, Evidence>,
    /// What the traces of the compared commands tell besides.
    pub traces: Vec<TurnTrace>,
}

/// What the trace of a command tells, and whose command it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnTrace {
    /// The turn of the command.
    pub turn: TurnId,
    /// What the trace tells besides the changes.
    #[serde(flatten)]
    pub report: TraceReport,
}

impl SessionDiff {
    /// The figures people see.
    #[must_use]
    pub fn summary(&self) -> ChangeSummary {
        let sum = |of: fn(&SessionFileDiff) -> &Number| {
            Number::from(self.files.iter().filter_map(|file| of(file).as_u64()).sum::<u64>())
        };
        ChangeSummary {
            additions: sum(|file| &file.additions),
            deletions: sum(|file| &file.deletions),
            files: Number::from(self.files.len()),
            diffs: None,
            extra: ExtraFields::default(),
        }
    }
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffTarget {
    /// What the session changed and was not undone.
    Session,
    /// What a turn changed, undone or not.
    Turn(TurnId),
    /// What the turn of a prompt changed, or the calls of an answer.
    Message(MessageId),
    /// What changes on the way from one point to another; none: the beginning, and the present.
    Points(Option<SessionPoint>, Option<SessionPoint>),
}

/// How it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffFormat {
    /// Patches of whole files, as the JavaScript library `diff` prints them.
    #[default]
    JsDiff,
    /// Patches that `git apply` takes, with so many lines around each change.
    Git(usize),
    /// Figures only.
    CountsOnly,
}

impl DiffFormat {
    pub(crate) fn options(self) -> DiffOptions {
        let usual = DiffOptions::default();
        match self {
            Self::JsDiff => DiffOptions {
                context: WHOLE_FILE_CONTEXT,
                max_patch_bytes: MAX_PATCH_BYTES,
                max_total_bytes: MAX_TOTAL_PATCH_BYTES,
                ..usual
            },
            Self::Git(context) => {
                DiffOptions { context, binary_patches: true, only_utf8_is_text: true, ..usual }
            }
            Self::CountsOnly => DiffOptions { context: 0, ..usual },
        }
    }
}

/// Differences between points of a session.
#[derive(Clone)]
pub struct Diffs {
    pub(crate) store: Arc<Store>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) changes: SessionChanges,
}

/// The diff that the program which ran a turn stored with its prompt.
fn imported_message_diff(body: MessageBody) -> SessionDiff {
    let files = match body {
        MessageBody::User(user) => user.summary.map(|summary| summary.diffs),
        MessageBody::Assistant(_) => None,
    };
    SessionDiff { files: files.unwrap_or_default(), ..SessionDiff::default() }
}

impl Diffs {
    /// Compares; only what the calls of the session changed is in it, nothing a person did.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoTurn`], [`EngineError::NoPoint`] or
    /// [`turnstone_store::StoreError::NoMessage`]; or something could not be read: then there is no
    /// difference, not a short one.
    pub fn diff(
        &self,
        ctx: &Context,
        session: &SessionId,
        what: &DiffTarget,
        form: DiffFormat,
    ) -> Result<SessionDiff> {
        self.recovery.ensure_recovered(ctx, session)?;
        let line = self.store.read(ctx, |r| Timeline::read(r, session))?;
        let whole = |_: &ChangeSetUndoState, _: &RelPath| (true, false);
        match what {
            DiffTarget::Session => {
                let changes = self.changes.of_session(ctx, session, &line)?;
                let taken = |selected: &ChangeSetUndoState, path: &RelPath| {
                    (true, selected.undone.contains_path(path))
                };
                if changes.is_empty() {
                    return self.imported_diff(ctx, session);
                }
                self.changes.diff(ctx, session, form, &changes, taken)
            }
            DiffTarget::Turn(turn) => {
                let missing =
                    || EngineError::NoTurn { session: session.clone(), turn: turn.clone() };
                let found = line.turns.iter().find(|it| it.id == *turn).ok_or_else(missing)?;
                let changes = self.changes.of_turns(ctx, session, &[found])?;
                if changes.is_empty() && found.imported {
                    let message =
                        self.store.read(ctx, |r| r.messages().get(session, &found.message))?;
                    return Ok(imported_message_diff(message.message.body));
                }
                self.changes.diff(ctx, session, form, &changes, whole)
            }
            DiffTarget::Message(message) => {
                let found = self.store.read(ctx, |r| r.messages().get(session, message))?;
                let turn = line.turns.iter().find(|turn| turn.message == *message);
                let changes = match turn {
                    Some(turn) => self.changes.of_turns(ctx, session, &[turn])?,
                    None => self.answer_change_sets(ctx, session, &line, message)?,
                };
                if changes.is_empty() && turn.is_none_or(|turn| turn.imported) {
                    return Ok(imported_message_diff(found.message.body));
                }
                self.changes.diff(ctx, session, form, &changes, whole)
            }
            DiffTarget::Points(from, to) => {
                self.diff_points(ctx, session, form, from.as_ref(), to.as_ref())
            }
        }
    }

    /// The diff that an import brought for a session; empty if it brought none.
    fn imported_diff(&self, ctx: &Context, session: &SessionId) -> Result<SessionDiff> {
        let files = self.store.read(ctx, |r| {
            if r.turns().list(session)?.iter().any(|turn| !turn.imported) {
                return Ok(None);
            }
            let summary = r.sessions().get(session)?.summary;
            Ok(r.sessions().diff(session)?.or_else(|| summary.and_then(|summary| summary.diffs)))
        })?;
        Ok(SessionDiff { files: files.unwrap_or_default(), ..SessionDiff::default() })
    }

    /// The change sets of the calls of one answer.
    fn answer_change_sets(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
        message: &MessageId,
    ) -> Result<Vec<ChangeSetUndoState>> {
        let mut changes = self.changes.of_session(ctx, session, line)?;
        changes.retain(|selected| {
            let part = selected.row.set.part.as_ref();
            part.is_some_and(|part| line.message_of(part) == Some(message))
        });
        Ok(changes)
    }

    fn diff_points(
        &self,
        ctx: &Context,
        session: &SessionId,
        form: DiffFormat,
        from: Option<&SessionPoint>,
        to: Option<&SessionPoint>,
    ) -> Result<SessionDiff> {
        let (line, operations) = Timeline::read_with_operations(&self.store, ctx, session)?;
        let find = |point: Option<&SessionPoint>, other: LogCursor| match point {
            Some(point) => {
                Ok(resolve_point(&self.store, ctx, session, &line, &operations, point)?.cursor)
            }
            None => Ok::<_, EngineError>(other),
        };
        let (from, to) = (find(from, LogCursor(0))?, find(to, LogCursor(i64::MAX))?);
        let changes = self.changes.of_session(ctx, session, &line)?;
        let (one, other) =
            (HistoricalState::at(&operations, from), HistoricalState::at(&operations, to));
        let taken = |past: &HistoricalState, at, row: &ChangeSetRow| match row.opened > at {
            true => UndoExtent::All,
            false => past.undone_extent(&row.set.id),
        };
        let stood = |selected: &ChangeSetUndoState, path: &RelPath| {
            let before = taken(&one, from, &selected.row).contains_path(path);
            (before, taken(&other, to, &selected.row).contains_path(path))
        };
        self.changes.diff(ctx, session, form, &changes, stood)
    }
}
