//! The timeline of a session: its turns with what they did to files, and its operations.

use axum::Router;
use axum::routing::get;
use serde::Serialize;
use turnstone_core::change::{Evidence, FileChange, PathImage, TraceReport};
use turnstone_core::id::{MessageId, OperationId, SessionId, TurnId};
use turnstone_core::model::SessionStatus;
use turnstone_core::operation::{OperationKind, SessionHead};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_engine::{
    DiffFormat, DiffTarget, EngineError, OperationReport, decode_report, decode_turns,
};
use turnstone_store::{Context, OperationRow, ReadTx, TurnRow};

use super::seq_stamped::{SeqStamped, stamp_seq};
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_input::QueryParams;
use crate::request_scope::SessionRequest;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/turnstone/session/{session}", get(session_state))
        .route("/turnstone/session/{session}/timeline", get(timeline))
}

/// A line of the timeline.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum TimelineEntry {
    /// A turn.
    Turn(TimelineTurn),
    /// An operation.
    Operation(TimelineOperation),
}

/// A turn.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TimelineTurn {
    /// Names it.
    id: TurnId,
    /// The message that began it.
    #[serde(rename = "messageID")]
    message: MessageId,
    /// How far it got.
    state: &'static str,
    /// When it began to run.
    started: Option<i64>,
    /// When it ended.
    ended: Option<i64>,
    /// True if a later branch hid it.
    hidden: bool,
    /// The files it changed, oldest change first.
    files: Vec<TimelineFile>,
    /// Lines it added and removed, over all its files.
    additions: u64,
    /// See `additions`.
    deletions: u64,
    /// Paths that changed and are not covered.
    not_covered: u64,
    /// What the traces of its commands tell, one for each command that was to be traced.
    traces: Vec<TimelineTrace>,
}

/// What the trace of a command tells besides its own changes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TimelineTrace {
    /// The first paths that only others changed meanwhile: no undo of the command touches them.
    others: Vec<RelPath>,
    /// How many there were.
    others_count: u64,
    /// Paths that both the command and others changed.
    shared: Vec<RelPath>,
    /// Paths that no capture covers, and at or below which the command wrote: the first ones.
    uncovered: Vec<RelPath>,
    /// Why the changes could not be attributed; nothing if they were.
    untraced: Option<String>,
}

impl From<TraceReport> for TimelineTrace {
    fn from(report: TraceReport) -> Self {
        Self {
            others_count: report.others.count(),
            others: report.others.paths,
            shared: report.shared,
            uncovered: report.uncovered.paths,
            untraced: report.untraced,
        }
    }
}

/// A file a turn changed.
#[derive(Serialize)]
struct TimelineFile {
    /// Where, below its root.
    path: RelPath,
    /// `A`, `M`, `D`, or `?` if a side is not known.
    status: char,
    /// How it is known: `named`, `traced`, `window`, `recovered` or `imported`.
    evidence: Evidence,
    /// True if it is undone.
    undone: bool,
}

/// An operation.
#[derive(Serialize)]
struct TimelineOperation {
    /// Names it.
    id: OperationId,
    /// Undo, redo, jump, branch, checkpoint, …
    kind: OperationKind,
    /// When, in milliseconds.
    time: i64,
    /// The turns it is about.
    turns: Vec<TurnId>,
    /// What it did; nothing while it is not over.
    report: Option<Box<OperationReport>>,
}

/// What a change did to a file, in a letter.
pub(super) const fn change_letter(change: &FileChange) -> char {
    match (&change.before, &change.after) {
        (PathImage::Uncovered { .. }, _) | (_, PathImage::Uncovered { .. }) => '?',
        (PathImage::Absent | PathImage::Directory { .. }, _) => 'A',
        (_, PathImage::Absent | PathImage::Directory { .. }) => 'D',
        _ => 'M',
    }
}

/// `GET /turnstone/session/{sessionID}/timeline`
async fn timeline(
    request: SessionRequest,
    query: QueryParams,
) -> Result<SeqStamped<Vec<TimelineEntry>>, ApiError> {
    let all = query.flag("all")?;
    request
        .run(move |app, ctx, id| {
            app.engine().maintenance().ensure_recovered(ctx, id)?;
            let (turns, operations) = app.engine().store().read(ctx, |r| {
                let mut turns = Vec::new();
                for row in r.turns().list(id)?.into_iter().filter(|row| all || !row.hidden) {
                    turns.push((row.span.0, timeline_turn(r, id, &row)?));
                }
                Ok((turns, r.operations().list(id)?))
            })?;
            let mut entries: Vec<(LogCursor, TimelineEntry)> = Vec::new();
            for (at, mut turn) in turns {
                add_line_counts(app, ctx, id, &mut turn)?;
                entries.push((at, TimelineEntry::Turn(turn)));
            }
            let shown = operations.iter().filter(|it| all || it.kind != OperationKind::Branch);
            for row in shown {
                entries.push((row.planned, TimelineEntry::Operation(timeline_operation(row)?)));
            }
            entries.sort_by_key(|(at, _)| *at);
            stamp_seq(app, ctx, id, entries.into_iter().map(|(_, entry)| entry).collect())
        })
        .await
}

fn timeline_turn(
    r: &ReadTx<'_>,
    session: &SessionId,
    row: &TurnRow,
) -> turnstone_store::Result<TimelineTurn> {
    let (mut files, mut traces, mut not_covered) = (Vec::new(), Vec::new(), 0);
    for change in r.change_sets().of_turn(session, &row.id)? {
        let taken = r.change_sets().undone_extent(&change.set.id)?;
        not_covered += change.not_covered;
        let files_only = change.set.changes.iter().filter(|it| !it.is_directory_only());
        files.extend(files_only.map(|it| TimelineFile {
            path: it.path.clone(),
            status: change_letter(it),
            evidence: change.set.evidence,
            undone: taken.contains_path(&it.path),
        }));
        traces.extend(change.set.trace.map(TimelineTrace::from));
    }
    Ok(TimelineTurn {
        id: row.id.clone(),
        message: row.message.clone(),
        state: row.state.as_str(),
        started: row.started,
        ended: row.ended,
        hidden: row.hidden,
        files,
        additions: 0,
        deletions: 0,
        not_covered,
        traces,
    })
}

fn timeline_operation(row: &OperationRow) -> Result<TimelineOperation, ApiError> {
    Ok(TimelineOperation {
        id: row.id.clone(),
        kind: row.kind,
        time: row.time.0,
        turns: decode_turns(row)?,
        report: decode_report(row)?.map(Box::new),
    })
}

/// Adds the figures of a turn; they need the captures, which may have expired.
fn add_line_counts(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    turn: &mut TimelineTurn,
) -> Result<(), ApiError> {
    if turn.files.is_empty() {
        return Ok(());
    }
    let what = DiffTarget::Turn(turn.id.clone());
    match app.engine().history().diffs().diff(ctx, session, &what, DiffFormat::CountsOnly) {
        Ok(found) => {
            let summary = found.summary();
            turn.additions = summary.additions.as_u64().unwrap_or(0);
            turn.deletions = summary.deletions.as_u64().unwrap_or(0);
            Ok(())
        }
        // The captures are gone, or their directory is: only the figures are.
        Err(
            EngineError::Snapshot(_)
            | EngineError::DirectoryGone { .. }
            | EngineError::DirectoryReplaced { .. },
        ) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The state of a session.
#[derive(Serialize)]
struct SessionStateResponse {
    session: SessionId,
    seq: SessionSeq,
    status: SessionStatus,
    /// The open turn.
    turn: Option<OpenTurn>,
    /// The head, if the session is reverted.
    head: Option<SessionHead>,
    /// The prompts that wait for a turn.
    inbox: Vec<MessageId>,
    /// The pending permission requests and questions.
    requests: Vec<String>,
}

/// A turn that has not ended.
#[derive(Serialize)]
struct OpenTurn {
    id: TurnId,
    state: &'static str,
}

/// `GET /turnstone/session/{sessionID}`
///
/// The number for `If-Match` is the `ETag`, and in the body.
async fn session_state(
    request: SessionRequest,
) -> Result<SeqStamped<SessionStateResponse>, ApiError> {
    request
        .run(|app, ctx, id| {
            let body = app.engine().store().read(ctx, |r| {
                let open = r.turns().list(id)?.into_iter().find(|row| row.state.is_open());
                let pending = r.requests().pending(Some(id))?;
                Ok(SessionStateResponse {
                    session: id.clone(),
                    seq: r.sessions().seq(id)?,
                    status: r.sessions().status(id)?,
                    turn: open.map(|row| OpenTurn { id: row.id, state: row.state.as_str() }),
                    head: r.sessions().head(id)?,
                    inbox: r.prompts().waiting(id)?.into_iter().map(|it| it.message).collect(),
                    requests: pending.iter().map(|it| it.id.as_str().to_owned()).collect(),
                })
            })?;
            stamp_seq(app, ctx, id, body)
        })
        .await
}
