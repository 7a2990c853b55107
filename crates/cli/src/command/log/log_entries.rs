//! Reads the timeline of a session from the ledger; line counts come from the captures.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use turnstone_core::change::{Evidence, FileChange, PathImage};
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::model::{ForkOrigin, Part, PartBody, Session};
use turnstone_core::operation::{OperationKind, UndoExtent};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};
use turnstone_engine::{
    Engine, OperationReport, decode_checkpoint, decode_expired_guards, decode_report, decode_turns,
};
use turnstone_snapshot::{DiffOptions, PatchBody};
use turnstone_store::{
    ChangeSetRow, Context, OperationRow, ReadTx, SessionFilter, StoreError, TurnRow,
};

use crate::error::CliError;

/// Sessions per page.
const SESSION_PAGE_SIZE: usize = 200;

/// An entry of the timeline.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum LogEntry {
    Turn(LogTurn),
    Operation(LogOperation),
}

/// A turn.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LogTurn {
    pub(super) id: TurnId,
    pub(super) prompt: Option<String>,
    pub(super) state: String,
    pub(super) started: Option<i64>,
    pub(super) ended: Option<i64>,
    /// Whether a later prompt abandoned it.
    pub(super) hidden: bool,
    /// When its undo data expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expired: Option<EpochMillis>,
    pub(super) files: Vec<LogFile>,
    /// Number of changed paths without recorded content.
    pub(super) not_covered: u64,
}

/// A file a turn changed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LogFile {
    pub(super) path: RelPath,
    /// `A`, `M`, `D`, or `?` if before or after is unknown.
    pub(super) status: char,
    pub(super) evidence: Evidence,
    pub(super) additions: Option<usize>,
    pub(super) deletions: Option<usize>,
    pub(super) undone: bool,
}

/// An operation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LogOperation {
    pub(super) id: OperationId,
    pub(super) kind: OperationKind,
    pub(super) time: EpochMillis,
    pub(super) turns: Vec<TurnId>,
    /// Operations whose guard expired.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) guards: Vec<OperationId>,
    /// Name of the created or removed checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Whether the checkpoint was removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) given_up: bool,
    /// Whether it is complete.
    pub(super) done: bool,
    /// Changes to files, if any.
    pub(super) report: Option<OperationReport>,
}

/// A session forked from this one.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LogFork {
    pub(super) id: SessionId,
    pub(super) title: String,
    pub(super) directory: String,
    pub(super) origin: Option<ForkOrigin>,
}

/// The sessions that were forked from a session, oldest first.
pub(super) fn read_forks(
    engine: &Engine,
    ctx: &Context,
    session: &Session,
) -> Result<Vec<LogFork>, CliError> {
    let filter = SessionFilter {
        project: Some(session.project.clone()),
        archived: true,
        ..SessionFilter::default()
    };
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let at: Option<String> = cursor.take();
        let page = engine
            .store()
            .read(ctx, |r| r.sessions().list(&filter, at.as_deref(), SESSION_PAGE_SIZE))?;
        let of_it = page.items.into_iter().map(|row| row.session).filter(|other| {
            other.origin.as_ref().is_some_and(|origin| origin.session == session.id)
        });
        found.extend(of_it);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    found.sort_by_key(|fork| fork.time.created.as_i64());
    let entry = |fork: Session| LogFork {
        id: fork.id,
        title: fork.title,
        directory: fork.directory,
        origin: fork.origin,
    };
    Ok(found.into_iter().map(entry).collect())
}

/// Rows of a session, before line counts are added.
struct LogRows {
    turns: Vec<LogTurnRows>,
    operations: Vec<OperationRow>,
}

struct LogTurnRows {
    turn: TurnRow,
    prompt: Option<String>,
    expired: Option<EpochMillis>,
    /// Change sets, and how much of each is undone.
    changes: Vec<(ChangeSetRow, UndoExtent)>,
}

/// Reads the timeline, oldest first.
pub(super) fn read_log(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    all: bool,
) -> Result<Vec<LogEntry>, CliError> {
    let found = engine.store().read(ctx, |r| read_rows(r, session, all))?;
    let mut entries: Vec<(LogCursor, LogEntry)> = Vec::new();
    for found in found.turns {
        let at = found.turn.span.0;
        entries.push((at, LogEntry::Turn(turn_entry(engine, ctx, found))));
    }
    for row in found.operations {
        let at = row.planned;
        entries.push((at, LogEntry::Operation(operation_entry(row)?)));
    }
    entries.sort_by_key(|(at, _)| *at);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

fn read_rows(r: &ReadTx<'_>, session: &SessionId, all: bool) -> Result<LogRows, StoreError> {
    let (mut turns, expired) = (Vec::new(), r.expiry().expired_turns(session)?);
    for turn in r.turns().list(session)?.into_iter().filter(|turn| all || !turn.hidden) {
        let mut changes = Vec::new();
        for row in r.change_sets().of_turn(session, &turn.id)? {
            let undone = r.change_sets().undone_extent(&row.set.id)?;
            changes.push((row, undone));
        }
        let prompt = read_prompt(r, session, &turn)?;
        let expired = expired.get(&turn.id).copied();
        turns.push(LogTurnRows { turn, prompt, expired, changes });
    }
    let mut operations = r.operations().list(session)?;
    operations.retain(|row| all || row.kind != OperationKind::Branch);
    Ok(LogRows { turns, operations })
}

/// The prompt of a turn; `None` if it is no longer stored.
///
/// # Errors
///
/// The ledger cannot be read.
pub(crate) fn find_turn_prompt(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Option<String>, CliError> {
    Ok(engine.store().read(ctx, |r| {
        let turns = r.turns().list(session)?;
        match turns.iter().find(|row| row.id == *turn) {
            Some(row) => read_prompt(r, session, row),
            None => Ok(None),
        }
    })?)
}

fn read_prompt(
    r: &ReadTx<'_>,
    session: &SessionId,
    turn: &TurnRow,
) -> Result<Option<String>, StoreError> {
    match r.messages().get(session, &turn.message) {
        Ok(found) => return Ok(Some(prompt_text(found.parts))),
        Err(StoreError::NoMessage { .. }) => {}
        Err(error) => return Err(error),
    }
    // Abandoned by a later prompt: read it as of the end of the turn.
    let all = r.history().boundaries(session, SessionSeq::default(), usize::MAX)?;
    let Some(at) = all.into_iter().rev().find(|it| it.cursor == turn.span.1) else {
        return Ok(None);
    };
    let then = r.history().session_at_boundary(session, at.seq)?.messages;
    let found = then.into_iter().find(|it| it.message.id == turn.message);
    Ok(found.map(|found| prompt_text(found.parts)))
}

/// The user's text on one line.
fn prompt_text(parts: Vec<Part>) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only text is written by the user")]
    let text = |body: PartBody| match body {
        PartBody::Text(text) if text.synthetic != Some(true) => Some(text.text),
        _ => None,
    };
    let texts: Vec<String> = parts.into_iter().filter_map(|part| text(part.body)).collect();
    crate::text::sanitize_line(&texts.join(" "))
}

fn turn_entry(engine: &Engine, ctx: &Context, found: LogTurnRows) -> LogTurn {
    let LogTurnRows { turn, prompt, expired, changes } = found;
    let mut files: Vec<LogFile> = Vec::new();
    for (row, undone) in &changes {
        let line_counts = count_changed_lines(engine, ctx, row).unwrap_or_default();
        for change in &row.set.changes {
            let (additions, deletions) = line_counts.get(&change.path).copied().unzip();
            files.push(LogFile {
                path: change.path.clone(),
                status: status_letter(change),
                evidence: row.set.evidence,
                additions,
                deletions,
                undone: undone.contains_path(&change.path),
            });
        }
    }
    LogTurn {
        id: turn.id,
        prompt,
        state: turn.state.as_str().to_owned(),
        started: turn.started,
        ended: turn.ended,
        hidden: turn.hidden,
        expired,
        files,
        not_covered: changes.iter().map(|(row, _)| row.not_covered).sum(),
    }
}

const fn status_letter(change: &FileChange) -> char {
    match (&change.before, &change.after) {
        (PathImage::Uncovered { .. }, _) | (_, PathImage::Uncovered { .. }) => '?',
        (PathImage::Absent, _) => 'A',
        (_, PathImage::Absent) => 'D',
        _ => 'M',
    }
}

/// Lines added and removed per file; `None` if the captures are gone.
fn count_changed_lines(
    engine: &Engine,
    ctx: &Context,
    row: &ChangeSetRow,
) -> Option<BTreeMap<RelPath, (usize, usize)>> {
    let handle = engine.snapshots().open(Path::new(&row.set.root.path), ctx.now).ok()?;
    let before = handle.reader().find_capture(row.before.as_deref()?).ok()?;
    let after = handle.reader().find_capture(row.after.as_deref()?).ok()?;
    let diff = handle.reader().diff_captures(&before, &after, &DiffOptions::default()).ok()?;
    let text = diff.files.into_iter().filter(|file| matches!(file.patch, PatchBody::Text(_)));
    Some(text.map(|file| (file.path, (file.additions, file.deletions))).collect())
}

fn operation_entry(row: OperationRow) -> Result<LogOperation, CliError> {
    let (turns, report, mark) =
        (decode_turns(&row)?, decode_report(&row)?, decode_checkpoint(&row)?);
    let given_up = mark.as_ref().is_some_and(|mark| !mark.gives_up.is_empty());
    Ok(LogOperation {
        guards: decode_expired_guards(&row)?,
        id: row.id,
        kind: row.kind,
        time: row.time,
        turns,
        name: mark.map(|mark| mark.name),
        given_up,
        done: row.done.is_some(),
        report,
    })
}
