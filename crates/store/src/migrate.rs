//! Upgrades of the file: numbered, one transaction each, after a verified backup.
//!
//! The caller holds the open lock, so two processes never upgrade at once.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use turnstone_core::event::EventKind;
use turnstone_core::time::Millis;

use crate::backup;
use crate::error::OpenError;
use crate::layout::Layout;
use crate::schema::{APPLICATION_ID, MIGRATIONS, Migration};

/// What the version in the file means for this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing in it yet.
    Empty,
    /// Ours, at this version.
    At(i64),
    /// Written by a newer program.
    Newer(i64),
}

/// Reads the marks of the file; refuses one that is not ours.
pub(crate) fn standing(conn: &Connection, path: &Path) -> Result<Standing, OpenError> {
    let sqlite = |e: rusqlite::Error| OpenError::from_sqlite(&e, path);
    let number = |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(sqlite)?;
    let app = number("application_id").map_err(sqlite)?;
    let version = number("user_version").map_err(sqlite)?;
    let newest = MIGRATIONS.last().map_or(0, |m| m.version);
    if tables == 0 && app == 0 {
        return Ok(Standing::Empty);
    }
    if app != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_path_buf() });
    }
    if version > newest { Ok(Standing::Newer(version)) } else { Ok(Standing::At(version)) }
}

/// Brings the file to the newest version. Returns the backup that was made, if one was needed.
pub(crate) fn upgrade(
    conn: &Connection,
    layout: &Layout,
    now: Millis,
    steps: &[Migration],
) -> Result<Option<PathBuf>, OpenError> {
    let path = layout.database();
    let from = match standing(conn, &path)? {
        Standing::Empty => 0,
        Standing::At(version) | Standing::Newer(version) => version,
    };
    let pending: Vec<&Migration> = steps.iter().filter(|m| m.version > from).collect();
    if pending.is_empty() {
        return Ok(None);
    }
    let saved = if from > 0 {
        let target = layout.backups().join(format!("before-v{from}-upgrade-{now}.db"));
        backup::write(conn, &target)
            .map_err(|e| OpenError::Backup { path: path.clone(), reason: e.to_string() })?;
        Some(target)
    } else {
        None
    };
    for step in pending {
        apply(conn, step).map_err(|e| OpenError::Migration {
            path: path.clone(),
            version: step.version,
            reason: e.to_string(),
        })?;
    }
    Ok(saved)
}

fn apply(conn: &Connection, step: &Migration) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = run(conn, step).and_then(|()| conn.execute_batch("COMMIT"));
    if done.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    done
}

fn run(conn: &Connection, step: &Migration) -> rusqlite::Result<()> {
    conn.execute_batch(step.sql)?;
    fail::fail_point!("store::in_migration");
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", step.version)?;
    if step.version == 1 {
        for kind in EventKind::ALL {
            conn.execute(
                "INSERT INTO event_kind (code, name) VALUES (?1, ?2)",
                (kind.code(), kind.name()),
            )?;
        }
    }
    Ok(())
}
