//! Deletion: hidden at once with a tombstone, removed in small steps that survive a crash (R23).

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::json;
use turnstone_core::call_context::Context;
use turnstone_core::event::EventKind;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_core::turn::TurnOutcome;

use crate::blob;
use crate::error::{Result, StoreError};
use crate::mutation::{EndTurn, TurnEnder, keep_unrevoked_share};
use crate::payload::PreparedPayload;
use crate::read::{load_session, parse_stored};
use crate::store::Store;
use crate::table_row_ids::SessionNum;
use crate::tx::{EventDraft, Tx};

/// Sessions hidden in one transaction.
const HIDE_BATCH: usize = 100;
/// Sessions whose tombstone is written in one transaction.
const TOMBSTONE_BATCH: usize = 40;

/// The value of `purge.announced` once the rows are gone and only traces of them are left: in free pages, in the
/// search index, in files and captures. A version that does not know it purges no rows and ends there.
const ROWS_PURGED: i64 = 2;

/// A session that is deleted and still leaves something on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDeletion {
    /// The deleted session.
    pub session: SessionId,
    /// When it was deleted.
    pub time: EpochMillis,
    num: SessionNum,
}

/// What a deletion took away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionReport {
    /// The session and the sessions it had started, parents first.
    pub sessions: Vec<SessionId>,
}

impl Store {
    /// Deletes a session with the sessions it started and all that hangs on them.
    ///
    /// They are gone for every reader when this returns, and readers of the log learn it from
    /// tombstones. A running turn is aborted first. The rows are removed by [`DatabaseMaintenance::purge_deleted`](crate::DatabaseMaintenance::purge_deleted).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`]; then nothing was deleted.
    pub fn delete_session(&self, ctx: &Context, id: &SessionId) -> Result<DeletionReport> {
        // Whatever ends this process, the next one that looks finishes the deletion.
        crate::maintenance::clear_last_run(self.layout())?;
        let root = id.clone();
        let tree = self.write(ctx, move |tx| session_tree(tx, &root)).wait()?;
        // Deepest first, so that a crash in between never leaves a child without its parent.
        // Up to `HIDE` sessions go in one transaction.
        for piece in tree.rchunks(HIDE_BATCH) {
            let piece = piece.to_vec();
            self.write(ctx, move |tx| hide_sessions(tx, &piece)).wait()?;
        }
        while self.write(ctx, |tx| write_tombstones(tx, TOMBSTONE_BATCH)).wait()? {}
        let sessions = tree.into_iter().map(|(_, id)| parse_stored(id)).collect::<Result<_>>()?;
        Ok(DeletionReport { sessions })
    }
}

/// See [`DatabaseMaintenance::purge_deleted`](crate::DatabaseMaintenance::purge_deleted).
pub(crate) fn purge_deleted(store: &Store, ctx: &Context, steps: usize) -> Result<bool> {
    for _ in 0..steps {
        fail::fail_point!("store::purge_step");
        if !store.write(ctx, |tx| purge_step(tx, None)).wait()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sessions that are deleted and whose traces are not known to be gone, oldest deletion first.
pub(crate) fn list_pending(conn: &Connection) -> Result<Vec<PendingDeletion>> {
    let mut statement = conn.prepare_cached(
        "SELECT purge.session, stream.id, purge.time FROM purge
         JOIN stream ON stream.session = purge.session ORDER BY purge.time, purge.session",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(PendingDeletion {
            num: row.get(0)?,
            session: parse_stored(row.get(1)?)?,
            time: EpochMillis(row.get(2)?),
        });
    }
    Ok(found)
}

/// Removes the rows of these sessions, in short transactions.
pub(crate) fn purge_sessions(
    store: &Store,
    ctx: &Context,
    sessions: &[PendingDeletion],
) -> Result<()> {
    for PendingDeletion { num, .. } in sessions {
        let num = *num;
        loop {
            fail::fail_point!("store::purge_step");
            if !store.write(ctx, move |tx| purge_step(tx, Some(num))).wait()? {
                break;
            }
        }
    }
    Ok(())
}

/// Ends the deletion of these sessions: nothing of them is left.
pub(crate) fn clear_pending_deletions(
    store: &Store,
    ctx: &Context,
    sessions: &[PendingDeletion],
) -> Result<()> {
    for batch in sessions.chunks(HIDE_BATCH) {
        let nums: Vec<SessionNum> = batch.iter().map(|it| it.num).collect();
        let finish = move |tx: &Tx<'_>| -> Result<()> {
            for num in &nums {
                tx.conn
                    .prepare_cached("DELETE FROM purge WHERE session = ?1 AND announced = ?2")?
                    .execute((num, ROWS_PURGED))?;
            }
            Ok(())
        };
        store.write(ctx, finish).wait()?;
    }
    Ok(())
}

// The statements below name these kinds by their codes, which never change.
const _: () = assert!(EventKind::PartDelta.code() == 32 && EventKind::SessionDeleted.code() == 12);

/// The rows that go with a session, each statement a bounded number of them. What refers to
/// something goes before it, so that a purge cut off half way leaves nothing that looks damaged.
const PURGE_STATEMENTS: &[&str] = &[
    "DELETE FROM part WHERE num IN (SELECT num FROM part WHERE session = ?1 LIMIT 400)",
    "DELETE FROM message WHERE num IN (SELECT num FROM message WHERE session = ?1 LIMIT 400)",
    "DELETE FROM turn WHERE num IN (SELECT num FROM turn WHERE session = ?1 LIMIT 400)",
    "DELETE FROM request WHERE num IN (SELECT num FROM request WHERE session = ?1 LIMIT 400)",
    "DELETE FROM input WHERE num IN (SELECT num FROM input WHERE session = ?1 LIMIT 400)",
    "DELETE FROM taken WHERE change IN (SELECT change FROM taken WHERE session = ?1 LIMIT 400)",
    "DELETE FROM operation WHERE num IN (SELECT num FROM operation WHERE session = ?1 LIMIT 400)",
    "DELETE FROM change WHERE num IN (SELECT num FROM change WHERE session = ?1 LIMIT 400)",
    "DELETE FROM session WHERE num = ?1",
    "DELETE FROM chunk WHERE num IN
       (SELECT chunk.num FROM event JOIN chunk ON chunk.part = event.entity
        WHERE event.session = ?1 AND event.kind = 32 LIMIT 200)",
];

/// The log of a session but for its first event, which becomes the stub, and its tombstone.
const PURGE_EVENTS: &str = "DELETE FROM event WHERE cursor IN
       (SELECT cursor FROM event WHERE session = ?1 AND kind <> 12 AND cursor <> ?1
        ORDER BY seq LIMIT 400)";

/// Events whose values are let go in one transaction, and how many of each.
const RELEASE_BATCH: (i64, i64) = (40, 3);

/// A session and its descendants, parents first: `(number, id)`.
fn session_tree(tx: &Tx<'_>, root: &SessionId) -> Result<Vec<(SessionNum, String)>> {
    let mut tree = vec![(tx.session_num(root)?, root.to_string())];
    let mut at = 0;
    while let Some((_, id)) = tree.get(at) {
        let mut statement = tx.conn.prepare_cached(
            "SELECT num, id FROM session WHERE parent = ?1 AND hidden = 0 ORDER BY num",
        )?;
        let children: Vec<(SessionNum, String)> = statement
            .query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        // A session cannot descend from itself, but an imported one might claim so.
        let fresh: Vec<_> = children.into_iter().filter(|c| !tree.contains(c)).collect();
        tree.extend(fresh);
        at += 1;
    }
    Ok(tree)
}

fn hide_sessions(tx: &Tx<'_>, piece: &[(SessionNum, String)]) -> Result<()> {
    for (num, id) in piece {
        abort_open_turn(tx, *num, id)?;
        keep_unrevoked_share(tx, *num, id)?;
        tx.conn.prepare_cached("UPDATE session SET hidden = 1 WHERE num = ?1")?.execute([num])?;
        tx.conn
            .prepare_cached("INSERT OR IGNORE INTO purge (session, time) VALUES (?1, ?2)")?
            .execute((num, tx.now().0))?;
    }
    if piece.len() <= TOMBSTONE_BATCH {
        write_tombstones(tx, TOMBSTONE_BATCH)?;
    }
    Ok(())
}

fn abort_open_turn(tx: &Tx<'_>, num: SessionNum, id: &str) -> Result<()> {
    let open: Option<String> = tx
        .conn
        .prepare_cached("SELECT id FROM turn WHERE session = ?1 AND ended IS NULL")?
        .query_row([num], |row| row.get(0))
        .optional()?;
    let Some(turn) = open else { return Ok(()) };
    tx.leases().set_holder(num, None)?;
    let turn: TurnId = parse_stored(turn)?;
    let session: SessionId = parse_stored(id.to_owned())?;
    let end = EndTurn { session, turn, outcome: TurnOutcome::Aborted, error: None };
    tx.turns().end_by(&end, TurnEnder::Recovery)?;
    Ok(())
}

/// Writes tombstones of hidden sessions; returns true if there may be more.
fn write_tombstones(tx: &Tx<'_>, limit: usize) -> Result<bool> {
    let mut statement =
        tx.conn.prepare_cached("SELECT session FROM purge WHERE announced = 0 LIMIT ?1")?;
    let nums: Vec<SessionNum> =
        statement.query_map([limit as i64], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for num in &nums {
        let gone = load_session(tx.conn, tx.blobs, *num)?;
        // What is needed to tell readers of that directory; nothing of what was said in it.
        let tombstone = json!({
            "id": gone.id, "projectID": gone.project, "directory": gone.directory,
            "parentID": gone.parent,
            // Names the copies of the original when that is deleted, too.
            "originID": gone.origin.map(|origin| origin.session),
        });
        let draft = EventDraft::new(Some(*num), EventKind::SessionDeleted, Some(num.0));
        tx.append(&draft.payload(PreparedPayload::new(&tombstone)?))?;
        tx.conn
            .prepare_cached("UPDATE stream SET deleted = 1, owner = NULL WHERE session = ?1")?
            .execute([num])?;
        tx.conn
            .prepare_cached("UPDATE purge SET announced = 1 WHERE session = ?1")?
            .execute([num])?;
    }
    Ok(nums.len() == limit)
}

/// Takes one bounded step, for any session or for this one; returns false when nothing is left to do.
fn purge_step(tx: &Tx<'_>, only: Option<SessionNum>) -> Result<bool> {
    if write_tombstones(tx, TOMBSTONE_BATCH)? {
        return Ok(true);
    }
    let next: Option<i64> = tx
        .conn
        .prepare_cached(
            "SELECT session FROM purge
             WHERE announced < ?1 AND (?2 IS NULL OR session = ?2) ORDER BY session LIMIT 1",
        )?
        .query_row((ROWS_PURGED, only), |row| row.get(0))
        .optional()?;
    let Some(session) = next else { return Ok(false) };
    for sql in PURGE_STATEMENTS {
        if tx.conn.prepare_cached(sql)?.execute([session])? > 0 {
            return Ok(true);
        }
    }
    if release_session_blobs(tx, SessionNum(session))? {
        return Ok(true);
    }
    let gone = tx.conn.prepare_cached(PURGE_EVENTS)?.execute([session])?;
    extend_first_stub(tx, SessionNum(session))?;
    if gone > 0 {
        return Ok(true);
    }
    tx.conn
        .prepare_cached("UPDATE purge SET announced = ?2 WHERE session = ?1")?
        .execute((session, ROWS_PURGED))?;
    Ok(true)
}

/// Lets go of large values the session's events used; returns false when none are left.
fn release_session_blobs(tx: &Tx<'_>, session: SessionNum) -> Result<bool> {
    let cursors: Vec<i64> = tx
        .conn
        .prepare_cached(
            "SELECT DISTINCT blob_use.cursor FROM event
             JOIN blob_use ON blob_use.cursor = event.cursor
             WHERE event.session = ?1 LIMIT ?2",
        )?
        .query_map((session, RELEASE_BATCH.0), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for cursor in &cursors {
        // The event first: what is left of it refers to nothing any more.
        tx.conn
            .prepare_cached(
                "UPDATE event SET payload = NULL, refs = NULL, text_from = NULL,
                   text_to = NULL, sum = NULL WHERE cursor = ?1",
            )?
            .execute([cursor])?;
        blob::release_blobs(tx.conn, LogCursor(*cursor), tx.now(), RELEASE_BATCH.1)?;
    }
    Ok(!cursors.is_empty())
}

/// The session's first event becomes the stub of all numbers before the next one that is left,
/// so that readers never see a gap.
fn extend_first_stub(tx: &Tx<'_>, session: SessionNum) -> Result<()> {
    let next: i64 = tx
        .conn
        .prepare_cached(
            "SELECT min(seq - span + 1) FROM event WHERE session = ?1 AND cursor <> ?1",
        )?
        .query_row([session], |row| row.get::<_, Option<i64>>(0))?
        .ok_or_else(|| StoreError::Internal("a deleted session has no tombstone".to_owned()))?;
    tx.conn
        .prepare_cached(
            "UPDATE event SET seq = ?2, span = ?2, payload = NULL, refs = NULL,
               text_from = NULL, text_to = NULL, sum = NULL
             WHERE cursor = ?1",
        )?
        .execute((session, next - 1))?;
    Ok(())
}
