//! OpenCode's way with its own settings: WAL, NORMAL, one transaction per event, payload stored twice.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::write_benchmark::WriteRate;
use crate::{Fallible, sample_data};

/// The tables OpenCode writes for one part, as its 1.18 schema has them.
pub(crate) const OPENCODE_SCHEMA: &str = "
CREATE TABLE session (id text PRIMARY KEY, title text NOT NULL, directory text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL,
  type text NOT NULL, data text NOT NULL);
CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id, seq);
CREATE INDEX event_aggregate_type_seq_idx ON event (aggregate_id, type, seq);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);";

/// Opens a database with OpenCode's settings.
pub(crate) fn open_database(path: &std::path::Path) -> Fallible<Connection> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -64000;",
    )?;
    conn.execute_batch(OPENCODE_SCHEMA)?;
    Ok(conn)
}

/// One writer, for it allows no more: each event is its own transaction.
pub(crate) fn run(span: Duration) -> Fallible<WriteRate> {
    let dir = tempfile::tempdir()?;
    let conn = open_database(&dir.path().join("opencode.db"))?;
    let session = sample_data::session_id(0)?;
    let message = sample_data::message_id(0)?;
    let begun = Instant::now();
    let mut seq = 0_i64;
    while begun.elapsed() < span {
        seq += 1;
        let id = sample_data::part_id(usize::try_from(seq)?)?;
        let body = serde_json::json!({"type": "text", "text": sample_data::SAMPLE_TEXT,
            "time": {"start": 1_794_728_452_868_u64, "end": 1_794_728_452_873_u64}});
        let event = serde_json::json!({"sessionID": session, "part": body, "time": 1}).to_string();
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        conn.prepare_cached(
            "INSERT INTO part VALUES (?1, ?2, ?3, 1, 1, ?4)
             ON CONFLICT (id) DO UPDATE SET data = excluded.data",
        )?
        .execute((id.as_str(), message.as_str(), session.as_str(), body.to_string()))?;
        conn.prepare_cached(
            "INSERT INTO event_sequence VALUES (?1, ?2, NULL)
             ON CONFLICT (aggregate_id) DO UPDATE SET seq = excluded.seq",
        )?
        .execute((session.as_str(), seq))?;
        conn.prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3, 'message.part.updated.1', ?4)")?
            .execute((format!("evt_{seq:026x}"), session.as_str(), seq, event))?;
        conn.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(WriteRate { per_second: seq as f64 / begun.elapsed().as_secs_f64(), group: 1.0 })
}
