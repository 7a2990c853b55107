//! Copies of the database: made with SQLite's own backup, then checked.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use turnstone_core::call_context::Context;

use crate::blob::{BlobDir, BlobHash};
use crate::connection;
use crate::data_layout::{DataLayout, create_private_dir, sync_dir};
use crate::error::{Result, StoreError, classify_sqlite_error};
use crate::store::Store;

/// How often a copy is restarted because values were removed while it was made.
const ATTEMPTS: usize = 3;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// The directory; `--data` opens it.
    pub path: PathBuf,
    /// Bytes of the database.
    pub bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Large values next to it.
    pub values: u64,
    /// Their bytes.
    pub value_bytes: u64,
    /// Large values that are missing or damaged in the store itself, by hash; `doctor` says more.
    pub missing: Vec<String>,
}

/// See [`DatabaseMaintenance::back_up`](crate::DatabaseMaintenance::back_up).
pub(crate) fn back_up(store: &Store, ctx: &Context, target: &Path) -> Result<BackupReport> {
    let taken = target.exists() && (!target.is_dir() || fs_err::read_dir(target)?.next().is_some());
    if taken {
        return Err(StoreError::Invalid(format!("{} already exists", target.display())));
    }
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs_err::create_dir_all(parent)?;
    let temp = tempfile::Builder::new().prefix(".backup-").tempdir_in(parent)?;
    let layout = DataLayout::new(temp.path());
    create_private_dir(temp.path())?;
    create_private_dir(&layout.blobs())?;
    let mut report = copy_store_to(store, ctx, &layout)?;
    for _ in 1..ATTEMPTS {
        if report.missing.is_empty() {
            break;
        }
        fs_err::remove_file(layout.database())?;
        report = copy_store_to(store, ctx, &layout)?;
    }
    sync_dir(&layout.blobs())?;
    sync_dir(temp.path())?;
    fs_err::rename(temp.keep(), target)?;
    sync_dir(parent)?;
    report.path = target.to_path_buf();
    Ok(report)
}

fn copy_store_to(store: &Store, ctx: &Context, layout: &DataLayout) -> Result<BackupReport> {
    let file = layout.database();
    // Reading something pins the moment for all the steps of the copy.
    let events: i64 = store.read(ctx, |r| {
        let events = r.conn.query_row("SELECT count(*) FROM event", [], |row| row.get(0))?;
        write_database_copy(r.conn, &file)?;
        Ok(events)
    })?;
    let copy = connection::open_read_only(&file)?;
    let found: i64 = copy.query_row("SELECT count(*) FROM event", [], |row| row.get(0))?;
    if found != events {
        let reason = format!("it has {found} events instead of {events}");
        return Err(StoreError::Corrupt { file, reason });
    }
    let mut report = BackupReport {
        path: PathBuf::new(),
        bytes: fs_err::metadata(&file)?.len(),
        events: u64::try_from(events).unwrap_or(0),
        values: 0,
        value_bytes: 0,
        missing: Vec::new(),
    };
    let target = BlobDir::new(layout.blobs());
    let mut statement = copy.prepare("SELECT hash, size FROM blob WHERE data IS NULL")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (hash, size): (Vec<u8>, i64) = (row.get(0)?, row.get(1)?);
        let Ok(hash) = <[u8; 32]>::try_from(hash).map(BlobHash) else { continue };
        match store.blobs().read_file(&hash, u64::try_from(size).unwrap_or(0)) {
            Ok(bytes) if BlobHash::of(&bytes) == hash => {
                target.write_file(&hash, &bytes)?;
                report.values += 1;
                report.value_bytes += bytes.len() as u64;
            }
            _ => report.missing.push(hash.hex()),
        }
    }
    Ok(report)
}

/// Copies the whole database to `target`, which must not exist, and proves that the copy is sound.
///
/// A half-made copy is removed.
pub(crate) fn write_database_copy(conn: &Connection, target: &Path) -> Result<()> {
    if target.exists() {
        return Err(StoreError::Invalid(format!("{} already exists", target.display())));
    }
    let made = copy_database(conn, target)
        .and_then(|()| check_integrity(target))
        .and_then(|()| sync_copy(target));
    if made.is_err() {
        drop(fs_err::remove_file(target));
    }
    made
}

fn copy_database(conn: &Connection, target: &Path) -> Result<()> {
    crate::data_layout::open_private_file(target)?;
    #[expect(clippy::disallowed_methods, reason = "the copy is a database of the store")]
    let mut copy = Connection::open_with_flags(
        target,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )
    .map_err(|e| classify_sqlite_error(&e, target))?;
    {
        let steps = rusqlite::backup::Backup::new(conn, &mut copy)
            .map_err(|e| classify_sqlite_error(&e, target))?;
        steps
            .run_to_completion(512, std::time::Duration::ZERO, None)
            .map_err(|e| classify_sqlite_error(&e, target))?;
    }
    // One file without companions is easier to keep.
    copy.execute_batch("PRAGMA journal_mode = DELETE")
        .map_err(|e| classify_sqlite_error(&e, target))?;
    copy.close().map_err(|(_, e)| classify_sqlite_error(&e, target))
}

fn check_integrity(target: &Path) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the copy is a database of the store")]
    let copy = Connection::open_with_flags(target, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|e| classify_sqlite_error(&e, target))?;
    let verdict: String = copy
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|e| classify_sqlite_error(&e, target))?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(StoreError::Corrupt { file: target.to_path_buf(), reason: verdict })
}

fn sync_copy(target: &Path) -> Result<()> {
    fs_err::File::open(target)?.sync_all()?;
    Ok(sync_dir(target.parent().unwrap_or(Path::new(".")))?)
}
