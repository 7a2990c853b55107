//! Copies of the database: made with SQLite's own backup, then checked.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Result, StoreError, classify};
use crate::layout::sync_dir;

/// Copies the whole database to `target`, which must not exist, and proves that the copy is sound.
///
/// A half-made copy is removed.
pub(crate) fn write(conn: &Connection, target: &Path) -> Result<()> {
    if target.exists() {
        return Err(StoreError::Invalid(format!("{} exists already", target.display())));
    }
    let made = copy(conn, target).and_then(|()| check(target)).and_then(|()| settle(target));
    if made.is_err() {
        drop(fs_err::remove_file(target));
    }
    made
}

fn copy(conn: &Connection, target: &Path) -> Result<()> {
    crate::layout::private_file(target)?;
    #[expect(clippy::disallowed_methods, reason = "the copy is a database of the store")]
    let mut copy = Connection::open_with_flags(
        target,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    )
    .map_err(|e| classify(&e, target))?;
    {
        let steps = rusqlite::backup::Backup::new(conn, &mut copy)
            .map_err(|e| classify(&e, target))?;
        steps
            .run_to_completion(512, std::time::Duration::ZERO, None)
            .map_err(|e| classify(&e, target))?;
    }
    // One file without companions is easier to keep.
    copy.execute_batch("PRAGMA journal_mode = DELETE").map_err(|e| classify(&e, target))?;
    copy.close().map_err(|(_, e)| classify(&e, target))
}

fn check(target: &Path) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the copy is a database of the store")]
    let copy = Connection::open_with_flags(target, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|e| classify(&e, target))?;
    let verdict: String = copy
        .query_row("PRAGMA quick_check", [], |row| row.get(0))
        .map_err(|e| classify(&e, target))?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(StoreError::Corrupt { file: target.to_path_buf(), reason: verdict })
}

fn settle(target: &Path) -> Result<()> {
    fs_err::File::open(target)?.sync_all()?;
    Ok(sync_dir(target.parent().unwrap_or(Path::new(".")))?)
}
