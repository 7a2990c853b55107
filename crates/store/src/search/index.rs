//! The consumer: small batches from the log into the index, each with its cursor.

use turnstone_core::time::Cursor;

use super::merge::{self, Merged, Stride};
use super::plan::{self, Action, Batch, Cost, Doc, Next, Progress, WINDOW, standing};
use super::query::scope;
use crate::context::Context;
use crate::error::{Result, StoreError};
use crate::store::Store;
use crate::tx::Tx;

/// Rows a batch may touch when it is alone in its transaction.
const ROOM: u64 = 400;
/// Rows a batch may touch beside others: a group takes no member once it is at 400 of 500.
const CROWDED: u64 = 90;
/// Steps of merging after a batch, at most.
const MERGES: usize = 4;

/// Batches without merging after a merge that does not fit a transaction.
const PAUSE: usize = 16;

/// How far the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Events of the log that the index has not seen.
    pub behind: u64,
}

/// What the index takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchSize {
    /// Parts and titles in it.
    pub documents: u64,
    /// Bytes of its tables, without what SQLite adds.
    pub bytes: u64,
}

impl Store {
    /// Brings the index forward by at most `batches` small transactions, for use in the background.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`], or what the database refuses.
    pub fn index_some(&self, ctx: &Context, batches: usize) -> Result<Indexed> {
        let upto = self.read(ctx, |r| r.last_cursor())?;
        let progress = self.drain(ctx, upto, batches)?;
        Ok(Indexed { behind: behind(progress.reached, upto) })
    }

    /// Empties the index and builds it anew from the beginning of the log.
    ///
    /// A crash half way is no harm: whoever searches next goes on.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`], or what the database refuses.
    pub fn reindex(&self, ctx: &Context) -> Result<Indexed> {
        self.write(ctx, begin_anew).wait()?;
        self.index_some(ctx, usize::MAX)
    }

    /// How large the index is, estimated from its tables.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn search_size(&self, ctx: &Context) -> Result<SearchSize> {
        self.read(ctx, |r| {
            let (documents, bytes): (i64, i64) = r
                .conn
                .prepare_cached(
                    "SELECT (SELECT count(*) FROM search_doc),
                       (SELECT coalesce(sum(length(block) + 8), 0) FROM search_data)
                       + (SELECT coalesce(sum(length(term) + 12), 0) FROM search_idx)
                       + (SELECT coalesce(sum(length(sz) + 12), 0) FROM search_docsize)
                       + (SELECT 48 * count(*) FROM search_doc)",
                )?
                .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(SearchSize {
                documents: u64::try_from(documents).unwrap_or(0),
                bytes: u64::try_from(bytes).unwrap_or(0),
            })
        })
    }

    /// Indexes what was logged up to `upto`; returns how far it came.
    pub(super) fn drain(&self, ctx: &Context, upto: Cursor, batches: usize) -> Result<Progress> {
        let mut progress = Progress::default();
        let mut pause = 0;
        let mut left = batches;
        loop {
            let next = self.read(ctx, |r| plan::next(r.conn, r.blobs, progress, upto.0, ROOM))?;
            let batch = match next {
                Next::Done(progress) => return Ok(progress),
                Next::Batch(batch) => batch,
                Next::Empty if left == 0 => return Ok(Progress::default()),
                Next::Empty => {
                    left -= 1;
                    self.write(ctx, empty_some).wait()?;
                    continue;
                }
            };
            // Streamed text is nothing to index: no transaction only to say so.
            if batch.steps.is_empty() && batch.to - batch.stored < WINDOW {
                progress = Progress { stored: batch.stored, reached: batch.to };
                continue;
            }
            if left == 0 {
                return Ok(progress.at(batch.stored));
            }
            left -= 1;
            self.write(ctx, move |tx| apply(tx, &batch)).wait()?;
            pause = match pause {
                0 => self.merge(ctx)?,
                rest => rest - 1,
            };
        }
    }

    /// Merges for a while; returns for how many batches there is no use in trying again.
    fn merge(&self, ctx: &Context) -> Result<usize> {
        for _ in 0..MERGES {
            let usual = self.write(ctx, |tx| merge::step(tx, Stride::Usual)).wait();
            let merged = match usual {
                Err(StoreError::TooLarge { .. }) => {
                    self.write(ctx, |tx| merge::step(tx, Stride::Word)).wait()
                }
                merged => merged,
            };
            match merged {
                Ok(Merged::Some) => {}
                Ok(Merged::Nothing) => return Ok(0),
                Ok(Merged::Stuck) | Err(StoreError::TooLarge { .. }) => {
                    if self.read(ctx, |r| merge::is_shattered(r.conn))? {
                        self.write(ctx, begin_anew).wait()?;
                    }
                    return Ok(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}

/// Events between two places of the log.
pub(super) fn behind(reached: i64, upto: Cursor) -> u64 {
    u64::try_from(upto.0.saturating_sub(reached)).unwrap_or(0)
}

/// True if other mutations of the same group have written something already.
pub(super) fn is_crowded(tx: &Tx<'_>) -> bool {
    tx.group.cursor.get() > tx.group.floor || tx.group.bytes.get() > 0
}

/// Applies as many steps as there is room for, and moves the cursor past them.
///
/// If the consumer moved since the batch was planned, somebody else did the work.
fn apply(tx: &Tx<'_>, batch: &Batch) -> Result<()> {
    let now = standing(tx.conn)?;
    if now.resync || now.cursor != batch.stored {
        return Ok(());
    }
    let room = if is_crowded(tx) { CROWDED } else { ROOM };
    let mut cost = Cost::default();
    let mut cursor = batch.to;
    for (at, step) in batch.steps.iter().enumerate() {
        let with = cost.and(&step.action);
        if at > 0 && with.rows() > room {
            cursor = batch.steps[at - 1].done.max(batch.stored);
            break;
        }
        act(tx, &step.action)?;
        cost = with;
    }
    flush(tx)?;
    tx.weigh(cost.weight() + 64 * cost.rows());
    stand(tx, cursor, false)
}

/// FTS5 writes its rows when a savepoint begins: now, so that they are counted with the batch.
pub(super) fn flush(tx: &Tx<'_>) -> Result<()> {
    tx.conn.prepare_cached("SAVEPOINT search_flush")?.execute([])?;
    tx.conn.prepare_cached("RELEASE search_flush")?.execute([])?;
    Ok(())
}

fn stand(tx: &Tx<'_>, cursor: i64, resync: bool) -> Result<()> {
    tx.conn
        .prepare_cached(
            "INSERT INTO consumer (name, cursor, time, resync) VALUES ('search', ?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET cursor = excluded.cursor, time = excluded.time,
               resync = excluded.resync",
        )?
        .execute((cursor, tx.now().0, resync))?;
    Ok(())
}

pub(super) fn act(tx: &Tx<'_>, action: &Action) -> Result<()> {
    match action {
        Action::Put(doc) => {
            remove(tx, doc.num)?;
            insert(tx, doc)
        }
        Action::Keep { num, image } => {
            tx.conn
                .prepare_cached("UPDATE search_doc SET image = ?2 WHERE num = ?1")?
                .execute((num, image))?;
            Ok(())
        }
        Action::Drop(num) => remove(tx, *num),
    }
}

fn insert(tx: &Tx<'_>, doc: &Doc) -> Result<()> {
    let kind = doc.kind.code();
    tx.conn
        .prepare_cached("INSERT INTO search (rowid, body, camel, scope) VALUES (?1, ?2, ?3, ?4)")?
        .execute((doc.num, &doc.body, &doc.camel, scope(doc.session, kind)))?;
    tx.conn
        .prepare_cached(
            "INSERT INTO search_doc (num, session, message, kind, image, digest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((doc.num, doc.session, doc.message, kind, doc.image, doc.digest))?;
    Ok(())
}

fn remove(tx: &Tx<'_>, num: i64) -> Result<()> {
    let known =
        tx.conn.prepare_cached("DELETE FROM search_doc WHERE num = ?1")?.execute([num])? > 0;
    if known {
        tx.conn.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([num])?;
    }
    Ok(())
}

/// Marks the index as one to be emptied; until then nobody reads it.
pub(super) fn begin_anew(tx: &Tx<'_>) -> Result<()> {
    stand(tx, 0, true)
}

/// The tables of the index, emptied in this order. FTS5 is not asked meanwhile: it would not
/// understand what it sees.
const EMPTY: [&str; 4] = [
    "DELETE FROM search_doc WHERE num IN (SELECT num FROM search_doc LIMIT ?1)",
    "DELETE FROM search_docsize WHERE id IN (SELECT id FROM search_docsize LIMIT ?1)",
    "DELETE FROM search_idx WHERE (segid, term) IN (SELECT segid, term FROM search_idx LIMIT ?1)",
    "DELETE FROM search_data WHERE id IN (SELECT id FROM search_data WHERE id > 10 LIMIT ?1)",
];

/// Empties the index a little; when nothing is left it begins at the start of the log.
pub(super) fn empty_some(tx: &Tx<'_>) -> Result<()> {
    if !standing(tx.conn)?.resync {
        return Ok(());
    }
    let mut room = if is_crowded(tx) { CROWDED } else { ROOM } - 10;
    tx.weigh(64 * room);
    for sql in EMPTY {
        room -= tx.conn.prepare_cached(sql)?.execute([room as i64])? as u64;
        if room == 0 {
            return Ok(());
        }
    }
    tx.conn.prepare_cached("INSERT INTO search (search) VALUES ('delete-all')")?.execute([])?;
    stand(tx, 0, false)
}
