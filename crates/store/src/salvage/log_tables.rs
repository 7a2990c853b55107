//! What the log consists of: actors, large values, events.

use rusqlite::{OptionalExtension, Row, params};
use turnstone_core::event::EventKind;

use super::range_reader::{self, RowVerdict, SalvageTable};
use super::{SalvageRun, TableSalvageCounts};
use crate::blob::BlobHash;
use crate::checksum::EventRow;
use crate::error::Result;
use crate::payload::parse_refs;

const ACTORS: SalvageTable = SalvageTable {
    name: "actor",
    rows: "SELECT num, name FROM actor WHERE num BETWEEN ?1 AND ?2 ORDER BY num",
    highest: &["SELECT max(num) FROM actor"],
};

/// An actor's name is proved by the index of names, its second copy.
pub(super) fn salvage_actors(work: &mut SalvageRun<'_>) -> Result<()> {
    let counts = range_reader::read_table(work.source, &ACTORS, &mut |row| {
        let num: i64 = row.get(0)?;
        let Ok(name) = row.get::<_, String>(1) else {
            return Ok(RowVerdict::Damaged);
        };
        let indexed = work
            .source
            .prepare_cached("SELECT num FROM actor WHERE name = ?1")
            .and_then(|mut s| s.query_row([&name], |row| row.get::<_, i64>(0)).optional());
        let proved = indexed.map_or(true, |found| found == Some(num));
        let added = proved && insert_actor(work, num, &name)?;
        Ok(if added { RowVerdict::Sound } else { RowVerdict::Damaged })
    })?;
    work.done.tables.push(counts);
    Ok(())
}

fn insert_actor(work: &SalvageRun<'_>, num: i64, name: &str) -> Result<bool> {
    let added = work
        .out
        .prepare_cached("INSERT OR IGNORE INTO actor (num, name) VALUES (?1, ?2)")?
        .execute((num, name))?;
    Ok(added == 1)
}

const BLOBS: SalvageTable = SalvageTable {
    name: "blob",
    rows: "SELECT rowid, hash, size, data FROM blob WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid",
    highest: &["SELECT max(rowid) FROM blob"],
};

/// A large value is proved by its hash; one that is a file is read from where the store had it.
pub(super) fn salvage_blobs(work: &mut SalvageRun<'_>) -> Result<()> {
    let counts = range_reader::read_table(work.source, &BLOBS, &mut |row| {
        let taken = salvage_blob(work, row)?;
        Ok(if taken { RowVerdict::Sound } else { RowVerdict::Damaged })
    })?;
    work.done.tables.push(counts);
    Ok(())
}

fn salvage_blob(work: &SalvageRun<'_>, row: &Row<'_>) -> Result<bool> {
    let Ok(hash) = row.get::<_, Vec<u8>>(1) else {
        return Ok(false);
    };
    let Ok(hash) = <[u8; 32]>::try_from(hash).map(BlobHash) else {
        return Ok(false);
    };
    let inside: Option<Vec<u8>> = match row.get(3) {
        Ok(data) => data,
        Err(_) => return Ok(false),
    };
    let bytes = match &inside {
        Some(data) => data.clone(),
        None => match fs_err::read(work.from.path(&hash)) {
            Ok(bytes) => bytes,
            Err(_) => return Ok(false),
        },
    };
    if BlobHash::of(&bytes) != hash {
        return Ok(false);
    }
    if inside.is_none() {
        work.to.write_file(&hash, &bytes)?;
    }
    let added = work
        .out
        .prepare_cached("INSERT OR IGNORE INTO blob (hash, size, data) VALUES (?1, ?2, ?3)")?
        .execute((&hash.0[..], bytes.len() as i64, inside))?;
    Ok(added == 1)
}

const EVENTS: SalvageTable = SalvageTable {
    name: "event",
    rows: "SELECT cursor, session, seq, sync_seq, kind, entity, actor, time, version, payload,
                  refs, text_from, text_to, sum, span
           FROM event WHERE cursor BETWEEN ?1 AND ?2 ORDER BY cursor",
    highest: &[
        "SELECT max(cursor) FROM event",
        "SELECT max(cursor) FROM event INDEXED BY event_stream WHERE session IS NOT NULL",
        "SELECT max(cursor) FROM blob_use INDEXED BY blob_use_cursor",
        "SELECT max(image) FROM part",
        "SELECT max(image) FROM message",
        "SELECT max(cursor) FROM outbox",
    ],
};

/// An event is proved by its check sum, and taken only if all it refers to was taken.
pub(super) fn salvage_events(work: &mut SalvageRun<'_>) -> Result<u64> {
    let counts: TableSalvageCounts = range_reader::read_table(work.source, &EVENTS, &mut |row| {
        let taken = salvage_event(work, row)?;
        Ok(if taken { RowVerdict::Sound } else { RowVerdict::Damaged })
    })?;
    work.done.tables.push(counts);
    Ok(counts.read)
}

fn salvage_event(work: &SalvageRun<'_>, row: &Row<'_>) -> Result<bool> {
    let Ok(found) = EventRow::from_row(row) else {
        return Ok(false);
    };
    let event = &found.event;
    if !found.is_intact() || found.span < 1 || EventKind::from_code(event.kind).is_none() {
        return Ok(false);
    }
    let Ok(refs) = parse_refs(event.refs) else {
        return Ok(false);
    };
    for (_, hash, _) in &refs {
        let there =
            work.out.prepare_cached("SELECT 1 FROM blob WHERE hash = ?1")?.exists([&hash.0[..]])?;
        if !there {
            return Ok(false);
        }
    }
    let added = work
        .out
        .prepare_cached(
            "INSERT OR IGNORE INTO event (cursor, session, seq, sync_seq, kind, entity, actor, time,
                                          version, span, payload, refs, text_from, text_to, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            event.cursor,
            event.session,
            event.seq,
            event.sync_seq,
            event.kind,
            event.entity,
            event.actor,
            event.time,
            event.version,
            found.span,
            event.payload,
            event.refs,
            event.text.map(|t| t.0),
            event.text.map(|t| t.1),
            found.sum,
        ])?;
    for (_, hash, _) in refs.iter().filter(|_| added == 1) {
        work.out
            .prepare_cached("INSERT OR IGNORE INTO blob_use (hash, cursor) VALUES (?1, ?2)")?
            .execute((&hash.0[..], event.cursor))?;
    }
    // An actor whose name is lost keeps the number by which its events name it.
    if added == 1 {
        insert_actor(work, event.actor, &format!("salvaged-{}", event.actor))?;
    }
    Ok(added == 1)
}
