//! Forgets inside a transaction. Every action looks again: another process may have been faster.

use rusqlite::OptionalExtension;
use turnstone_core::event::EventKind;
use turnstone_core::time::{LogCursor, SessionSeq};

use super::planner::LogCompactionAction;
use crate::blob;
use crate::error::Result;
use crate::table_row_ids::{PartNum, SessionNum};
use crate::tx::Tx;

/// At most this many values of one event are let go in one transaction.
const MAX_RELEASED_BLOBS: i64 = 100;
/// At most this many rows of text go in one transaction.
const MAX_REMOVED_CHUNKS: i64 = 100;

/// What an action did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogActionOutcome {
    /// Events that were made stubs, or merged into one.
    pub(super) events: u64,
    /// Bytes they no longer take.
    pub(super) bytes: u64,
    /// True if the action is to be repeated to finish it.
    pub(super) must_repeat: bool,
}

impl LogCompactionAction {
    /// How many rows the action touches at most.
    pub(super) fn max_rows(&self) -> i64 {
        match self {
            Self::Stub { uses, .. } => 2 + 3 * MAX_RELEASED_BLOBS.min(*uses),
            // The stubs before and behind a run join it.
            Self::Merge { rows, .. } => rows + 2,
            Self::DropText { .. } => MAX_REMOVED_CHUNKS,
        }
    }
}

/// Does what was planned, as far as it still makes sense.
pub(super) fn apply_compaction(
    tx: &Tx<'_>,
    action: &LogCompactionAction,
) -> Result<LogActionOutcome> {
    match *action {
        LogCompactionAction::Stub { cursor, bytes, .. } => make_stub(tx, LogCursor(cursor), bytes),
        LogCompactionAction::Merge { session, part, first, last, .. } => {
            merge_deltas(tx, session, part, (SessionSeq(first), SessionSeq(last)))
        }
        LogCompactionAction::DropText { session, part } => {
            remove_unreferenced_text(tx, session, part)
        }
    }
}

/// The row is removed and inserted again: SQLite joins pages that become empty only on removal, so
/// a row that merely shrinks would leave its page to nobody.
fn make_stub(tx: &Tx<'_>, cursor: LogCursor, bytes: i64) -> Result<LogActionOutcome> {
    let row: Option<[Option<i64>; 9]> = tx
        .conn
        .prepare_cached(
            "DELETE FROM event WHERE cursor = ?1 AND payload IS NOT NULL
             RETURNING cursor, session, seq, sync_seq, kind, entity, actor, time, version",
        )?
        .query_row([cursor.0], |row| {
            let mut columns = [None; 9];
            for (index, column) in columns.iter_mut().enumerate() {
                *column = row.get(index)?;
            }
            Ok(columns)
        })
        .optional()?;
    if let Some(columns) = row {
        tx.conn
            .prepare_cached(
                "INSERT INTO event
                   (cursor, session, seq, sync_seq, kind, entity, actor, time, version)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(columns)?;
    }
    let released = blob::release_blobs(tx.conn, cursor, tx.now(), MAX_RELEASED_BLOBS)?;
    let bytes = row.map_or(0, |_| u64::try_from(bytes).unwrap_or(0));
    Ok(LogActionOutcome {
        events: u64::from(row.is_some()),
        bytes: bytes + released.bytes,
        must_repeat: released.has_more,
    })
}

/// Makes one stub of the deltas `first..=last` and of the adjacent stubs of the same part.
fn merge_deltas(
    tx: &Tx<'_>,
    session: SessionNum,
    part: PartNum,
    (SessionSeq(first), SessionSeq(last)): (SessionSeq, SessionSeq),
) -> Result<LogActionOutcome> {
    let delta = EventKind::PartDelta.code();
    let (others, deltas, end): (i64, i64, Option<i64>) = tx
        .conn
        .prepare_cached(
            "SELECT coalesce(sum(kind <> ?4 OR entity <> ?5), 0), count(text_to), max(seq)
             FROM event WHERE session = ?1 AND seq BETWEEN ?2 AND ?3",
        )?
        .query_row((session, first, last, delta, part), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    if others > 0 || end != Some(last) {
        return Ok(LogActionOutcome::default());
    }
    let high = find_stub_after(tx, session, part, last)?.unwrap_or(last);
    let low = find_run_start(tx, session, part, first)?;
    tx.conn
        .prepare_cached("DELETE FROM event WHERE session = ?1 AND seq >= ?2 AND seq < ?3")?
        .execute((session, low, high))?;
    tx.conn
        .prepare_cached(
            "UPDATE event SET span = ?3, text_from = NULL, text_to = NULL, sum = NULL
             WHERE session = ?1 AND seq = ?2",
        )?
        .execute((session, high, high - low + 1))?;
    Ok(LogActionOutcome {
        events: u64::try_from(deltas).unwrap_or(0),
        bytes: 0,
        must_repeat: false,
    })
}

/// The first number of the run that begins with the row at or before `first`, counting a stub
/// of the same part that ends right before it.
fn find_run_start(tx: &Tx<'_>, session: SessionNum, part: PartNum, first: i64) -> Result<i64> {
    let row_start = |seq: i64| -> Result<Option<(i64, bool)>> {
        Ok(tx
            .conn
            .prepare_cached(
                "SELECT seq - span + 1, kind = ?3 AND entity = ?4 AND text_to IS NULL
                 FROM event WHERE session = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1",
            )?
            .query_row((session, seq, EventKind::PartDelta.code(), part), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?)
    };
    let low = row_start(first)?.map_or(first, |found| found.0);
    match row_start(low - 1)? {
        Some((start, true)) if low > 1 => Ok(start.min(low)),
        _ => Ok(low),
    }
}

/// The number of the stub of the same part that follows right behind `last`.
fn find_stub_after(
    tx: &Tx<'_>,
    session: SessionNum,
    part: PartNum,
    last: i64,
) -> Result<Option<i64>> {
    let row: Option<(i64, bool)> = tx
        .conn
        .prepare_cached(
            "SELECT seq, kind = ?3 AND entity = ?4 AND text_to IS NULL FROM event
             WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT 1",
        )?
        .query_row((session, last, EventKind::PartDelta.code(), part), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(row.filter(|row| row.1).map(|row| row.0))
}

/// Removes the streamed text of a part that no event and no projection refers to any more.
fn remove_unreferenced_text(
    tx: &Tx<'_>,
    session: SessionNum,
    part: PartNum,
) -> Result<LogActionOutcome> {
    let needed = tx
        .conn
        .prepare_cached(
            "SELECT 1 FROM part WHERE num = ?2 AND text_len IS NOT NULL
             UNION ALL
             SELECT 1 FROM event WHERE session = ?1 AND entity = ?2
               AND seq >= (SELECT seq FROM event WHERE cursor = ?2)
               AND (text_to IS NOT NULL OR payload ->> '$.text.len' IS NOT NULL)
             LIMIT 1",
        )?
        .exists((session, part))?;
    if needed {
        return Ok(LogActionOutcome::default());
    }
    let mut statement = tx.conn.prepare_cached(
        "DELETE FROM chunk WHERE num IN (SELECT num FROM chunk WHERE part = ?1 LIMIT ?2)
         RETURNING octet_length(text)",
    )?;
    let lengths: Vec<i64> = statement
        .query_map((part, MAX_REMOVED_CHUNKS), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let bytes = u64::try_from(lengths.iter().sum::<i64>()).unwrap_or(0);
    Ok(LogActionOutcome {
        events: 0,
        bytes,
        must_repeat: lengths.len() as i64 == MAX_REMOVED_CHUNKS,
    })
}

/// Notes how far a stream is settled and how far it was looked at.
pub(super) fn mark_compacted(
    tx: &Tx<'_>,
    session: SessionNum,
    settled: SessionSeq,
    scanned: SessionSeq,
) -> Result<()> {
    tx.conn
        .prepare_cached(
            "UPDATE stream SET compacted_seq = max(compacted_seq, ?2),
               scanned_seq = max(scanned_seq, ?3) WHERE session = ?1",
        )?
        .execute((session, settled.0, scanned.0))?;
    Ok(())
}
