//! Creation: a new database is complete and durable before it gets its name.
//!
//! Whatever interrupts it leaves no database, or a whole one. Earlier versions wrote the database in
//! its place; what an interruption left of that is recognised and replaced.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use turnstone_core::time::EpochMillis;

use crate::connection::{self, ConnectionPurpose};
use crate::data_layout::{DataLayout, open_private_file, sync_dir};
use crate::error::DatabaseOpenError;
use crate::migration;
use crate::schema::MIGRATIONS;

/// How every database begins.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The most that an interrupted creation of an earlier version left in the file: two pages.
const MAX_INTERRUPTED_BYTES: u64 = 8192;

/// Creates the database; the caller holds the open lock and knows that there is none.
pub(crate) fn create_database(
    layout: &DataLayout,
    now: EpochMillis,
) -> Result<(), DatabaseOpenError> {
    let unfinished = layout.unfinished_database();
    let fail = |error: &io::Error| DatabaseOpenError::from_io(error, &layout.database());
    remove_with_companions(&unfinished).map_err(|e| fail(&e))?;
    let written = write_database(layout, &unfinished, now);
    if written.is_err() {
        // On a full disk its bytes are needed.
        remove_with_companions(&unfinished).ok();
    }
    written?;
    fail::fail_point!("store::database_complete");
    name_database(layout, &unfinished, now).map_err(|e| fail(&e))?;
    fail::fail_point!("store::database_named");
    Ok(())
}

/// Writes an empty database of the newest version, durably, in one file.
fn write_database(
    layout: &DataLayout,
    unfinished: &Path,
    now: EpochMillis,
) -> Result<(), DatabaseOpenError> {
    let path = layout.database();
    let sqlite = |error: &rusqlite::Error| DatabaseOpenError::from_sqlite(error, &path);
    open_private_file(unfinished).map_err(|e| DatabaseOpenError::from_io(&e, &path))?;
    let mut conn = connection::open(unfinished, ConnectionPurpose::Create)?;
    migration::upgrade(&conn, layout, now, MIGRATIONS)?;
    connection::truncate_wal(&mut conn).map_err(|e| sqlite(&e))?;
    conn.close().map_err(|(_, error)| sqlite(&error))?;
    let synced = fs_err::File::open(unfinished).and_then(|file| file.sync_all());
    synced.map_err(|e| DatabaseOpenError::from_io(&e, &path))
}

/// Gives the finished database its name. A journal of another file under that name would be applied
/// to it, so none may be left.
fn name_database(layout: &DataLayout, unfinished: &Path, now: EpochMillis) -> io::Result<()> {
    let path = layout.database();
    if fs_err::metadata(layout.wal()).is_ok_and(|found| found.len() > 0) {
        // Not from a creation: somebody removed the database next to it.
        fs_err::rename(layout.wal(), layout.backups().join(format!("lost-wal-{now}")))?;
        sync_dir(&layout.backups())?;
    }
    remove_companions(&path)?;
    sync_dir(layout.root())?;
    fs_err::rename(unfinished, &path)?;
    sync_dir(layout.root())
}

/// Removes what an interrupted creation left, if anything.
pub(crate) fn remove_unfinished(layout: &DataLayout) -> io::Result<()> {
    let unfinished = layout.unfinished_database();
    if unfinished.exists() { remove_with_companions(&unfinished) } else { Ok(()) }
}

fn remove_with_companions(path: &Path) -> io::Result<()> {
    remove_if_present(path)?;
    remove_companions(path)
}

fn remove_companions(path: &Path) -> io::Result<()> {
    ["-journal", "-wal", "-shm"]
        .iter()
        .try_for_each(|end| remove_if_present(&companion_path(path, end)))
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn companion_path(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// What an earlier version left at the database's name when its creation was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterruptedCreation {
    /// Bytes that hold nothing: a beginning of the header, zeros.
    Nothing,
    /// A page or two with a rollback journal, which SQLite has to apply first.
    Journal,
}

/// Finds out whether the file is what is left of an interrupted creation.
pub(crate) fn find_interrupted_creation(path: &Path) -> io::Result<Option<InterruptedCreation>> {
    let len = fs_err::metadata(path)?.len();
    if len > MAX_INTERRUPTED_BYTES {
        return Ok(None);
    }
    if is_blank(&fs_err::read(path)?) {
        return Ok(Some(InterruptedCreation::Nothing));
    }
    let has_journal = companion_path(path, "-journal").exists() && len >= 512;
    Ok(has_journal.then_some(InterruptedCreation::Journal))
}

/// True for a beginning of the header followed by nothing but zeros.
fn is_blank(content: &[u8]) -> bool {
    let begun = content.iter().zip(MAGIC).take_while(|(byte, wanted)| byte == wanted).count();
    content[begun..].iter().all(|byte| *byte == 0)
}
