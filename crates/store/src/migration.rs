//! Upgrades of the file: numbered, one transaction each, after a verified backup.
//!
//! The caller holds the open lock, so two processes never upgrade at once.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use turnstone_core::event::EventKind;
use turnstone_core::time::EpochMillis;

use crate::backup;
use crate::data_layout::DataLayout;
use crate::error::DatabaseOpenError;
use crate::schema::{APPLICATION_ID, MIGRATIONS, Migration};

/// What the version in the file means for this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SchemaCompatibility {
    /// Nothing in it yet.
    Empty,
    /// Ours, at this version.
    Supported(i64),
    /// Written by a newer program.
    Newer(i64),
}

/// Reads the marks of the file; refuses one that is not ours.
pub(crate) fn check_schema_compatibility(
    conn: &Connection,
    path: &Path,
) -> Result<SchemaCompatibility, DatabaseOpenError> {
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, path);
    let number = |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(sqlite)?;
    let app = number("application_id").map_err(sqlite)?;
    let version = number("user_version").map_err(sqlite)?;
    let newest = MIGRATIONS.last().map_or(0, |m| m.version);
    if tables == 0 && app == 0 {
        return Ok(SchemaCompatibility::Empty);
    }
    if app != APPLICATION_ID {
        return Err(DatabaseOpenError::Foreign { path: path.to_path_buf() });
    }
    if version > newest {
        Ok(SchemaCompatibility::Newer(version))
    } else {
        Ok(SchemaCompatibility::Supported(version))
    }
}

/// Brings the file to the newest version. Returns the backup that was made, if one was needed.
pub(crate) fn upgrade(
    conn: &Connection,
    layout: &DataLayout,
    now: EpochMillis,
    steps: &[Migration],
) -> Result<Option<PathBuf>, DatabaseOpenError> {
    let path = layout.database();
    let from = match check_schema_compatibility(conn, &path)? {
        SchemaCompatibility::Empty => 0,
        SchemaCompatibility::Supported(version) | SchemaCompatibility::Newer(version) => version,
    };
    let pending: Vec<&Migration> = steps.iter().filter(|m| m.version > from).collect();
    if pending.is_empty() {
        return Ok(None);
    }
    let saved = if from > 0 {
        let target = layout.backups().join(format!("before-v{from}-upgrade-{now}.db"));
        backup::write_database_copy(conn, &target)
            .map_err(|e| DatabaseOpenError::Backup { path: path.clone(), reason: e.to_string() })?;
        Some(target)
    } else {
        None
    };
    for step in pending {
        apply_migration(conn, step).map_err(|e| DatabaseOpenError::Migration {
            path: path.clone(),
            version: step.version,
            reason: e.to_string(),
        })?;
    }
    Ok(saved)
}

fn apply_migration(conn: &Connection, step: &Migration) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = run_migration(conn, step).and_then(|()| conn.execute_batch("COMMIT"));
    if done.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    done
}

fn run_migration(conn: &Connection, step: &Migration) -> rusqlite::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{self, ConnectionPurpose};
    use crate::store::{Options, Store};

    fn steps(upto: usize, more: &[(i64, &'static str)]) -> Vec<Migration> {
        let known = MIGRATIONS[..upto].iter().map(|m| Migration { version: m.version, sql: m.sql });
        known
            .chain(more.iter().map(|(version, sql)| Migration { version: *version, sql }))
            .collect()
    }

    /// A file at the version of the first `upto` steps, with something in it.
    fn file(dir: &Path, upto: usize) -> (DataLayout, Connection) {
        let layout = DataLayout::new(dir);
        layout.create().expect("made");
        let conn = connection::open(&layout.database(), ConnectionPurpose::Create).expect("opens");
        assert_eq!(upgrade(&conn, &layout, EpochMillis(1), &steps(upto, &[])).expect("made"), None);
        conn.execute("INSERT INTO actor (name) VALUES ('ada')", []).expect("written");
        (layout, conn)
    }

    fn number(conn: &Connection, sql: &str) -> i64 {
        conn.query_row(sql, [], |row| row.get(0)).expect("reads")
    }

    fn backups(layout: &DataLayout) -> Vec<PathBuf> {
        fs_err::read_dir(layout.backups())
            .expect("lists")
            .map(|e| e.expect("entry").path())
            .collect()
    }

    #[test]
    fn failed_migration_rolls_back_and_keeps_a_backup() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (layout, conn) = file(dir.path(), MIGRATIONS.len());
        let newest = number(&conn, "PRAGMA user_version");
        let bad = "CREATE TABLE extra (a); DELETE FROM actor; INSERT INTO nowhere VALUES (1)";
        let all = steps(MIGRATIONS.len(), &[(98, "CREATE TABLE good (a)"), (99, bad)]);

        let refused = upgrade(&conn, &layout, EpochMillis(2), &all).expect_err("refused");

        assert!(matches!(refused, DatabaseOpenError::Migration { version: 99, .. }), "{refused}");
        // The step before stays: each is a transaction of its own.
        assert_eq!(number(&conn, "PRAGMA user_version"), 98);
        assert_eq!(number(&conn, "SELECT count(*) FROM actor"), 1);
        assert_eq!(number(&conn, "SELECT count(*) FROM sqlite_schema WHERE name = 'extra'"), 0);
        let saved = backups(&layout);
        assert_eq!(saved.len(), 1);
        let copy = connection::open_read_only(&saved[0]).expect("opens");
        assert_eq!(number(&copy, "PRAGMA user_version"), newest);
        assert_eq!(number(&copy, "SELECT count(*) FROM actor"), 1);
    }

    #[test]
    fn failed_backup_prevents_migration() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (layout, conn) = file(dir.path(), 1);
        fs_err::remove_dir(layout.backups()).expect("removed");
        fs_err::write(layout.backups(), "in the way").expect("written");

        let refused = upgrade(&conn, &layout, EpochMillis(2), MIGRATIONS).expect_err("refused");

        assert!(matches!(refused, DatabaseOpenError::Backup { .. }), "{refused}");
        assert_eq!(number(&conn, "PRAGMA user_version"), 1);
    }

    #[test]
    fn older_schema_is_backed_up_then_upgraded() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (layout, conn) = file(dir.path(), 1);
        drop(conn);

        let store = Store::open(&Options::new(layout.clone(), EpochMillis(7))).expect("opens");

        assert_eq!(store.read_only_reason(), None);
        let conn = connection::open_read_only(&layout.database()).expect("opens");
        let newest = MIGRATIONS.last().map_or(0, |m| m.version);
        assert_eq!(number(&conn, "PRAGMA user_version"), newest);
        assert_eq!(number(&conn, "SELECT count(*) FROM actor WHERE name = 'ada'"), 1);
        let saved = backups(&layout);
        assert_eq!(saved, [layout.backups().join("before-v1-upgrade-7.db")]);
        let copy = connection::open_read_only(&saved[0]).expect("opens");
        assert_eq!(number(&copy, "PRAGMA user_version"), 1);
        drop(store);
        Store::open(&Options::new(layout.clone(), EpochMillis(8))).expect("opens");
        assert_eq!(backups(&layout).len(), 1, "nothing to upgrade, nothing to save");
    }

    #[test]
    fn migration_versions_are_increasing() {
        assert!(MIGRATIONS.windows(2).all(|pair| pair[0].version < pair[1].version));
    }
}
