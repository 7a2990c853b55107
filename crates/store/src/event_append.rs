//! Appends one event: its numbers, its row, its blobs, its effect on the tables.

use rusqlite::OptionalExtension;
use turnstone_core::event::EntityClass;
use turnstone_core::model::SCHEMA_VERSION;
use turnstone_core::time::{LogCursor, SessionSeq};

use crate::blob::{self};
use crate::checksum::ChecksummedEvent;
use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::projection;
use crate::table_row_ids::SessionNum;
use crate::tx::{AppendPermission, EventDraft, EventPosition, Tx};

/// Where in its session's stream an event goes, and whether the session is shared.
#[derive(Clone, Copy)]
pub(crate) struct AssignedSeq {
    pub(crate) seq: i64,
    pub(crate) sync_seq: Option<i64>,
    pub(crate) shared: bool,
}

pub(crate) fn append_with_seq(
    tx: &Tx<'_>,
    place: Option<AssignedSeq>,
    draft: &EventDraft,
) -> Result<EventPosition> {
    let cursor = tx.group.cursor.get() + 1;
    let entity = draft.entity.unwrap_or(cursor);
    insert_event(tx, LogCursor(cursor), place, entity, draft)?;
    tx.group.cursor.set(cursor);
    if let Some(prepared) = &draft.payload {
        store_blobs(tx, cursor, prepared)?;
    }
    let stored = projection::ProjectionEvent {
        cursor,
        session: draft.session,
        seq: place.map_or(0, |p| p.seq),
        kind: draft.kind,
        entity,
        actor: tx.acting_actor_num()?,
        time: tx.ctx.now.0,
        payload: draft.payload.as_ref().map(|p| p.json.as_str()),
        text: draft.text,
    };
    projection::apply_event(tx.conn, &stored)?;
    // Sharing itself changes whether the session is shared.
    if draft.kind.class() == EntityClass::Share || place.is_some_and(|p| p.shared) {
        enqueue_outbox(tx, draft, cursor)?;
    }
    if tx.last.get().is_none() {
        crate::idempotency::record_call_start(tx, cursor)?;
    }
    let appended =
        EventPosition { cursor: LogCursor(cursor), seq: place.map(|p| SessionSeq(p.seq)) };
    tx.last.set(Some(appended));
    Ok(appended)
}

/// Assigns `seq` to so many events and says that of the last. In the same statement it compares
/// what the caller relies on (R27, R43): the expected number, and for turn-owned rows the lease,
/// or that no turn is open.
pub(crate) fn assign_seqs(
    tx: &Tx<'_>,
    session: SessionNum,
    draft: &EventDraft,
    count: i64,
) -> Result<AssignedSeq> {
    let durable = draft.kind.is_opencode_durable();
    let guarded = draft.permission == AppendPermission::ByKind && draft.kind.is_turn_owned();
    let lease = tx.ctx.lease.as_ref();
    let expected = tx.expected.take();
    let row: Option<(i64, i64, Option<bool>)> = tx
        .conn
        .prepare_cached(
            "UPDATE stream SET seq = seq + ?8, sync_seq = sync_seq + ?2
             WHERE session = ?1 AND (?3 IS NULL OR seq = ?3)
               AND (?4 = 0 OR (id = ?5 AND epoch = ?6 AND owner = ?7)
                    OR (id IS NOT ?5 AND NOT EXISTS
                          (SELECT 1 FROM turn WHERE turn.session = ?1 AND ended IS NULL)))
             RETURNING seq, sync_seq, (SELECT shared FROM session WHERE num = ?1)",
        )?
        .query_row(
            (
                session,
                if durable { count } else { 0 },
                expected.map(|seq| seq.0),
                guarded,
                lease.map(|l| l.session.as_str()),
                lease.map(|l| l.epoch),
                lease.map(|l| l.owner.as_str()),
                count,
            ),
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    match row {
        Some((seq, sync, shared)) => {
            let shared = shared.unwrap_or(false);
            Ok(AssignedSeq { seq, sync_seq: durable.then_some(sync), shared })
        }
        None => Err(refusal_error(tx, session, expected)?),
    }
}

fn refusal_error(
    tx: &Tx<'_>,
    session: SessionNum,
    expected: Option<SessionSeq>,
) -> Result<StoreError> {
    let id = tx.session_id(session)?;
    let current: i64 = tx
        .conn
        .prepare_cached("SELECT seq FROM stream WHERE session = ?1")?
        .query_row([session], |row| row.get(0))?;
    let leased = tx.ctx.lease.as_ref().is_some_and(|lease| lease.session == id);
    Ok(match expected {
        Some(expected) if expected.0 != current => {
            StoreError::Stale { session: id, expected, current: SessionSeq(current) }
        }
        _ if leased => StoreError::Fenced(id),
        _ => StoreError::Busy(id),
    })
}

fn insert_event(
    tx: &Tx<'_>,
    LogCursor(cursor): LogCursor,
    place: Option<AssignedSeq>,
    entity: i64,
    draft: &EventDraft,
) -> Result<()> {
    let event = ChecksummedEvent {
        cursor,
        session: draft.session,
        seq: place.map(|p| p.seq),
        sync_seq: place.and_then(|p| p.sync_seq),
        kind: draft.kind.code(),
        entity,
        actor: tx.acting_actor_num()?,
        time: tx.ctx.now.0,
        version: i64::from(SCHEMA_VERSION),
        payload: draft.payload.as_ref().map(|p| p.json.as_str()),
        refs: draft.payload.as_ref().and_then(|p| p.refs.as_deref()),
        text: draft.text,
    };
    tx.conn
        .prepare_cached(
            "INSERT INTO event (cursor, session, seq, sync_seq, kind, entity, actor, time,
                                version, payload, refs, text_from, text_to, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(rusqlite::params![
            event.cursor,
            event.session,
            event.seq,
            event.sync_seq,
            event.kind,
            event.entity,
            event.actor,
            event.time,
            event.version,
            event.payload,
            event.refs,
            event.text.map(|t| t.0),
            event.text.map(|t| t.1),
            event.checksum(),
        ])?;
    Ok(())
}

fn store_blobs(tx: &Tx<'_>, cursor: i64, prepared: &PreparedPayload) -> Result<()> {
    tx.count_bytes(prepared.stored_bytes() + 64);
    for (hash, text) in &prepared.blobs {
        blob::put_blob(tx.conn, tx.blobs, hash, text.as_bytes())?;
        tx.conn
            .prepare_cached("INSERT OR IGNORE INTO blob_use (hash, cursor) VALUES (?1, ?2)")?
            .execute((&hash.0[..], cursor))?;
    }
    Ok(())
}

/// A shared session's events wait in the outbox until the hub has them.
fn enqueue_outbox(tx: &Tx<'_>, draft: &EventDraft, cursor: i64) -> Result<()> {
    let Some(session) = draft.session else { return Ok(()) };
    tx.conn
        .prepare_cached(
            "INSERT INTO outbox (session, cursor, time)
             SELECT num, ?2, ?3 FROM session WHERE num = ?1 AND shared = 1",
        )?
        .execute((session, cursor, tx.ctx.now.0))?;
    Ok(())
}
