//! The timeline of a session, read from the ledger; figures come from the captures, if they exist.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use turnstone_core::change::{Evidence, FileChange, FileImage};
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::model::{Origin, Part, PartBody, Session};
use turnstone_core::operation::{Extent, OperationKind};
use turnstone_core::path::RelPath;
use turnstone_core::time::{Cursor, Millis, Seq};
use turnstone_engine::{Engine, OperationReport, guards_of, mark_of, report_of, turns_of};
use turnstone_snapshot::{DiffOptions, Patch};
use turnstone_store::{
    ChangeRow, Context, OperationRow, Reader, SessionFilter, StoreError, TurnRow,
};

use crate::error::CliError;

/// Sessions read at once.
const PAGE: usize = 200;

/// One line of the timeline, with what belongs to it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Entry {
    Turn(TurnEntry),
    Operation(OperationEntry),
}

/// A turn.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TurnEntry {
    pub(super) id: TurnId,
    pub(super) prompt: Option<String>,
    pub(super) state: String,
    pub(super) started: Option<i64>,
    pub(super) ended: Option<i64>,
    /// A later branch hid it.
    pub(super) hidden: bool,
    /// Since when it cannot be undone any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expired: Option<Millis>,
    pub(super) files: Vec<FileEntry>,
    /// Paths that changed of which nothing can be said.
    pub(super) not_covered: u64,
}

/// A file a turn changed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FileEntry {
    pub(super) path: RelPath,
    /// `A`, `M`, `D`, or `?` if a side is not known.
    pub(super) status: char,
    pub(super) evidence: Evidence,
    pub(super) additions: Option<usize>,
    pub(super) deletions: Option<usize>,
    pub(super) undone: bool,
}

/// An operation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OperationEntry {
    pub(super) id: OperationId,
    pub(super) kind: OperationKind,
    pub(super) time: Millis,
    pub(super) turns: Vec<TurnId>,
    /// The operations that lost what they had displaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) guards: Vec<OperationId>,
    /// The name a point got, or gave up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// True if that name was given up.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) given_up: bool,
    /// False while it is not over.
    pub(super) done: bool,
    /// What it did to files, if it did something.
    pub(super) report: Option<OperationReport>,
}

/// A session that was copied from this one.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ForkEntry {
    pub(super) id: SessionId,
    pub(super) title: String,
    pub(super) directory: String,
    pub(super) origin: Option<Origin>,
}

/// The sessions that were forked from a session, oldest first.
pub(super) fn forks(
    engine: &Engine,
    ctx: &Context,
    session: &Session,
) -> Result<Vec<ForkEntry>, CliError> {
    let filter = SessionFilter {
        project: Some(session.project.clone()),
        archived: true,
        ..SessionFilter::default()
    };
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let at: Option<String> = cursor.take();
        let page = engine.store().read(ctx, |r| r.list_sessions(&filter, at.as_deref(), PAGE))?;
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
    let entry = |fork: Session| ForkEntry {
        id: fork.id,
        title: fork.title,
        directory: fork.directory,
        origin: fork.origin,
    };
    Ok(found.into_iter().map(entry).collect())
}

/// What was read of a session before figures are added.
struct Found {
    turns: Vec<FoundTurn>,
    operations: Vec<OperationRow>,
}

struct FoundTurn {
    turn: TurnRow,
    prompt: Option<String>,
    expired: Option<Millis>,
    /// Its change sets, and how much of each is taken back.
    changes: Vec<(ChangeRow, Extent)>,
}

/// Reads the timeline, oldest first.
pub(super) fn timeline(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    all: bool,
) -> Result<Vec<Entry>, CliError> {
    let found = engine.store().read(ctx, |r| find(r, session, all))?;
    let mut entries: Vec<(Cursor, Entry)> = Vec::new();
    for found in found.turns {
        let at = found.turn.span.0;
        entries.push((at, Entry::Turn(turn_entry(engine, ctx, found))));
    }
    for row in found.operations {
        let at = row.planned;
        entries.push((at, Entry::Operation(operation_entry(row)?)));
    }
    entries.sort_by_key(|(at, _)| *at);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

fn find(r: &Reader<'_>, session: &SessionId, all: bool) -> Result<Found, StoreError> {
    let (mut turns, expired) = (Vec::new(), r.expired(session)?);
    for turn in r.turns(session)?.into_iter().filter(|turn| all || !turn.hidden) {
        let mut changes = Vec::new();
        for row in r.turn_changes(session, &turn.id)? {
            let taken = r.taken(&row.set.id)?;
            changes.push((row, taken));
        }
        let prompt = prompt_of(r, session, &turn)?;
        let expired = expired.get(&turn.id).copied();
        turns.push(FoundTurn { turn, prompt, expired, changes });
    }
    let mut operations = r.operations(session)?;
    operations.retain(|row| all || row.kind != OperationKind::Branch);
    Ok(Found { turns, operations })
}

/// What a person asked for in a turn; nothing if that is not kept any more.
///
/// # Errors
///
/// The ledger cannot be read.
pub(crate) fn prompt(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Option<String>, CliError> {
    Ok(engine.store().read(ctx, |r| {
        let turns = r.turns(session)?;
        match turns.iter().find(|row| row.id == *turn) {
            Some(row) => prompt_of(r, session, row),
            None => Ok(None),
        }
    })?)
}

fn prompt_of(
    r: &Reader<'_>,
    session: &SessionId,
    turn: &TurnRow,
) -> Result<Option<String>, StoreError> {
    match r.get_message(session, &turn.message) {
        Ok(found) => return Ok(Some(words(found.parts))),
        Err(StoreError::NoMessage { .. }) => {}
        Err(error) => return Err(error),
    }
    // A branch hid it; it is as it was when the turn ended.
    let all = r.boundaries(session, Seq::default(), usize::MAX)?;
    let Some(at) = all.into_iter().rev().find(|it| it.cursor == turn.span.1) else {
        return Ok(None);
    };
    let then = r.session_at(session, at.seq)?.messages;
    let found = then.into_iter().find(|it| it.message.id == turn.message);
    Ok(found.map(|found| words(found.parts)))
}

/// What a person wrote, in one line.
fn words(parts: Vec<Part>) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only text is what a person said")]
    let text = |body: PartBody| match body {
        PartBody::Text(text) if text.synthetic != Some(true) => Some(text.text),
        _ => None,
    };
    let texts: Vec<String> = parts.into_iter().filter_map(|part| text(part.body)).collect();
    crate::text::clean_line(&texts.join(" "))
}

fn turn_entry(engine: &Engine, ctx: &Context, found: FoundTurn) -> TurnEntry {
    let FoundTurn { turn, prompt, expired, changes } = found;
    let mut files: Vec<FileEntry> = Vec::new();
    for (row, taken) in &changes {
        let figures = figures(engine, ctx, row).unwrap_or_default();
        for change in &row.set.changes {
            let (additions, deletions) = figures.get(&change.path).copied().unzip();
            files.push(FileEntry {
                path: change.path.clone(),
                status: status(change),
                evidence: row.set.evidence,
                additions,
                deletions,
                undone: taken.has(&change.path),
            });
        }
    }
    TurnEntry {
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

const fn status(change: &FileChange) -> char {
    match (&change.before, &change.after) {
        (FileImage::Uncovered { .. }, _) | (_, FileImage::Uncovered { .. }) => '?',
        (FileImage::Absent, _) => 'A',
        (_, FileImage::Absent) => 'D',
        _ => 'M',
    }
}

/// Lines added and removed; nothing if the captures are gone, which costs the figures only.
fn figures(
    engine: &Engine,
    ctx: &Context,
    row: &ChangeRow,
) -> Option<BTreeMap<RelPath, (usize, usize)>> {
    let vault = engine.vault(Path::new(&row.set.root.path), ctx.now).ok()?;
    let before = vault.find_capture(row.before.as_deref()?).ok()?;
    let after = vault.find_capture(row.after.as_deref()?).ok()?;
    let diff = vault.diff(&before, &after, &DiffOptions::default()).ok()?;
    let text = diff.files.into_iter().filter(|file| matches!(file.patch, Patch::Text(_)));
    Some(text.map(|file| (file.path, (file.additions, file.deletions))).collect())
}

fn operation_entry(row: OperationRow) -> Result<OperationEntry, CliError> {
    let (turns, report, mark) = (turns_of(&row)?, report_of(&row)?, mark_of(&row)?);
    let given_up = mark.as_ref().is_some_and(|mark| !mark.gives_up.is_empty());
    Ok(OperationEntry {
        guards: guards_of(&row)?,
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
