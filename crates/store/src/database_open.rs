//! Opening the database file: one process at a time looks at it, creates or upgrades it, and checks
//! it after a failed write.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use turnstone_core::time::EpochMillis;

use crate::blob::BlobDir;
use crate::connection::{self, ConnectionPurpose};
use crate::data_layout::{DataLayout, open_private_file, sync_dir};
use crate::database_creation::{self, InterruptedCreation};
use crate::error::{DatabaseOpenError, Result, StoreError};
use crate::lease_owner::{self, OwnerRegistration};
use crate::migration::{self, SchemaCompatibility};
use crate::rebuild;
use crate::schema::MIGRATIONS;

/// The smallest page, and so the smallest file, SQLite knows.
const SMALLEST_PAGE: u64 = 512;

/// What came of opening the file.
pub(crate) enum OpenedDatabase {
    /// It can be written; this process is registered as an owner of leases.
    Writable { conn: Connection, owner: OwnerRegistration },
    /// A newer program wrote it, at this version.
    Newer(i64),
}

/// Opens the database for writing: creates or upgrades it, finishes what was cut off. The caller
/// passes the open lock, which is released when this returns.
pub(crate) fn open_for_writing(
    layout: &DataLayout,
    blobs: &BlobDir,
    now: EpochMillis,
    _lock: File,
) -> Result<OpenedDatabase, DatabaseOpenError> {
    let path = layout.database();
    match inspect_file(&path)? {
        SchemaCompatibility::Newer(version) => return Ok(OpenedDatabase::Newer(version)),
        SchemaCompatibility::Empty => {
            database_creation::create_database(layout, now)?;
            // A hint: without it the first maintenance comes early.
            fs_err::write(layout.last_maintenance(), now.0.to_string()).ok();
        }
        SchemaCompatibility::Supported(_) => {}
    }
    open_private_file(&path).map_err(|e| DatabaseOpenError::from_io(&e, &path))?;
    let conn = connection::open(&path, ConnectionPurpose::Write)?;
    migration::upgrade(&conn, layout, now, MIGRATIONS)?;
    if poison_marker(layout).exists() {
        check_pages(&conn, &path)?;
        remove_poison_marker(layout)?;
    }
    rebuild::finish_pending(&conn, &mut |_| {}).map_err(DatabaseOpenError::Rebuild)?;
    let owner = match register_owner(layout, blobs, now) {
        Ok(owner) => owner,
        Err(StoreError::Full { .. }) => return Err(DatabaseOpenError::Full { path }),
        Err(error) => {
            let (path, reason) = (layout.root().to_path_buf(), error.to_string());
            return Err(DatabaseOpenError::Directory { path, reason });
        }
    };
    Ok(OpenedDatabase::Writable { conn, owner })
}

/// Removes what dead processes left, and makes this one an owner.
fn register_owner(
    layout: &DataLayout,
    blobs: &BlobDir,
    now: EpochMillis,
) -> Result<OwnerRegistration> {
    database_creation::remove_unfinished(layout)?;
    sync_dir(layout.root())?;
    lease_owner::remove_dead_owner_files(layout, now)?;
    blobs.remove_stale_temp_files()?;
    OwnerRegistration::register(layout)
}

/// Looks at a file before anything is set on it: a foreign or newer one must stay as it is.
fn inspect_file(path: &Path) -> Result<SchemaCompatibility, DatabaseOpenError> {
    let fail = |e: &io::Error| DatabaseOpenError::from_io(e, path);
    let found = match fs_err::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(SchemaCompatibility::Empty),
        Err(e) => return Err(fail(&e)),
    };
    if !found.is_file() {
        return Err(DatabaseOpenError::Foreign { path: path.to_path_buf() });
    }
    match database_creation::find_interrupted_creation(path).map_err(|e| fail(&e))? {
        Some(InterruptedCreation::Nothing) => return Ok(SchemaCompatibility::Empty),
        // Only a connection that may write applies the journal; what it then holds decides.
        Some(InterruptedCreation::Journal) => {
            let conn = connection::open_unconfigured(path)?;
            return migration::check_schema_compatibility(&conn, path);
        }
        None => {}
    }
    // SQLite would take so short a file for an empty one and write over it.
    if found.len() < SMALLEST_PAGE {
        let reason = "it is too short to be a database".to_owned();
        return Err(DatabaseOpenError::Corrupt { path: path.to_path_buf(), reason });
    }
    let conn = connection::open_read_only(path)?;
    migration::check_schema_compatibility(&conn, path)
}

/// One process at a time opens, upgrades and sweeps; waits for the others.
pub(crate) fn acquire_open_lock(layout: &DataLayout) -> Result<File, DatabaseOpenError> {
    let file = open_lock_file(layout)?;
    file.lock().map_err(|e| DatabaseOpenError::from_io(&e, &lock_path(layout)))?;
    Ok(file)
}

/// The same without waiting; `None` if another process has the lock.
pub(crate) fn try_acquire_open_lock(
    layout: &DataLayout,
) -> Result<Option<File>, DatabaseOpenError> {
    let file = open_lock_file(layout)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(e)) => {
            Err(DatabaseOpenError::from_io(&e, &lock_path(layout)))
        }
    }
}

/// Keeps every process from opening the database until the lock is dropped; others may keep it, too.
pub(crate) fn share_open_lock(layout: &DataLayout) -> Result<File, DatabaseOpenError> {
    let file = open_lock_file(layout)?;
    file.lock_shared().map_err(|e| DatabaseOpenError::from_io(&e, &lock_path(layout)))?;
    Ok(file)
}

fn open_lock_file(layout: &DataLayout) -> Result<File, DatabaseOpenError> {
    let path = lock_path(layout);
    open_private_file(&path).map_err(|e| DatabaseOpenError::from_io(&e, &path))
}

fn lock_path(layout: &DataLayout) -> PathBuf {
    layout.locks().join("open")
}

/// The file that says that a write failed and the database was not checked since.
pub(crate) fn poison_marker(layout: &DataLayout) -> PathBuf {
    layout.locks().join("poisoned")
}

fn remove_poison_marker(layout: &DataLayout) -> Result<(), DatabaseOpenError> {
    let marker = poison_marker(layout);
    match fs_err::remove_file(&marker) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DatabaseOpenError::from_io(&error, &marker))
        }
        _ => Ok(()),
    }
}

/// After a failed write it is unknown what is on disk until it was checked (R22).
fn check_pages(conn: &Connection, path: &Path) -> Result<(), DatabaseOpenError> {
    let verdict: String = conn
        .query_row("PRAGMA quick_check", [], |row| row.get(0))
        .map_err(|e| DatabaseOpenError::from_sqlite(&e, path))?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(DatabaseOpenError::Corrupt { path: path.to_path_buf(), reason: verdict })
}

/// Opens the database again after a failed write: the disk must take writes and syncs, and the pages
/// must be sound.
///
/// The write-ahead log is moved into the database first. What the failed write left at its end would
/// otherwise count as committed after a crash.
pub(crate) fn reopen_after_failed_write(
    layout: &DataLayout,
) -> Result<Connection, DatabaseOpenError> {
    let path = layout.database();
    let mut conn = connection::open(&path, ConnectionPurpose::Write)?;
    for file in [&path, &layout.wal()] {
        let synced = fs_err::OpenOptions::new().write(true).open(file).and_then(|f| f.sync_all());
        synced.map_err(|e| DatabaseOpenError::from_io(&e, file))?;
    }
    sync_dir(layout.root()).map_err(|e| DatabaseOpenError::from_io(&e, layout.root()))?;
    // A reader may be in the way; then the next commit overwrites what is left.
    connection::truncate_wal(&mut conn).map_err(|e| DatabaseOpenError::from_sqlite(&e, &path))?;
    check_pages(&conn, &path)?;
    remove_poison_marker(layout)?;
    Ok(conn)
}
