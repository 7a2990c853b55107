//! A connection to a database that may be made to do harm.
//!
//! It is a private copy, so it may be written to where SQLite has to recover it, and by nothing else. No
//! trigger, view or function of its schema runs, and no value is larger than what an import takes.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::super::source_limits::MAX_BYTES;

/// What the schema and a row of it may be at most; OpenCode's own is far below.
const LIMITS: [(Limit, i32); 6] = [
    // A row is as large as its values together, and a little more.
    (Limit::SQLITE_LIMIT_LENGTH, (MAX_BYTES + (1 << 20)) as i32),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
    (Limit::SQLITE_LIMIT_COLUMN, 256),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
];

/// Opens the copy at `path`.
#[expect(clippy::disallowed_methods, reason = "a private copy of a foreign database, never ours")]
pub(super) fn open_sandboxed(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    for (limit, most) in LIMITS {
        conn.set_limit(limit, most)?;
    }
    conn.pragma_update(None, "cell_size_check", "ON")?;
    conn.pragma_update(None, "mmap_size", 0)?;
    conn.pragma_update(None, "query_only", "ON")?;
    Ok(conn)
}
