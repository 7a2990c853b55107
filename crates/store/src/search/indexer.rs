//! The consumer: small batches from the log into the index, each with its cursor.

use turnstone_core::call_context::Context;
use turnstone_core::time::LogCursor;

use super::index_plan::{
    self, IndexAction, IndexBatch, IndexCost, IndexProgress, NextIndexAction, SearchDocument,
    WINDOW_EVENTS, load_position,
};
use super::query_parser::scope_terms;
use super::segment_merge::{self, MergeStepSize, SegmentMergeOutcome};
use crate::error::{Result, StoreError};
use crate::store::Store;
use crate::table_row_ids::DocumentNum;
use crate::tx::Tx;

/// Rows a batch may touch when it is alone in its transaction.
const MAX_ROWS_ALONE: u64 = 400;
/// Rows a batch may touch next to other members: a group takes no member once it is at 400 of 500.
const MAX_ROWS_SHARED: u64 = 90;
/// Steps of merging after a batch, at most.
const MERGE_STEPS: usize = 4;

/// Batches without merging after a merge that does not fit a transaction.
const MERGE_PAUSE: usize = 16;

/// How far the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLag {
    /// Events of the log that the index has not seen.
    pub behind: u64,
}

/// What the index takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchIndexSize {
    /// Parts and titles in it.
    pub documents: u64,
    /// Bytes of its tables, without what SQLite adds.
    pub bytes: u64,
}

/// Searches sessions, and keeps the index of the search up to date.
#[derive(Clone, Copy)]
pub struct SessionSearch<'a> {
    pub(crate) store: &'a Store,
}

impl SessionSearch<'_> {
    /// Brings the index forward by at most `batches` small transactions, for use in the background.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`], or what the database refuses.
    pub fn index_batches(&self, ctx: &Context, batches: usize) -> Result<IndexLag> {
        let upto = self.store.read(ctx, |r| r.log().last_cursor())?;
        let progress = self.index_up_to(ctx, upto, batches)?;
        Ok(IndexLag { behind: events_behind(progress.reached, upto) })
    }

    /// Stores how far the index is, also past events that hold nothing to index: maintenance keeps what a consumer has
    /// not read.
    pub(crate) fn record_position(&self, ctx: &Context) -> Result<()> {
        let upto = self.store.read(ctx, |r| r.log().last_cursor())?;
        let progress = self.index_up_to(ctx, upto, 0)?;
        if progress.reached <= progress.stored {
            return Ok(());
        }
        let record = move |tx: &Tx<'_>| {
            let now = load_position(tx.conn)?;
            // Otherwise another process has moved it.
            if now.resync || now.cursor != progress.stored {
                return Ok(());
            }
            save_position(tx, progress.reached, false)
        };
        self.store.write(ctx, record).wait()
    }

    /// Empties the index and rebuilds it from the start of the log.
    ///
    /// A crash half way does no harm: the next search continues.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`], or what the database refuses.
    pub fn rebuild(&self, ctx: &Context) -> Result<IndexLag> {
        self.store.write(ctx, reset_index).wait()?;
        self.index_batches(ctx, usize::MAX)
    }

    /// How large the index is, estimated from its tables.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn size(&self, ctx: &Context) -> Result<SearchIndexSize> {
        self.store.read(ctx, |r| {
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
            Ok(SearchIndexSize {
                documents: u64::try_from(documents).unwrap_or(0),
                bytes: u64::try_from(bytes).unwrap_or(0),
            })
        })
    }

    /// Indexes what was logged up to `upto`; returns how far it came.
    pub(super) fn index_up_to(
        &self,
        ctx: &Context,
        upto: LogCursor,
        batches: usize,
    ) -> Result<IndexProgress> {
        let mut progress = IndexProgress::default();
        let mut pause = 0;
        let mut left = batches;
        loop {
            let next = self.store.read(ctx, |r| {
                index_plan::plan_next(r.conn, r.blobs, progress, upto.0, MAX_ROWS_ALONE)
            })?;
            let batch = match next {
                NextIndexAction::Done(progress) => return Ok(progress),
                NextIndexAction::Batch(batch) => batch,
                NextIndexAction::ClearIndex if left == 0 => return Ok(IndexProgress::default()),
                NextIndexAction::ClearIndex => {
                    left -= 1;
                    self.store.write(ctx, clear_index_step).wait()?;
                    continue;
                }
            };
            // Streamed text is nothing to index: no transaction only to say so.
            if batch.steps.is_empty() && batch.to - batch.stored < WINDOW_EVENTS {
                progress = IndexProgress { stored: batch.stored, reached: batch.to };
                continue;
            }
            if left == 0 {
                return Ok(progress.rebased_to(batch.stored));
            }
            left -= 1;
            self.store.write(ctx, move |tx| apply_batch(tx, &batch)).wait()?;
            pause = match pause {
                0 => self.merge_segments(ctx)?,
                rest => rest - 1,
            };
        }
    }

    /// Merges for a while; returns for how many batches there is no use in trying again.
    fn merge_segments(&self, ctx: &Context) -> Result<usize> {
        for _ in 0..MERGE_STEPS {
            let usual = self
                .store
                .write(ctx, |tx| segment_merge::merge_step(tx, MergeStepSize::Pages))
                .wait();
            let merged = match usual {
                Err(StoreError::TooLarge { .. }) => self
                    .store
                    .write(ctx, |tx| segment_merge::merge_step(tx, MergeStepSize::SingleTerm))
                    .wait(),
                merged => merged,
            };
            match merged {
                Ok(SegmentMergeOutcome::Progressed) => {}
                Ok(SegmentMergeOutcome::Nothing) => return Ok(0),
                Ok(SegmentMergeOutcome::Stuck) | Err(StoreError::TooLarge { .. }) => {
                    if self.store.read(ctx, |r| segment_merge::has_too_many_segments(r.conn))? {
                        self.store.write(ctx, reset_index).wait()?;
                    }
                    return Ok(MERGE_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }
}

/// Events between two places of the log.
pub(super) fn events_behind(reached: i64, upto: LogCursor) -> u64 {
    u64::try_from(upto.0.saturating_sub(reached)).unwrap_or(0)
}

/// True if other mutations of the same group have written something already.
pub(super) fn is_group_shared(tx: &Tx<'_>) -> bool {
    tx.group.cursor.get() > tx.group.committed_cursor || tx.group.bytes.get() > 0
}

/// Applies as many steps as there is room for, and moves the cursor past them.
///
/// If the consumer moved since the batch was planned, somebody else did the work.
fn apply_batch(tx: &Tx<'_>, batch: &IndexBatch) -> Result<()> {
    let now = load_position(tx.conn)?;
    if now.resync || now.cursor != batch.stored {
        return Ok(());
    }
    let room = if is_group_shared(tx) { MAX_ROWS_SHARED } else { MAX_ROWS_ALONE };
    let mut cost = IndexCost::default();
    let mut cursor = batch.to;
    for (at, step) in batch.steps.iter().enumerate() {
        let with = cost.plus(&step.action);
        if at > 0 && with.rows() > room {
            cursor = batch.steps[at - 1].done.max(batch.stored);
            break;
        }
        apply_action(tx, &step.action)?;
        cost = with;
    }
    flush_fts(tx)?;
    tx.count_bytes(cost.bytes_added() + 64 * cost.rows());
    save_position(tx, cursor, false)
}

/// FTS5 writes its rows when a savepoint begins: now, so that they are counted with the batch.
pub(super) fn flush_fts(tx: &Tx<'_>) -> Result<()> {
    tx.conn.prepare_cached("SAVEPOINT search_flush")?.execute([])?;
    tx.conn.prepare_cached("RELEASE search_flush")?.execute([])?;
    Ok(())
}

fn save_position(tx: &Tx<'_>, cursor: i64, resync: bool) -> Result<()> {
    tx.conn
        .prepare_cached(
            "INSERT INTO consumer (name, cursor, time, resync) VALUES ('search', ?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET cursor = excluded.cursor, time = excluded.time,
               resync = excluded.resync",
        )?
        .execute((cursor, tx.now().0, resync))?;
    Ok(())
}

pub(super) fn apply_action(tx: &Tx<'_>, action: &IndexAction) -> Result<()> {
    match action {
        IndexAction::Put(doc) => {
            remove_document(tx, DocumentNum(doc.num.0))?;
            insert_document(tx, doc)
        }
        IndexAction::UpdateImage { num, image } => {
            tx.conn
                .prepare_cached("UPDATE search_doc SET image = ?2 WHERE num = ?1")?
                .execute((num, image))?;
            Ok(())
        }
        IndexAction::Drop(num) => remove_document(tx, *num),
    }
}

fn insert_document(tx: &Tx<'_>, doc: &SearchDocument) -> Result<()> {
    let kind = doc.kind.code();
    tx.conn
        .prepare_cached("INSERT INTO search (rowid, body, camel, scope) VALUES (?1, ?2, ?3, ?4)")?
        .execute((doc.num, &doc.body, &doc.camel, scope_terms(doc.session, kind)))?;
    tx.conn
        .prepare_cached(
            "INSERT INTO search_doc (num, session, message, kind, image, digest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((doc.num, doc.session, doc.message, kind, doc.image, doc.digest))?;
    Ok(())
}

fn remove_document(tx: &Tx<'_>, num: DocumentNum) -> Result<()> {
    let known =
        tx.conn.prepare_cached("DELETE FROM search_doc WHERE num = ?1")?.execute([num])? > 0;
    if known {
        tx.conn.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([num])?;
    }
    Ok(())
}

/// Marks the index as one to be emptied; until then nobody reads it.
pub(super) fn reset_index(tx: &Tx<'_>) -> Result<()> {
    save_position(tx, 0, true)
}

/// The tables of the index, emptied in this order. FTS5 is not asked meanwhile: it would not
/// understand what it sees.
const CLEAR_STATEMENTS: [&str; 4] = [
    "DELETE FROM search_doc WHERE num IN (SELECT num FROM search_doc LIMIT ?1)",
    "DELETE FROM search_docsize WHERE id IN (SELECT id FROM search_docsize LIMIT ?1)",
    "DELETE FROM search_idx WHERE (segid, term) IN (SELECT segid, term FROM search_idx LIMIT ?1)",
    "DELETE FROM search_data WHERE id IN (SELECT id FROM search_data WHERE id > 10 LIMIT ?1)",
];

/// Empties the index a little; when nothing is left it begins at the start of the log.
pub(super) fn clear_index_step(tx: &Tx<'_>) -> Result<()> {
    if !load_position(tx.conn)?.resync {
        return Ok(());
    }
    let mut room = if is_group_shared(tx) { MAX_ROWS_SHARED } else { MAX_ROWS_ALONE } - 10;
    tx.count_bytes(64 * room);
    for sql in CLEAR_STATEMENTS {
        room -= tx.conn.prepare_cached(sql)?.execute([room as i64])? as u64;
        if room == 0 {
            return Ok(());
        }
    }
    tx.conn.prepare_cached("INSERT INTO search (search) VALUES ('delete-all')")?.execute([])?;
    save_position(tx, 0, false)
}
