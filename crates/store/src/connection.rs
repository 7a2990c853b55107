//! Connections: opened here only, with every setting read back after it was made.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::DatabaseOpenError;

/// How long a writer of this process waits for a writer of another one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// The write-ahead log is cut back to this size (R24).
pub(crate) const WAL_LIMIT: i64 = 8 * 1024 * 1024;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPurpose {
    /// For the creation of the file.
    Create,
    /// The writer thread's.
    Write,
    /// A reader's.
    Read,
}

/// Opens the database and proves that its settings hold.
pub(crate) fn open(
    path: &Path,
    purpose: ConnectionPurpose,
) -> Result<Connection, DatabaseOpenError> {
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, path);
    let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags |= match purpose {
        ConnectionPurpose::Create => {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        }
        ConnectionPurpose::Write | ConnectionPurpose::Read => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    #[expect(clippy::disallowed_methods, reason = "this is the place where the store opens SQLite")]
    let mut conn = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    conn.busy_handler(Some(busy_backoff)).map_err(sqlite)?;
    configure_statement_cache(&conn).map_err(sqlite)?;
    if purpose == ConnectionPurpose::Create {
        // Takes effect only on an empty file; on others it would be a write each time.
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(sqlite)?;
    }
    conn.execute_batch("PRAGMA journal_mode = WAL").map_err(sqlite)?;
    conn.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;
         PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 8388608;",
    )
    .map_err(sqlite)?;
    let expect = |pragma: &'static str, wanted: &str| expect_setting(&conn, path, pragma, wanted);
    expect("journal_mode", "wal")?;
    expect("synchronous", "2")?;
    expect("foreign_keys", "1")?;
    if purpose == ConnectionPurpose::Read {
        conn.execute_batch("PRAGMA query_only = ON").map_err(sqlite)?;
        expect("query_only", "1")?;
    }
    Ok(conn)
}

/// Statements are kept, and stay as they were prepared.
///
/// Without the stability guarantee SQLite looks at bound values to find out whether a partial index
/// could serve, and prepares such a statement again each time another value is bound: a fifth of
/// what a fork cost.
fn configure_statement_cache(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(256);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Opens a file that must not be changed: one written by a newer version.
pub(crate) fn open_read_only(path: &Path) -> Result<Connection, DatabaseOpenError> {
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, path);
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_ONLY;
    #[expect(clippy::disallowed_methods, reason = "this is the place where the store opens SQLite")]
    let mut conn = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    conn.busy_handler(Some(busy_backoff)).map_err(sqlite)?;
    conn.execute_batch("PRAGMA query_only = ON").map_err(sqlite)?;
    Ok(conn)
}

/// Opens a file as it is: nothing is set, and only SQLite's rollback journal is applied to it.
pub(crate) fn open_unconfigured(path: &Path) -> Result<Connection, DatabaseOpenError> {
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, path);
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
    #[expect(clippy::disallowed_methods, reason = "this is the place where the store opens SQLite")]
    let mut conn = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    conn.busy_handler(Some(busy_backoff)).map_err(sqlite)?;
    Ok(conn)
}

/// Opens the database for reading without its shared memory, which needs room on the disk.
///
/// No process may write the database meanwhile: the caller holds the open lock and knows that the
/// database is open nowhere.
pub(crate) fn open_without_shared_memory(path: &Path) -> Result<Connection, DatabaseOpenError> {
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, path);
    let conn = if wal_len(path) == 0 {
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI;
        let uri = format!("{}&immutable=1", read_only_uri(path));
        #[expect(clippy::disallowed_methods, reason = "the store opens SQLite here")]
        Connection::open_with_flags(uri, flags).map_err(sqlite)?
    } else {
        // With the file locked for itself alone, SQLite keeps the index of the log in memory.
        let conn = open_unconfigured(path)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sqlite)?;
        conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE").map_err(sqlite)?;
        conn
    };
    conn.execute_batch("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY").map_err(sqlite)?;
    configure_statement_cache(&conn).map_err(sqlite)?;
    Ok(conn)
}

/// Opens an empty database of no name, with the file at `path` attached as `log` for reading.
pub(crate) fn open_scratch(path: &Path) -> Result<Connection, DatabaseOpenError> {
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, path);
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    #[expect(clippy::disallowed_methods, reason = "this is the place where the store opens SQLite")]
    let mut conn = Connection::open_with_flags("", flags).map_err(sqlite)?;
    conn.busy_handler(Some(busy_backoff)).map_err(sqlite)?;
    configure_statement_cache(&conn).map_err(sqlite)?;
    conn.execute("ATTACH DATABASE ?1 AS log", [read_only_uri(path)]).map_err(sqlite)?;
    Ok(conn)
}

/// The URI by which SQLite opens a file for reading only.
fn read_only_uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri.push_str("?mode=ro");
    uri
}

/// The size of the write-ahead log of `database`.
pub(crate) fn wal_len(database: &Path) -> u64 {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    fs_err::metadata(path).map_or(0, |m| m.len())
}

/// Moves the write-ahead log into the database and cuts it to nothing, without waiting for anybody.
///
/// Returns false if a reader or another writer was in the way; nothing is lost then.
pub(crate) fn truncate_wal(conn: &mut Connection) -> rusqlite::Result<bool> {
    conn.busy_handler(None::<fn(i32) -> bool>)?;
    let done = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    conn.busy_handler(Some(busy_backoff))?;
    Ok(done? == 0)
}

fn expect_setting(
    conn: &Connection,
    path: &Path,
    pragma: &'static str,
    wanted: &str,
) -> Result<(), DatabaseOpenError> {
    let found: String = conn
        .pragma_query_value(None, pragma, |row| {
            row.get_ref(0).map(|value| match value {
                rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                rusqlite::types::ValueRef::Text(t) => String::from_utf8_lossy(t).to_lowercase(),
                rusqlite::types::ValueRef::Null
                | rusqlite::types::ValueRef::Real(_)
                | rusqlite::types::ValueRef::Blob(_) => String::new(),
            })
        })
        .map_err(|e| DatabaseOpenError::from_sqlite(&e, path))?;
    if found == wanted {
        return Ok(());
    }
    Err(DatabaseOpenError::Setting {
        path: path.to_path_buf(),
        pragma,
        wanted: wanted.to_owned(),
        found,
    })
}

/// Short even waits: SQLite's own back-off sleeps up to 100 ms and starves behind a busy process.
fn busy_backoff(tries: i32) -> bool {
    let step = Duration::from_micros(if tries < 20 { 250 } else { 1000 });
    std::thread::sleep(step);
    Duration::from_millis(u64::try_from(tries).unwrap_or(0)) < BUSY_TIMEOUT
}
