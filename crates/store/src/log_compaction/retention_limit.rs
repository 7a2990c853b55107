//! What holds the log: named consumers, the outbox, and the last moments.

use rusqlite::Connection;
use turnstone_core::time::EpochMillis;

use crate::error::Result;

/// The cursor up to which events may be made stubs.
///
/// - Events after `recent` stay whole, so that a reader that follows the log closely reads
///   all of it.
/// - A consumer holds what it has not read, unless it fell too far behind and is marked.
/// - A row of the outbox holds its event, unless the row is older than `stale`; an outbox row whose
///   event is gone tells the sender to send the whole session.
pub(crate) fn compaction_limit(
    conn: &Connection,
    recent: EpochMillis,
    stale: EpochMillis,
) -> Result<i64> {
    Ok(conn
        .prepare_cached(
            "SELECT min(
               coalesce((SELECT cursor FROM event WHERE time <= ?1 ORDER BY cursor DESC LIMIT 1), 0),
               coalesce((SELECT min(cursor) FROM consumer WHERE resync = 0), ?3),
               coalesce((SELECT min(cursor) - 1 FROM outbox WHERE time > ?2), ?3))",
        )?
        .query_row((recent.0, stale.0, i64::MAX), |row| row.get(0))?)
}
