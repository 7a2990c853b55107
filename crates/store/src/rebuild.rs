//! Projections thrown away and made again from the log, in short transactions, resumably.
//!
//! Nobody may look at half-built tables. Inside this process owning the store sees to that. Between
//! processes the open lock and the owner files do: a process that has the store open holds an owner file
//! that was registered under the open lock, so with that lock in hand the living owners are all
//! there is; any other than ours refuses the rebuild, and a process that opens the store meanwhile waits for the
//! lock. A check at the start of every read and write would cost all of them for a rare need.
//!
//! A rebuild that was cut off is marked in `note`; the next open finishes it before it serves
//! anything, still under the lock. Before anything is thrown away the whole log is replayed into a
//! scratch database: a log that does not replay changes nothing.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use turnstone_core::call_context::Context;

use crate::connection::{self, ConnectionPurpose};
use crate::error::{Result, StoreError, classify_sqlite_error};
use crate::projection;
use crate::projection_check;
use crate::replay::{self, ReplayLimit, ReplayPosition};
use crate::schema::PROJECTION_TABLES;
use crate::store::Store;

/// Short of the limits of R23, because the event that reaches them is still applied.
const REPLAY_LIMIT: ReplayLimit = ReplayLimit { rows: 250, bytes: 2 * 1024 * 1024 };
/// Rows thrown away at once.
const CLEAR_ROWS: i64 = 400;

/// What a rebuild did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Events applied.
    pub events: u64,
    /// Transactions it took.
    pub commits: u64,
}

/// How far a rebuild has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildProgress {
    /// The log is being replayed elsewhere, to see that it can be.
    DryRun,
    /// The old tables are being emptied.
    Clearing,
    /// So many events have been applied.
    Applied(u64),
}

/// The mark in `note`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "lowercase")]
enum RebuildMarker {
    /// Tables before this one are empty.
    Clear { table: usize },
    /// Events up to this place are applied.
    Replay { place: ReplayPosition },
}

/// One statement per projection, children first; removes at most `?1` rows.
const CLEAR_STATEMENTS: &[&str] = &[
    "DELETE FROM diff WHERE session IN (SELECT session FROM diff LIMIT ?1)",
    "DELETE FROM share WHERE session IN (SELECT session FROM share LIMIT ?1)",
    "DELETE FROM head WHERE session IN (SELECT session FROM head LIMIT ?1)",
    "DELETE FROM taken WHERE change IN (SELECT change FROM taken LIMIT ?1)",
    "DELETE FROM operation WHERE num IN (SELECT num FROM operation LIMIT ?1)",
    "DELETE FROM change WHERE num IN (SELECT num FROM change LIMIT ?1)",
    "DELETE FROM input WHERE num IN (SELECT num FROM input LIMIT ?1)",
    "DELETE FROM approval WHERE (project, permission, pattern) IN
       (SELECT project, permission, pattern FROM approval LIMIT ?1)",
    "DELETE FROM request WHERE num IN (SELECT num FROM request LIMIT ?1)",
    "DELETE FROM turn WHERE num IN (SELECT num FROM turn LIMIT ?1)",
    "DELETE FROM todo WHERE session IN (SELECT session FROM todo LIMIT ?1)",
    "DELETE FROM part WHERE num IN (SELECT num FROM part LIMIT ?1)",
    "DELETE FROM message WHERE num IN (SELECT num FROM message LIMIT ?1)",
    "DELETE FROM session WHERE num IN (SELECT num FROM session LIMIT ?1)",
    "DELETE FROM project_alias WHERE (kind, value, project) IN
       (SELECT kind, value, project FROM project_alias LIMIT ?1)",
    "DELETE FROM project WHERE num IN (SELECT num FROM project LIMIT ?1)",
];
const _: () = assert!(CLEAR_STATEMENTS.len() == PROJECTION_TABLES.len());

impl Store {
    /// Throws the projections away and makes them again from the log.
    ///
    /// Nothing changes if the log cannot be replayed. Killed or failed half way, the next open
    /// finishes it: on an error the store is closed, so nobody reads what is half done.
    ///
    /// # Errors
    ///
    /// [`StoreError::InUse`] while another process has the store open, [`StoreError::ReadOnly`],
    /// or what the log does not allow.
    pub fn rebuild(
        self,
        ctx: &Context,
        progress: &mut dyn FnMut(RebuildProgress),
    ) -> Result<(Self, RebuildReport)> {
        // What was submitted before and not waited for is written first.
        self.write(ctx, |_| Ok(())).wait()?;
        let lock = self.lock_exclusively(ctx.now)?;
        let path = self.layout().database();
        progress(RebuildProgress::DryRun);
        projection_check::dry_run_replay(&path)?;
        let conn = connection::open(&path, ConnectionPurpose::Write)
            .map_err(|e| StoreError::Database { file: path.clone(), reason: e.to_string() })?;
        let rebuilt = mark_pending(&conn)
            .and_then(|()| finish_pending(&conn, progress))
            .map_err(|e| e.with_file(&path))?;
        drop(lock);
        Ok((self, rebuilt))
    }
}

/// Marks the rebuild as under way; from here on it will be finished.
pub(crate) fn mark_pending(conn: &Connection) -> Result<()> {
    save_marker(conn, Some(RebuildMarker::Clear { table: 0 }))
}

/// True if a rebuild is under way or was cut off.
pub(crate) fn is_pending(conn: &Connection) -> Result<bool> {
    Ok(load_marker(conn)?.is_some())
}

/// Does what is left of a rebuild; nothing if none is marked.
pub(crate) fn finish_pending(
    conn: &Connection,
    progress: &mut dyn FnMut(RebuildProgress),
) -> Result<RebuildReport> {
    let mut done = RebuildReport::default();
    let mut left = load_marker(conn)?;
    while let Some(mark) = left {
        progress(match mark {
            RebuildMarker::Clear { .. } => RebuildProgress::Clearing,
            RebuildMarker::Replay { .. } => RebuildProgress::Applied(done.events),
        });
        left = in_transaction(conn, |conn| {
            let (next, events) = run_step(conn, mark)?;
            save_marker(conn, next)?;
            done.events += events;
            Ok(next)
        })?;
        done.commits += 1;
        fail::fail_point!("store::in_rebuild");
    }
    progress(RebuildProgress::Applied(done.events));
    Ok(done)
}

/// One transaction's worth of work; returns the mark to leave and the events applied.
fn run_step(conn: &Connection, mark: RebuildMarker) -> Result<(Option<RebuildMarker>, u64)> {
    match mark {
        RebuildMarker::Clear { table } => {
            let Some(sql) = CLEAR_STATEMENTS.get(table) else {
                return Ok((Some(RebuildMarker::Replay { place: ReplayPosition::default() }), 0));
            };
            let gone = conn.prepare_cached(sql)?.execute([CLEAR_ROWS])?;
            let table = if gone == 0 { table + 1 } else { table };
            Ok((Some(RebuildMarker::Clear { table }), 0))
        }
        RebuildMarker::Replay { place } => {
            let done = replay::replay_log(conn, place, REPLAY_LIMIT, &mut |conn, e| {
                projection::apply_event(conn, e)
            })?;
            Ok((done.next.map(|place| RebuildMarker::Replay { place }), done.events))
        }
    }
}

fn load_marker(conn: &Connection) -> Result<Option<RebuildMarker>> {
    let json: Option<String> = conn
        .prepare_cached("SELECT value FROM note WHERE key = 'rebuild'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(json.map(|json| serde_json::from_str(&json)).transpose()?)
}

fn save_marker(conn: &Connection, mark: Option<RebuildMarker>) -> Result<()> {
    match mark {
        Some(mark) => conn
            .prepare_cached("INSERT OR REPLACE INTO note (key, value) VALUES ('rebuild', ?1)")?
            .execute([serde_json::to_string(&mark)?])?,
        None => conn.prepare_cached("DELETE FROM note WHERE key = 'rebuild'")?.execute([])?,
    };
    Ok(())
}

/// Runs `work` in a transaction of its own.
pub(crate) fn in_transaction<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = work(conn).and_then(|value| {
        conn.execute_batch("COMMIT")
            .map_err(|e| classify_sqlite_error(&e, "turnstone.db".as_ref()))?;
        Ok(value)
    });
    if done.is_err() && !conn.is_autocommit() {
        // The reason of the failure says more than that of a failed rollback.
        drop(conn.execute_batch("ROLLBACK"));
    }
    done
}
