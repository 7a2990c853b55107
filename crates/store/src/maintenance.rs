//! Maintenance: keeps the files small, in short steps that do not block writers.
//!
//! One run brings the search index up to date, marks consumers that lag too far, compacts the log, removes values that
//! no event uses, forgets old idempotency keys, gives free pages back to the file system and empties the write-ahead
//! log. It may stop after any step and continues there the next time. What deleted sessions leave is removed by
//! `deletion_traces`.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use rusqlite::Connection;
use turnstone_core::call_context::Context;
use turnstone_core::time::EpochMillis;

use crate::backup::{self, BackupReport};
use crate::blob::{self, BlobHash};
use crate::connection;
use crate::consumer::{self, MAX_LAG_BYTES, MAX_LAG_MS};
use crate::data_layout::DataLayout;
use crate::deletion_traces;
use crate::disk_usage::{self, DatabaseSizes};
use crate::error::Result;
use crate::log_compaction;
use crate::projection_check::{self, ProjectionMismatch};
use crate::purge::{self, PendingDeletion};
use crate::redaction::{self, RedactionReport};
use crate::store::Store;
use crate::tx::Tx;

/// Idempotency keys are remembered this long.
const KEY_RETENTION_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// What happened within this time stays whole, so that live readers lose nothing.
const GRACE_MS: i64 = 60_000;
/// Rows removed in one step.
const BATCH_ROWS: i64 = 200;

/// How much maintenance may do at once.
#[derive(Debug)]
pub struct MaintenanceBudget {
    steps: u64,
}

impl MaintenanceBudget {
    /// As much as there is to do.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::steps(u64::MAX)
    }

    /// At most this many steps; a step is one short transaction.
    #[must_use]
    pub const fn steps(steps: u64) -> Self {
        Self { steps }
    }

    pub(crate) const fn has_steps_left(&self) -> bool {
        self.steps > 0
    }

    pub(crate) fn take_step(&mut self) -> bool {
        let left = self.has_steps_left();
        self.steps -= u64::from(left);
        left
    }
}

/// The limits of maintenance; the usual ones are [`MaintenanceLimits::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceLimits {
    /// Events younger than this stay whole, and files are removed this long after they were doomed.
    pub grace_ms: i64,
    /// A consumer that has not read an event this old is marked.
    pub lag_ms: i64,
    /// A consumer that has more than this many bytes to read is marked.
    pub lag_bytes: u64,
    /// Idempotency keys older than this are forgotten.
    pub key_retention_ms: i64,
}

impl Default for MaintenanceLimits {
    fn default() -> Self {
        Self {
            grace_ms: GRACE_MS,
            lag_ms: MAX_LAG_MS,
            lag_bytes: MAX_LAG_BYTES,
            key_retention_ms: KEY_RETENTION_MS,
        }
    }
}

/// What maintenance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseMaintenanceReport {
    /// Events that became stubs.
    pub compacted: u64,
    /// Bytes of payloads, values and text that are gone from the log.
    pub freed_bytes: u64,
    /// Files of values that were removed.
    pub removed_files: u64,
    /// Idempotency keys that were forgotten.
    pub expired_keys: u64,
    /// Consumers that were marked `resync`.
    pub marked_consumers: u64,
    /// Pages given back to the file system.
    pub vacuumed_pages: u64,
    /// The size of the write-ahead log afterwards.
    pub wal_bytes: u64,
    /// True if there is nothing left to do.
    pub finished: bool,
}

/// Keeps the database small, sound and backed up.
#[derive(Clone, Copy)]
pub struct DatabaseMaintenance<'a> {
    pub(crate) store: &'a Store,
}

impl DatabaseMaintenance<'_> {
    /// Runs maintenance with the usual limits.
    ///
    /// # Errors
    ///
    /// Only what the database or the disk refuses; what was done so far stays done.
    pub fn run(
        &self,
        ctx: &Context,
        budget: MaintenanceBudget,
    ) -> Result<DatabaseMaintenanceReport> {
        self.run_with(ctx, budget, &MaintenanceLimits::default())
    }

    /// Runs maintenance with other limits than the usual ones.
    ///
    /// # Errors
    ///
    /// As [`DatabaseMaintenance::run`].
    pub fn run_with(
        &self,
        ctx: &Context,
        mut budget: MaintenanceBudget,
        limits: &MaintenanceLimits,
    ) -> Result<DatabaseMaintenanceReport> {
        let mut done = DatabaseMaintenanceReport::default();
        done.finished = index_within_budget(self.store, ctx, &mut budget)?
            && compact_within(self.store, ctx, &mut budget, limits, &mut done)?
            && remove_unused_blob_files(self.store, ctx, &mut budget, limits, &mut done)?
            && vacuum_within(self.store, ctx, &mut budget, &mut done)?;
        if budget.has_steps_left() {
            self.store.submit_maintenance(connection::truncate_wal).wait()?;
        }
        done.wal_bytes = connection::wal_len(&self.store.layout().database());
        Ok(done)
    }

    /// When a run last finished, as [`Self::record_run`] noted it.
    #[must_use]
    pub fn last_run(layout: &DataLayout) -> Option<EpochMillis> {
        let text = fs_err::read_to_string(layout.last_maintenance()).ok()?;
        text.trim().parse().ok().map(EpochMillis)
    }

    /// Notes that a run has finished. A hint: if it is lost, maintenance runs earlier.
    ///
    /// # Errors
    ///
    /// The data directory cannot be written.
    pub fn record_run(&self, now: EpochMillis) -> Result<()> {
        let path = self.store.layout().last_maintenance();
        Ok(fs_err::write(path, now.0.to_string())?)
    }

    /// Sessions that are deleted and may still leave something on the disk.
    ///
    /// # Errors
    ///
    /// Errors of the database.
    pub fn pending_deletions(&self, ctx: &Context) -> Result<Vec<PendingDeletion>> {
        self.store.read(ctx, |r| purge::list_pending(r.conn))
    }

    /// Removes the rows of these deleted sessions, in short transactions.
    ///
    /// # Errors
    ///
    /// Errors of the database; a repeat continues.
    pub fn purge_sessions(&self, ctx: &Context, sessions: &[PendingDeletion]) -> Result<()> {
        purge::purge_sessions(self.store, ctx, sessions)
    }

    /// Removes what the rows of these sessions left in the database and its files: stored answers, words of the
    /// search index, files of long values, free pages and the write-ahead log. The deletions are then finished.
    ///
    /// Rewrites the database; writers wait meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of the database, and [`StoreError::OldPagesInUse`](crate::StoreError::OldPagesInUse) if a reader is active
    /// for so long that old pages stay in the write-ahead log. A repeat continues.
    pub fn erase_traces(&self, ctx: &Context, sessions: &[PendingDeletion]) -> Result<()> {
        deletion_traces::erase_traces(self.store, ctx, sessions)
    }

    /// Removes rows of deleted sessions, in at most `steps` transactions. Returns true when none are
    /// left. It can be interrupted and repeated.
    ///
    /// # Errors
    ///
    /// Errors of the database.
    pub fn purge_deleted(&self, ctx: &Context, steps: usize) -> Result<bool> {
        purge::purge_deleted(self.store, ctx, steps)
    }

    /// Copies the store, as it is at one moment, into the new data directory `target`.
    ///
    /// Other processes may read and write meanwhile. The copy is checked; `target` appears complete
    /// or not at all, and it must be absent or empty.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`](crate::StoreError::Invalid) if `target` is not empty,
    /// [`StoreError::Corrupt`](crate::StoreError::Corrupt) if the copy does not pass its check.
    pub fn back_up(&self, ctx: &Context, target: &Path) -> Result<BackupReport> {
        backup::back_up(self.store, ctx, target)
    }

    /// Adds up which tables, event kinds and files the bytes are in, with the `top` largest sessions.
    /// Reads the whole database.
    ///
    /// # Errors
    ///
    /// Errors of the database or the disk.
    pub fn measure_sizes(&self, ctx: &Context, top: usize) -> Result<DatabaseSizes> {
        disk_usage::measure_sizes(self.store, ctx, top)
    }

    /// Compares the projections with a rebuild of them; changes nothing. Reports at most 50 rows of
    /// a table.
    ///
    /// Holds one read view meanwhile, so the write-ahead log grows while others write.
    ///
    /// # Errors
    ///
    /// If the log cannot be replayed.
    pub fn verify_projections(&self) -> Result<Vec<ProjectionMismatch>> {
        projection_check::verify_projections(self.store)
    }

    /// Takes words out of events, streamed texts, long values, titles and the search index; with
    /// `dry_run` it only counts them.
    ///
    /// # Errors
    ///
    /// Errors of the database; what is done stays done, a repeat continues. [`StoreError::InUse`] or
    /// [`StoreError::Locked`] if a reader is active for so long that old pages cannot be overwritten.
    ///
    /// [`StoreError::InUse`]: crate::StoreError::InUse
    /// [`StoreError::Locked`]: crate::StoreError::Locked
    pub fn redact(
        &self,
        ctx: &Context,
        words: &BTreeSet<String>,
        dry_run: bool,
    ) -> Result<RedactionReport> {
        redaction::redact(self.store, ctx, words, dry_run)
    }
}

/// Forgets when a run last finished, so that the next process that looks runs one.
pub(crate) fn clear_last_run(layout: &DataLayout) -> Result<()> {
    match fs_err::remove_file(layout.last_maintenance()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Brings the search index up to date, because it holds the log until it has read it; false if the budget ended.
fn index_within_budget(
    store: &Store,
    ctx: &Context,
    budget: &mut MaintenanceBudget,
) -> Result<bool> {
    while store.session_search().index_batches(ctx, 0)?.behind > 0 {
        if !budget.take_step() {
            return Ok(false);
        }
        store.session_search().index_batches(ctx, 1)?;
    }
    store.session_search().record_position(ctx)?;
    Ok(true)
}

/// Marks laggards, compacts the log and forgets old keys; false if the budget ended.
fn compact_within(
    store: &Store,
    ctx: &Context,
    budget: &mut MaintenanceBudget,
    limits: &MaintenanceLimits,
    done: &mut DatabaseMaintenanceReport,
) -> Result<bool> {
    let (stale, bytes) = (ctx.now.plus(-limits.lag_ms), limits.lag_bytes);
    if !store.read(ctx, |r| consumer::find_lagging_consumers(r.conn, stale, bytes))?.is_empty() {
        if !budget.take_step() {
            return Ok(false);
        }
        done.marked_consumers =
            store.write(ctx, move |tx| tx.consumers().mark_lagging(stale, bytes)).wait()?;
    }
    let recent = ctx.now.plus(-limits.grace_ms);
    let limit = store.read(ctx, |r| log_compaction::compaction_limit(r.conn, recent, stale))?;
    let compacted = log_compaction::compact_log(store, ctx, limit, budget)?;
    done.compacted = compacted.events;
    done.freed_bytes = compacted.bytes;
    let oldest = ctx.now.plus(-limits.key_retention_ms);
    while store.read(ctx, |r| has_row_before(r.conn, OLD_KEYS, oldest))? {
        if !budget.take_step() {
            return Ok(false);
        }
        let forgotten =
            store.write(ctx, move |tx| expire_idempotency_keys(tx.conn, oldest)).wait()?;
        done.expired_keys += forgotten as u64;
    }
    Ok(compacted.finished)
}

/// Removes the files of values nobody uses; false if the budget ended.
pub(crate) fn remove_unused_blob_files(
    store: &Store,
    ctx: &Context,
    budget: &mut MaintenanceBudget,
    limits: &MaintenanceLimits,
    done: &mut DatabaseMaintenanceReport,
) -> Result<bool> {
    let strays = find_stray_blob_files(store, ctx)?;
    for batch in strays.chunks(BATCH_ROWS as usize) {
        if !budget.take_step() {
            return Ok(false);
        }
        let batch = batch.to_vec();
        let doom = move |tx: &Tx<'_>| {
            batch.iter().try_for_each(|hash| blob::mark_for_removal(tx.conn, &hash.0, tx.now()))
        };
        store.write(ctx, doom).wait()?;
    }
    let before = ctx.now.plus(-limits.grace_ms);
    while store.read(ctx, |r| has_row_before(r.conn, DOOMED, before))? {
        if !budget.take_step() {
            return Ok(false);
        }
        let reap =
            move |tx: &Tx<'_>| blob::remove_marked_files(tx.conn, tx.blobs, before, BATCH_ROWS);
        done.removed_files += store.write(ctx, reap).wait()?;
    }
    Ok(true)
}

/// Files without a row that are not doomed yet: a mutation wrote them and was rolled back.
fn find_stray_blob_files(store: &Store, ctx: &Context) -> Result<Vec<BlobHash>> {
    let files = store.blobs().list_files()?;
    let known: HashSet<Vec<u8>> = store.read(ctx, |r| {
        let mut statement = r.conn.prepare_cached(
            "SELECT hash FROM blob WHERE data IS NULL UNION ALL SELECT hash FROM blob_doomed",
        )?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    })?;
    let stray = |hash: &BlobHash| !known.contains(&hash.0[..]);
    Ok(files.into_iter().map(|file| file.0).filter(stray).collect())
}

/// Gives free pages back, a step at a time, to the end; false if the budget ended.
fn vacuum_within(
    store: &Store,
    ctx: &Context,
    budget: &mut MaintenanceBudget,
    done: &mut DatabaseMaintenanceReport,
) -> Result<bool> {
    while store.read(ctx, |r| Ok(free_pages(r.conn)?))? > 0 {
        if !budget.take_step() {
            return Ok(false);
        }
        let freed = store.submit_maintenance(|conn| vacuum_step(conn)).wait()?;
        done.vacuumed_pages += freed;
        if freed == 0 {
            break;
        }
    }
    Ok(true)
}

fn free_pages(conn: &Connection) -> rusqlite::Result<u64> {
    let pages = conn.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0))?;
    Ok(u64::try_from(pages).unwrap_or(0))
}

/// Gives at most 256 pages back, 1 MiB; returns how many.
fn vacuum_step(conn: &Connection) -> rusqlite::Result<u64> {
    let before = free_pages(conn)?;
    {
        // The pragma frees one page per row it returns: it has to be read to its end.
        let mut statement = conn.prepare_cached("PRAGMA incremental_vacuum(256)")?;
        let mut rows = statement.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(before.saturating_sub(free_pages(conn)?))
}

const OLD_KEYS: &str = "SELECT 1 FROM idempotency WHERE time < ?1 LIMIT 1";
const DOOMED: &str = "SELECT 1 FROM blob_doomed WHERE time <= ?1 LIMIT 1";

fn has_row_before(conn: &Connection, sql: &'static str, time: EpochMillis) -> Result<bool> {
    Ok(conn.prepare_cached(sql)?.exists([time.0])?)
}

fn expire_idempotency_keys(conn: &Connection, oldest: EpochMillis) -> Result<usize> {
    Ok(conn
        .prepare_cached(
            "DELETE FROM idempotency WHERE (actor, key) IN
               (SELECT actor, key FROM idempotency WHERE time < ?1 LIMIT ?2)",
        )?
        .execute((oldest.0, BATCH_ROWS))?)
}
