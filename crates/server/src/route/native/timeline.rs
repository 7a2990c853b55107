//! The timeline of a session: its turns with what they did to files, and its operations.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use serde::Serialize;
use serde_json::{Value, json};
use turnstone_core::change::{Evidence, FileChange, PathImage};
use turnstone_core::id::{MessageId, OperationId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_engine::{
    DiffFormat, DiffTarget, EngineError, OperationReport, decode_report, decode_turns,
};
use turnstone_store::{Context, OperationRow, ReadTx, TurnRow};

use super::seq_stamped::SeqStamped;
use crate::app::AppState;
use crate::error::ApiError;
use crate::request_context::RequestContext;
use crate::request_input::QueryParams;
use crate::route::session::session_id;
use turnstone_core::id::SessionId;

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
    /// Paths that changed of which nothing can be said.
    not_covered: u64,
}

/// A file a turn changed.
#[derive(Serialize)]
struct TimelineFile {
    /// Where, below its root.
    path: RelPath,
    /// `A`, `M`, `D`, or `?` if a side is not known.
    status: char,
    /// How it is known: `named`, `window` or `recovered`.
    evidence: Evidence,
    /// True if it is taken back.
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
    report: Option<OperationReport>,
}

/// What a change did to a file, in a letter.
pub(super) const fn change_letter(change: &FileChange) -> char {
    match (&change.before, &change.after) {
        (PathImage::Uncovered { .. }, _) | (_, PathImage::Uncovered { .. }) => '?',
        (PathImage::Absent, _) => 'A',
        (_, PathImage::Absent) => 'D',
        _ => 'M',
    }
}

/// `GET /turnstone/session/{sessionID}/timeline`
async fn timeline(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
    query: QueryParams,
) -> Result<SeqStamped<Vec<TimelineEntry>>, ApiError> {
    let (id, all) = (session_id(&session)?, query.flag("all")?);
    app.run_blocking(move |app| {
        app.engine().maintenance().ensure_recovered(&ctx, &id)?;
        let (turns, operations) = app.engine().store().read(&ctx, |r| {
            let mut turns = Vec::new();
            for row in r.turns().list(&id)?.into_iter().filter(|row| all || !row.hidden) {
                turns.push((row.span.0, timeline_turn(r, &id, &row)?));
            }
            Ok((turns, r.operations().list(&id)?))
        })?;
        let mut entries: Vec<(LogCursor, TimelineEntry)> = Vec::new();
        for (at, mut turn) in turns {
            app.add_line_counts(&ctx, &id, &mut turn)?;
            entries.push((at, TimelineEntry::Turn(turn)));
        }
        let shown = operations.iter().filter(|it| all || it.kind != OperationKind::Branch);
        for row in shown {
            entries.push((row.planned, TimelineEntry::Operation(timeline_operation(row)?)));
        }
        entries.sort_by_key(|(at, _)| *at);
        app.stamp_seq(&ctx, &id, entries.into_iter().map(|(_, entry)| entry).collect())
    })
    .await
}

fn timeline_turn(
    r: &ReadTx<'_>,
    session: &SessionId,
    row: &TurnRow,
) -> turnstone_store::Result<TimelineTurn> {
    let (mut files, mut not_covered) = (Vec::new(), 0);
    for change in r.change_sets().of_turn(session, &row.id)? {
        let taken = r.change_sets().undone_extent(&change.set.id)?;
        not_covered += change.not_covered;
        files.extend(change.set.changes.iter().map(|it| TimelineFile {
            path: it.path.clone(),
            status: change_letter(it),
            evidence: change.set.evidence,
            undone: taken.contains_path(&it.path),
        }));
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
    })
}

fn timeline_operation(row: &OperationRow) -> Result<TimelineOperation, ApiError> {
    Ok(TimelineOperation {
        id: row.id.clone(),
        kind: row.kind,
        time: row.time.0,
        turns: decode_turns(row)?,
        report: decode_report(row)?,
    })
}

impl AppState {
    /// Adds the figures of a turn; they need the captures, which may have expired.
    fn add_line_counts(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: &mut TimelineTurn,
    ) -> Result<(), ApiError> {
        if turn.files.is_empty() {
            return Ok(());
        }
        let what = DiffTarget::Turn(turn.id.clone());
        match self.engine().history().diffs().diff(ctx, session, &what, DiffFormat::CountsOnly) {
            Ok(found) => {
                let summary = found.summary();
                turn.additions = summary.additions.as_u64().unwrap_or(0);
                turn.deletions = summary.deletions.as_u64().unwrap_or(0);
                Ok(())
            }
            // The captures are gone, or their directory is: only the figures are.
            Err(EngineError::Snapshot(_) | EngineError::DirectoryGone { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// `GET /turnstone/session/{sessionID}`
///
/// Where a session stands: the number for `If-Match` is its `ETag`, and in the body.
async fn session_state(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<SeqStamped<Value>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        let body = app.engine().store().read(&ctx, |r| {
            let open = r.turns().list(&id)?.into_iter().find(|row| row.state.is_open());
            Ok(json!({
                "session": id,
                "seq": r.sessions().seq(&id)?,
                "status": r.sessions().status(&id)?,
                "turn": open.map(|row| json!({ "id": row.id, "state": row.state.as_str() })),
                "head": r.sessions().head(&id)?,
                "inbox": r.prompts().waiting(&id)?.iter().map(|it| &it.message).collect::<Vec<_>>(),
                "requests": r.requests().pending(Some(&id))?.iter().map(|it| it.id.as_str())
                    .collect::<Vec<_>>(),
            }))
        })?;
        app.stamp_seq(&ctx, &id, body)
    })
    .await
}
