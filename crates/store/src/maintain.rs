//! Upkeep: keeps the files small, in steps that disturb nobody.
//!
//! One run finishes deletions, marks consumers that lag too far, compacts the log, removes values nobody uses, forgets
//! old idempotency keys, gives free pages back to the file system and empties the write-ahead log.
//! It may stop after any step and goes on where it stopped the next time.

use std::collections::HashSet;

use rusqlite::Connection;
use turnstone_core::time::Millis;

use crate::blob::{self, BlobHash};
use crate::compact;
use crate::connection;
use crate::consumer::{self, LAG_BYTES, LAG_MS};
use crate::context::Context;
use crate::error::Result;
use crate::store::Store;
use crate::tx::Tx;

/// Idempotency keys are remembered this long.
const REMEMBERED_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// What happened within this time stays whole, so that live readers lose nothing.
const GRACE_MS: i64 = 60_000;
/// Rows removed in one step.
const ROWS: i64 = 200;

/// How much upkeep may do at once. The store reads no clock: a limit in time is the caller's.
pub struct Budget {
    steps: u64,
    go_on: Box<dyn FnMut() -> bool>,
}

impl Budget {
    /// As much as there is to do.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::steps(u64::MAX)
    }

    /// At most this many steps; a step is one short transaction.
    #[must_use]
    pub fn steps(steps: u64) -> Self {
        Self { steps, go_on: Box::new(|| true) }
    }

    /// As long as `go_on` says so; it is asked before every step.
    #[must_use]
    pub fn while_true(go_on: impl FnMut() -> bool + 'static) -> Self {
        Self { steps: u64::MAX, go_on: Box::new(go_on) }
    }

    pub(crate) fn is_left(&mut self) -> bool {
        self.steps > 0 && (self.go_on)()
    }

    pub(crate) fn spend(&mut self) -> bool {
        let left = self.is_left();
        self.steps -= u64::from(left);
        left
    }
}

/// The limits upkeep works with; the usual ones are [`Upkeep::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// Events younger than this stay whole, and files are removed this long after they were doomed.
    pub grace_ms: i64,
    /// A consumer that has not read an event this old is marked.
    pub lag_ms: i64,
    /// A consumer that has more than this many bytes to read is marked.
    pub lag_bytes: u64,
    /// Idempotency keys older than this are forgotten.
    pub remembered_ms: i64,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            grace_ms: GRACE_MS,
            lag_ms: LAG_MS,
            lag_bytes: LAG_BYTES,
            remembered_ms: REMEMBERED_MS,
        }
    }
}

/// What upkeep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Events that became stubs.
    pub compacted: u64,
    /// Bytes of payloads, values and text that are gone from the log.
    pub freed_bytes: u64,
    /// Files of values that were removed.
    pub removed_files: u64,
    /// Idempotency keys that were forgotten.
    pub forgotten_keys: u64,
    /// Consumers that were marked `resync`.
    pub marked_consumers: u64,
    /// Pages given back to the file system.
    pub vacuumed_pages: u64,
    /// The size of the write-ahead log afterwards.
    pub wal_bytes: u64,
    /// True if there is nothing left to do.
    pub finished: bool,
}

impl Store {
    /// Does upkeep with the usual limits.
    ///
    /// # Errors
    ///
    /// Only what the database or the disk refuses; what was done so far stays done.
    pub fn maintain(&self, ctx: &Context, budget: Budget) -> Result<Maintained> {
        self.maintain_with(ctx, budget, &Upkeep::default())
    }

    /// Does upkeep with other limits than the usual ones.
    ///
    /// # Errors
    ///
    /// As [`Store::maintain`].
    pub fn maintain_with(
        &self,
        ctx: &Context,
        mut budget: Budget,
        upkeep: &Upkeep,
    ) -> Result<Maintained> {
        let mut done = Maintained::default();
        done.finished = self.purge_within(ctx, &mut budget)?
            && self.thin_out(ctx, &mut budget, upkeep, &mut done)?
            && self.reap(ctx, &mut budget, upkeep, &mut done)?
            && self.vacuum(ctx, &mut budget, &mut done)?;
        if budget.is_left() {
            self.upkeep(connection::truncate_wal).wait()?;
        }
        done.wal_bytes = connection::wal_len(&self.layout().database());
        Ok(done)
    }

    /// Removes what is left of deleted sessions; false if the budget ended.
    fn purge_within(&self, ctx: &Context, budget: &mut Budget) -> Result<bool> {
        let pending = |r: &crate::read::Reader<'_>| -> Result<bool> {
            Ok(r.conn.prepare_cached("SELECT 1 FROM purge")?.exists([])?)
        };
        while self.read(ctx, pending)? {
            if !budget.spend() {
                return Ok(false);
            }
            self.purge_some(ctx, 1)?;
        }
        Ok(true)
    }

    /// Marks laggards, compacts the log and forgets old keys; false if the budget ended.
    fn thin_out(
        &self,
        ctx: &Context,
        budget: &mut Budget,
        upkeep: &Upkeep,
        done: &mut Maintained,
    ) -> Result<bool> {
        let (stale, bytes) = (ctx.now.plus(-upkeep.lag_ms), upkeep.lag_bytes);
        if !self.read(ctx, |r| consumer::laggards(r.conn, stale, bytes))?.is_empty() {
            if !budget.spend() {
                return Ok(false);
            }
            done.marked_consumers =
                self.write(ctx, move |tx| tx.mark_laggards(stale, bytes)).wait()?;
        }
        let recent = ctx.now.plus(-upkeep.grace_ms);
        let limit = self.read(ctx, |r| compact::limit(r.conn, recent, stale))?;
        let compacted = compact::compact(self, ctx, limit, budget)?;
        done.compacted = compacted.events;
        done.freed_bytes = compacted.bytes;
        let oldest = ctx.now.plus(-upkeep.remembered_ms);
        while self.read(ctx, |r| exists(r.conn, OLD_KEYS, oldest))? {
            if !budget.spend() {
                return Ok(false);
            }
            let forgotten = self.write(ctx, move |tx| forget_keys(tx.conn, oldest)).wait()?;
            done.forgotten_keys += forgotten as u64;
        }
        Ok(compacted.finished)
    }

    /// Removes the files of values nobody uses; false if the budget ended.
    fn reap(
        &self,
        ctx: &Context,
        budget: &mut Budget,
        upkeep: &Upkeep,
        done: &mut Maintained,
    ) -> Result<bool> {
        let strays = self.strays(ctx)?;
        for batch in strays.chunks(ROWS as usize) {
            if !budget.spend() {
                return Ok(false);
            }
            let batch = batch.to_vec();
            let doom = move |tx: &Tx<'_>| {
                batch.iter().try_for_each(|hash| blob::doom(tx.conn, &hash.0, tx.now()))
            };
            self.write(ctx, doom).wait()?;
        }
        let before = ctx.now.plus(-upkeep.grace_ms);
        while self.read(ctx, |r| exists(r.conn, DOOMED, before))? {
            if !budget.spend() {
                return Ok(false);
            }
            let reap = move |tx: &Tx<'_>| blob::reap(tx.conn, tx.blobs, before, ROWS);
            done.removed_files += self.write(ctx, reap).wait()?;
        }
        Ok(true)
    }

    /// Files without a row that are not doomed yet: a mutation wrote them and was rolled back.
    fn strays(&self, ctx: &Context) -> Result<Vec<BlobHash>> {
        let files = self.blobs().list()?;
        let known: HashSet<Vec<u8>> = self.read(ctx, |r| {
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
    fn vacuum(&self, ctx: &Context, budget: &mut Budget, done: &mut Maintained) -> Result<bool> {
        while self.read(ctx, |r| Ok(free_pages(r.conn)?))? > 0 {
            if !budget.spend() {
                return Ok(false);
            }
            let freed = self.upkeep(|conn| vacuum_step(conn)).wait()?;
            done.vacuumed_pages += freed;
            if freed == 0 {
                break;
            }
        }
        Ok(true)
    }
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

fn exists(conn: &Connection, sql: &'static str, time: Millis) -> Result<bool> {
    Ok(conn.prepare_cached(sql)?.exists([time.0])?)
}

fn forget_keys(conn: &Connection, oldest: Millis) -> Result<usize> {
    Ok(conn
        .prepare_cached(
            "DELETE FROM idempotency WHERE (actor, key) IN
               (SELECT actor, key FROM idempotency WHERE time < ?1 LIMIT ?2)",
        )?
        .execute((oldest.0, ROWS))?)
}
