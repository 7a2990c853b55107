//! Where the bytes are: what `db size` prints.
//!
//! Files and tables are measured: files by their length, tables with their indexes by the pages
//! they take. What belongs to a kind of event, a session or a consumer is estimated: the sum of the
//! lengths of what is stored for it, without the pages' own overhead.

use std::collections::BTreeMap;
use std::path::Path;

use turnstone_core::call_context::Context;
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;

use crate::connection;
use crate::consumer::{load_consumers, log_bytes_after};
use crate::error::{Result, StoreError};
use crate::read::{ReadTx, parse_stored};
use crate::store::Store;

/// Where the bytes are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseSizes {
    /// The database file.
    pub database: u64,
    /// Its write-ahead log.
    pub wal: u64,
    /// Free pages inside the database.
    pub free: u64,
    /// The log: events and their indexes.
    pub log: u64,
    /// Streamed text.
    pub text: u64,
    /// Values inside the database, and who uses which.
    pub blobs: u64,
    /// Values in files of their own.
    pub blob_files: u64,
    /// The tables that index the log.
    pub projections: u64,
    /// The search index.
    pub search: u64,
    /// Everything else in the database: streams, outbox, consumers, keys, schema.
    pub other: u64,
    /// Backups.
    pub backups: u64,
    /// Events by kind; estimated.
    pub kinds: Vec<EventKindSize>,
    /// The largest sessions, largest first; estimated.
    pub sessions: Vec<SessionSize>,
    /// What each consumer has yet to read; estimated.
    pub consumers: Vec<ConsumerBacklog>,
}

/// What the events of one kind take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKindSize {
    /// The kind.
    pub kind: EventKind,
    /// How many rows there are.
    pub rows: u64,
    /// How many of them are stubs.
    pub stubs: u64,
    /// Bytes of their payloads, values not counted.
    pub bytes: u64,
}

/// What one session takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSize {
    /// The session.
    pub session: SessionId,
    /// Bytes of its payloads and of the values they use; a value used twice counts twice.
    pub bytes: u64,
}

/// What a consumer has yet to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerBacklog {
    /// Its name.
    pub name: String,
    /// Bytes of the log after its cursor.
    pub bytes: u64,
    /// It holds nothing: it fell too far behind.
    pub resync: bool,
}

/// See [`DatabaseMaintenance::measure_sizes`](crate::DatabaseMaintenance::measure_sizes).
pub(crate) fn measure_sizes(store: &Store, ctx: &Context, top: usize) -> Result<DatabaseSizes> {
    let database = store.layout().database();
    let mut sizes = store.read(ctx, |r| measure_tables(r, top))?;
    sizes.database = fs_err::metadata(&database)?.len();
    sizes.wal = connection::wal_len(&database);
    sizes.blob_files = store.blobs().list_files()?.iter().map(|(_, len)| len).sum();
    sizes.backups = folder_bytes(&store.layout().backups())?;
    Ok(sizes)
}

/// The bytes of all files below a folder; links are not followed.
fn folder_bytes(path: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs_err::read_dir(path)?.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => sum += folder_bytes(&entry.path())?,
            Ok(kind) if kind.is_file() => sum += entry.metadata().map_or(0, |m| m.len()),
            _ => {}
        }
    }
    Ok(sum)
}

fn measure_tables(read: &ReadTx<'_>, top: usize) -> Result<DatabaseSizes> {
    let pragma = |name| read.conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let mut sizes = DatabaseSizes {
        free: non_negative(pragma("freelist_count")? * pragma("page_size")?),
        kinds: kind_sizes(read)?,
        sessions: session_sizes(read, top)?,
        ..DatabaseSizes::default()
    };
    for (table, bytes) in table_sizes(read)? {
        *match table.as_str() {
            "event" => &mut sizes.log,
            "chunk" => &mut sizes.text,
            "blob" | "blob_use" | "blob_doomed" => &mut sizes.blobs,
            "session" | "message" | "part" | "todo" | "turn" | "request" | "approval" | "input"
            | "share" | "diff" | "project" | "project_alias" | "change" | "operation" | "taken"
            | "head" => &mut sizes.projections,
            name if name.starts_with("search") => &mut sizes.search,
            _ => &mut sizes.other,
        } += bytes;
    }
    for consumer in load_consumers(read.conn)? {
        let bytes = log_bytes_after(read.conn, consumer.cursor, u64::MAX)?;
        let (name, resync) = (consumer.name, consumer.resync);
        sizes.consumers.push(ConsumerBacklog { name, bytes, resync });
    }
    Ok(sizes)
}

/// Bytes of the pages of each table, its indexes counted with it.
fn table_sizes(read: &ReadTx<'_>) -> Result<BTreeMap<String, u64>> {
    let mut statement = read.conn.prepare(
        "SELECT coalesce(tbl_name, dbstat.name), sum(pgsize)
         FROM dbstat LEFT JOIN sqlite_schema USING (name)
         WHERE aggregate = TRUE GROUP BY 1",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, non_negative(row.get(1)?))))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn kind_sizes(read: &ReadTx<'_>) -> Result<Vec<EventKindSize>> {
    let mut statement = read.conn.prepare(
        "SELECT kind, count(*), sum(payload IS NULL AND text_to IS NULL),
                sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(refs), 0))
         FROM event GROUP BY kind ORDER BY kind",
    )?;
    let mut rows = statement.query([])?;
    let mut kinds = Vec::new();
    while let Some(row) = rows.next()? {
        let code = row.get(0)?;
        let kind = EventKind::from_code(code)
            .ok_or_else(|| StoreError::Internal(format!("event kind {code}")))?;
        let stubs = if kind.has_no_payload() { 0 } else { non_negative(row.get(2)?) };
        let (rows, bytes) = (non_negative(row.get(1)?), non_negative(row.get(3)?));
        kinds.push(EventKindSize { kind, rows, stubs, bytes });
    }
    Ok(kinds)
}

fn session_sizes(read: &ReadTx<'_>, top: usize) -> Result<Vec<SessionSize>> {
    let mut statement = read.conn.prepare(
        "SELECT stream.id, sum(bytes) AS total FROM (
           SELECT session, coalesce(octet_length(payload), 0) + coalesce(octet_length(refs), 0)
             + coalesce((SELECT sum(size) FROM blob_use JOIN blob USING (hash)
                         WHERE blob_use.cursor = event.cursor), 0) AS bytes
           FROM event WHERE session IS NOT NULL
           UNION ALL
           SELECT event.session, octet_length(text) FROM chunk
           JOIN event ON event.cursor = chunk.part)
         JOIN stream USING (session) GROUP BY session ORDER BY total DESC LIMIT ?1",
    )?;
    let mut rows = statement.query([top as i64])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let session = parse_stored(row.get(0)?)?;
        sessions.push(SessionSize { session, bytes: non_negative(row.get(1)?) });
    }
    Ok(sessions)
}

fn non_negative(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
