//! Reads the timeline of a session or of all sessions of a project from the database; line counts come from
//! the captures.

use std::collections::{BTreeMap, HashSet};

use serde::{Serialize, Serializer};
use turnstone_core::change::{Evidence, TraceReport};
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::model::{ForkOrigin, Part, PartBody, Session};
use turnstone_core::operation::{OperationKind, SessionHead, UndoExtent};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};
use turnstone_core::turn::TurnState;
use turnstone_engine::{
    Engine, OperationReport, decode_checkpoint, decode_expired_guards, decode_leader,
    decode_report, decode_turns,
};
use turnstone_process::signal_name;
use turnstone_snapshot::{DiffOptions, PatchBody};
use turnstone_store::{
    ChangeSetRow, Context, OperationRow, ReadTx, SessionFilter, StoreError, TurnRow,
};

use super::turn_numbers::TurnNumbers;
use crate::command::fork::origin_json;
use crate::error::CliError;
use crate::transcript::status_letter;

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
    pub(super) session: SessionId,
    /// Its number, counted from the newest turn of the project: what `@N` means.
    pub(super) number: Option<usize>,
    pub(super) prompt: Option<String>,
    pub(super) state: String,
    /// The exit code of a command that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i64>,
    /// The signal that ended its command, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signal: Option<String>,
    pub(super) started: Option<i64>,
    pub(super) ended: Option<i64>,
    /// Whether a later prompt abandoned it.
    pub(super) hidden: bool,
    /// Whether an import brought it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) imported: bool,
    /// Whether the conversation does not show it, because it was undone.
    #[serde(skip)]
    pub(super) is_behind_head: bool,
    /// When its undo data expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expired: Option<EpochMillis>,
    pub(super) files: Vec<LogFile>,
    /// Number of changed paths without recorded content.
    pub(super) not_covered: u64,
    /// Whether processes that its commands left running are still recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) background: bool,
    /// What the traces of its commands tell, one for each command that was to be traced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) traces: Vec<TraceReport>,
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
    pub(super) session: SessionId,
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
    /// The operation of another session that changed the files of these turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leader: Option<OperationId>,
    /// Changes to files, if any.
    pub(super) report: Option<Box<OperationReport>>,
}

/// A session forked from this one.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LogFork {
    pub(super) id: SessionId,
    pub(super) title: String,
    pub(super) directory: String,
    #[serde(serialize_with = "serialize_origin")]
    pub(super) origin: Option<ForkOrigin>,
}

fn serialize_origin<S: Serializer>(
    origin: &Option<ForkOrigin>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    origin.as_ref().map(origin_json).serialize(serializer)
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
    is_behind_head: bool,
    prompt: Option<String>,
    exit: CommandExitFacts,
    expired: Option<EpochMillis>,
    /// Change sets, and how much of each is undone.
    changes: Vec<(ChangeSetRow, UndoExtent)>,
}

/// How the last command of a turn ended, if not well.
#[derive(Default)]
struct CommandExitFacts {
    code: Option<i64>,
    signal: Option<String>,
}

/// What a log shows.
#[derive(Clone, Copy)]
pub(super) struct LogRange<'t> {
    /// Also turns that a later prompt abandoned.
    pub(super) all: bool,
    /// Nothing from before this place in the log.
    pub(super) since: LogCursor,
    /// Only these turns: a fork's copies are left out where the originals are listed.
    pub(super) turns: Option<&'t HashSet<TurnId>>,
}

/// Reads the timeline of sessions, oldest first.
pub(super) fn read_log<'s>(
    engine: &Engine,
    ctx: &Context,
    sessions: impl IntoIterator<Item = &'s SessionId>,
    range: LogRange<'_>,
    numbers: &TurnNumbers,
) -> Result<Vec<LogEntry>, CliError> {
    let mut entries: Vec<(LogCursor, LogEntry)> = Vec::new();
    for session in sessions {
        let found = engine.store().read(ctx, |r| read_rows(r, session, range))?;
        for found in found.turns {
            let (at, number) = (found.turn.span.0, numbers.find(&found.turn.id));
            let turn = turn_entry(engine, ctx, (session, number), found);
            entries.push((at, LogEntry::Turn(turn)));
        }
        for row in found.operations {
            let at = row.planned;
            entries.push((at, LogEntry::Operation(operation_entry(session, row)?)));
        }
    }
    entries.sort_by_key(|(at, _)| *at);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

fn read_rows(
    r: &ReadTx<'_>,
    session: &SessionId,
    range: LogRange<'_>,
) -> Result<LogRows, StoreError> {
    let LogRange { all, since, turns: listed_turns } = range;
    let (mut turns, expired) = (Vec::new(), r.undo_expiry().expired_turns(session)?);
    let (listed, head) = (r.turns().list(session)?, r.sessions().head(session)?);
    let first_undone = match &head {
        Some(head) => find_first_undone(r, session, head, &listed)?,
        None => None,
    };
    let is_shown = |turn: &TurnRow| {
        (all || !turn.hidden)
            && turn.span.0 >= since
            && listed_turns.is_none_or(|listed| listed.contains(&turn.id))
    };
    for turn in listed.into_iter().filter(is_shown) {
        let is_behind_head = !turn.hidden && first_undone.is_some_and(|first| turn.span.0 >= first);
        let mut changes = Vec::new();
        for row in r.change_sets().of_turn(session, &turn.id)? {
            let undone = r.change_sets().undone_extent(&row.set.id)?;
            changes.push((row, undone));
        }
        let prompt = read_prompt(r, session, &turn)?;
        let expired = expired.get(&turn.id).copied();
        let exit = match turn.state {
            TurnState::Failed | TurnState::Aborted => read_exit(r, session, &changes)?,
            TurnState::Accepted
            | TurnState::Running
            | TurnState::Waiting
            | TurnState::Completed
            | TurnState::Interrupted => CommandExitFacts::default(),
        };
        turns.push(LogTurnRows { turn, is_behind_head, prompt, exit, expired, changes });
    }
    let mut operations = r.operations().list(session)?;
    operations.retain(|row| row.planned >= since && (all || row.kind != OperationKind::Branch));
    Ok(LogRows { turns, operations })
}

/// Where the turns begin that lie wholly behind the head. An answer, or a part, is in the middle of its turn.
fn find_first_undone(
    r: &ReadTx<'_>,
    session: &SessionId,
    head: &SessionHead,
    turns: &[TurnRow],
) -> Result<Option<LogCursor>, StoreError> {
    if let Some(turn) = turns.iter().find(|turn| turn.message == head.message) {
        let is_whole = head.part.is_none();
        return Ok(Some(if is_whole { turn.span.0 } else { LogCursor(turn.span.0.0 + 1) }));
    }
    let owner = r.prompts().turn_of_answer(session, &head.message)?;
    let owner = turns.iter().find(|turn| Some(&turn.id) == owner.as_ref());
    Ok(owner.map(|turn| LogCursor(turn.span.0.0 + 1)))
}

/// How the last command of a turn ended; nothing if it ended well or is no longer stored.
fn read_exit(
    r: &ReadTx<'_>,
    session: &SessionId,
    changes: &[(ChangeSetRow, UndoExtent)],
) -> Result<CommandExitFacts, StoreError> {
    let nothing = CommandExitFacts::default();
    let Some(part) = changes.last().and_then(|(row, _)| row.set.part.as_ref()) else {
        return Ok(nothing);
    };
    match r.messages().get_part(session, part) {
        Ok(Part { body: PartBody::Tool(tool), .. }) => {
            let code = tool.exit_code().filter(|code| *code != 0);
            Ok(CommandExitFacts { code, signal: tool.signal().map(signal_name) })
        }
        Ok(_) | Err(StoreError::NoPart { .. } | StoreError::NoMessage { .. }) => Ok(nothing),
        Err(error) => Err(error),
    }
}

/// The prompt of a turn; `None` if it is no longer stored.
///
/// # Errors
///
/// The database cannot be read.
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

/// The prompt of a turn, read in a transaction; `None` if it is no longer stored.
///
/// # Errors
///
/// The database cannot be read.
pub(crate) fn read_prompt(
    r: &ReadTx<'_>,
    session: &SessionId,
    turn: &TurnRow,
) -> Result<Option<String>, StoreError> {
    match r.messages().get(session, &turn.message) {
        Ok(found) => {
            let prompt = prompt_text(found.parts);
            return match prompt.is_empty() {
                true => Ok(Some(find_shell_command(r, session, turn)?.unwrap_or(prompt))),
                false => Ok(Some(prompt)),
            };
        }
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

/// The command of a turn that a client's shell began: it has no prompt.
fn find_shell_command(
    r: &ReadTx<'_>,
    session: &SessionId,
    turn: &TurnRow,
) -> Result<Option<String>, StoreError> {
    for row in r.change_sets().of_turn(session, &turn.id)? {
        let Some(part) = &row.set.part else { continue };
        let part = match r.messages().get_part(session, part) {
            Err(StoreError::NoPart { .. } | StoreError::NoMessage { .. }) => continue,
            part => part?,
        };
        if let PartBody::Tool(tool) = part.body
            && let Some(command) = tool.input()["command"].as_str()
        {
            return Ok(Some(crate::text::sanitize_line(command)));
        }
    }
    Ok(None)
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

fn turn_entry(
    engine: &Engine,
    ctx: &Context,
    (session, number): (&SessionId, Option<usize>),
    found: LogTurnRows,
) -> LogTurn {
    let LogTurnRows { turn, is_behind_head, prompt, exit, expired, changes } = found;
    let mut files: Vec<LogFile> = Vec::new();
    for (row, undone) in &changes {
        let line_counts = count_changed_lines(engine, ctx, row).unwrap_or_default();
        for change in row.set.changes.iter().filter(|change| !change.is_directory_only()) {
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
        session: session.clone(),
        number,
        is_behind_head,
        prompt,
        state: turn.state.as_str().to_owned(),
        exit_code: exit.code,
        signal: exit.signal,
        started: turn.started,
        ended: turn.ended,
        hidden: turn.hidden,
        imported: turn.imported,
        expired,
        files,
        not_covered: changes.iter().map(|(row, _)| row.not_covered).sum(),
        background: changes.iter().any(|(row, _)| row.continues.is_some() && row.closed.is_none()),
        traces: changes.iter().filter_map(|(row, _)| row.set.trace.clone()).collect(),
    }
}

/// Lines added and removed per file; `None` if the captures are gone.
fn count_changed_lines(
    engine: &Engine,
    ctx: &Context,
    row: &ChangeSetRow,
) -> Option<BTreeMap<RelPath, (usize, usize)>> {
    let handle = engine.snapshots().of_root(&row.set.root, ctx.now).ok()?;
    let before = handle.reader().find_capture(row.before.as_deref()?).ok()?;
    let after = handle.reader().find_capture(row.after.as_deref()?).ok()?;
    let diff = handle.reader().diff_captures(&before, &after, &DiffOptions::default()).ok()?;
    let text = diff.files.into_iter().filter(|file| matches!(file.patch, PatchBody::Text(_)));
    Some(text.map(|file| (file.path, (file.additions, file.deletions))).collect())
}

fn operation_entry(session: &SessionId, row: OperationRow) -> Result<LogOperation, CliError> {
    let (turns, report, mark) =
        (decode_turns(&row)?, decode_report(&row)?, decode_checkpoint(&row)?);
    let leader = decode_leader(&row)?;
    let given_up = mark.as_ref().is_some_and(|mark| !mark.gives_up.is_empty());
    Ok(LogOperation {
        guards: decode_expired_guards(&row)?,
        id: row.id,
        session: session.clone(),
        kind: row.kind,
        time: row.time,
        turns,
        name: mark.map(|mark| mark.name),
        given_up,
        done: row.done.is_some(),
        leader: leader.map(|(_, operation)| operation),
        report: report.map(Box::new),
    })
}
