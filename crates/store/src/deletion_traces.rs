//! What deleted rows leave behind: stored answers, words of the search index, files of long values, free pages and the
//! write-ahead log. Removed here, so that a deletion deletes (R23).

use std::time::Duration;

use rusqlite::Connection;
use turnstone_core::call_context::Context;

use crate::connection;
use crate::error::{Result, StoreError};
use crate::maintenance::{
    DatabaseMaintenanceReport, MaintenanceBudget, MaintenanceLimits, remove_unused_blob_files,
};
use crate::purge::{self, PendingDeletion};
use crate::store::Store;
use crate::tx::Tx;

/// Stored answers removed in one transaction.
const BATCH: i64 = 200;
/// How often the write-ahead log is tried to be emptied while readers are active, and the pause between.
const TRUNCATE_ATTEMPTS: usize = 250;
const TRUNCATE_PAUSE: Duration = Duration::from_millis(20);
/// Above this size the copy that a rewrite makes goes into a temporary file instead of memory.
const MAX_COPY_IN_MEMORY: i64 = 64 << 20;

/// See [`DatabaseMaintenance::erase_traces`](crate::DatabaseMaintenance::erase_traces).
pub(crate) fn erase_traces(
    store: &Store,
    ctx: &Context,
    sessions: &[PendingDeletion],
) -> Result<()> {
    for deleted in sessions {
        remove_stored_answers(store, ctx, deleted)?;
    }
    store.session_search().erase_deleted_words(ctx)?;
    fail::fail_point!("store::erased_words");
    // At once: who still reads such a file began before the deletion, and its bytes are what must go.
    let limits = MaintenanceLimits { grace_ms: 0, ..MaintenanceLimits::default() };
    let mut report = DatabaseMaintenanceReport::default();
    let mut budget = MaintenanceBudget::unlimited();
    remove_unused_blob_files(store, ctx, &mut budget, &limits, &mut report)?;
    fail::fail_point!("store::erased_files");
    rewrite_database(store)?;
    fail::fail_point!("store::rewritten");
    purge::clear_pending_deletions(store, ctx, sessions)
}

/// Removes answers that are kept for repeated calls and speak of the session.
fn remove_stored_answers(store: &Store, ctx: &Context, deleted: &PendingDeletion) -> Result<()> {
    loop {
        let id = deleted.session.to_string();
        let remove = move |tx: &Tx<'_>| {
            Ok(tx
                .conn
                .prepare_cached(
                    "DELETE FROM idempotency WHERE (actor, key) IN
                       (SELECT actor, key FROM idempotency WHERE instr(result, ?1) > 0 LIMIT ?2)",
                )?
                .execute((&id, BATCH))?)
        };
        if store.write(ctx, remove).wait()? == 0 {
            return Ok(());
        }
    }
}

/// Rewrites the database, so that no page holds what was removed, and empties the write-ahead log.
///
/// Deleted cells stay readable in free pages and in the unused space of others until SQLite writes there, and it
/// offers no smaller step that overwrites all of them.
pub(crate) fn rewrite_database(store: &Store) -> Result<()> {
    store.submit_maintenance(|conn| vacuum(conn)).wait()?;
    let file = store.layout().database();
    for _ in 0..TRUNCATE_ATTEMPTS {
        let is_emptied = store.submit_maintenance(connection::truncate_wal).wait()?;
        if is_emptied && connection::wal_len(&file) == 0 {
            return Ok(());
        }
        std::thread::sleep(TRUNCATE_PAUSE);
    }
    Err(StoreError::OldPagesInUse { file })
}

fn vacuum(conn: &Connection) -> rusqlite::Result<()> {
    let number = |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let bytes = number("page_count")? * number("page_size")?;
    if bytes <= MAX_COPY_IN_MEMORY {
        return conn.execute_batch("VACUUM");
    }
    conn.execute_batch("PRAGMA temp_store = FILE")?;
    let done = conn.execute_batch("VACUUM");
    conn.execute_batch("PRAGMA temp_store = MEMORY")?;
    done
}
