//! The limit: the same rows by hand, one connection, prepared statements, FULL, groups as observed.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::write_benchmark::WriteRate;
use crate::{Fallible, sample_data};

/// Writes events in transactions of `group`, spread over `sessions` sessions.
pub(crate) fn run(group: usize, sessions: usize, span: Duration) -> Fallible<WriteRate> {
    let dir = tempfile::tempdir()?;
    drop(sample_data::create_filled_store(dir.path(), sessions)?);
    let conn = Connection::open(dir.path().join("turnstone.db"))?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -16000; PRAGMA journal_size_limit = 8388608;",
    )?;
    let places: Vec<(i64, i64)> = conn
        .prepare("SELECT session, num FROM message ORDER BY num")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut cursor: i64 = conn.query_row("SELECT max(cursor) FROM event", [], |r| r.get(0))?;
    let (mut done, mut commits) = (0_usize, 0_usize);
    let begun = Instant::now();
    while begun.elapsed() < span {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for _ in 0..group {
            cursor += 1;
            // The same ids as ours: each session's parts are numbered from a million of its own.
            let (lane, nth) = (done % places.len(), done / places.len());
            insert_event(&conn, cursor, places[lane], lane * 1_000_000 + nth)?;
            done += 1;
        }
        conn.prepare_cached("COMMIT")?.execute([])?;
        commits += 1;
    }
    let per_second = done as f64 / begun.elapsed().as_secs_f64();
    Ok(WriteRate { per_second, group: done as f64 / commits.max(1) as f64 })
}

fn insert_event(
    conn: &Connection,
    cursor: i64,
    (session, message): (i64, i64),
    part: usize,
) -> Fallible {
    let id = sample_data::part_id(part)?;
    let payload = serde_json::json!({"id": id, "message": message, "data": {
        "type": "text", "text": sample_data::SAMPLE_TEXT,
        "time": {"start": 1_794_728_452_868_u64, "end": 1_794_728_452_873_u64}}})
    .to_string();
    let (seq, sync): (i64, i64) = conn
        .prepare_cached(
            "UPDATE stream SET seq = seq + 1, sync_seq = sync_seq + 1 WHERE session = ?1
             RETURNING seq, sync_seq",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    conn.prepare_cached(
        "INSERT INTO event (cursor, session, seq, sync_seq, kind, entity, actor, time, version, payload, sum)
         VALUES (?1, ?2, ?3, ?4, 30, ?1, 1, 1794728448904, 1, ?5, -3750763034362895579)",
    )?
    .execute((cursor, session, seq, sync, payload))?;
    conn.prepare_cached(
        "INSERT INTO part (num, id, message, session, type, image) VALUES (?1, ?2, ?3, ?4, 'text', ?1)",
    )?
    .execute((cursor, id.as_str(), message, session))?;
    Ok(())
}
