//! The damaged files: copied byte for byte, then opened for reading, with a new first page if the
//! old one is beyond reading.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::SalvageReport;
use crate::connection;
use crate::data_layout::{DataLayout, create_private_dir, open_private_file};
use crate::error::{Result, StoreError};

/// The unit in which an unreadable file is read.
const SECTOR: usize = 4096;
const READ_BYTES: usize = 64 * 1024;

/// The kept copy of the damaged files.
pub(super) struct DamagedCopy {
    folder: PathBuf,
}

/// The kept copy, open for reading.
pub(super) struct DamagedDatabase {
    pub(super) conn: Connection,
    /// A second copy with another first page, if that was needed.
    repaired: Option<PathBuf>,
    folder: PathBuf,
}

/// Copies the database and its write-ahead log into `damaged/` of the new directory.
pub(super) fn copy_damaged_files(
    layout: &DataLayout,
    new: &DataLayout,
    done: &mut SalvageReport,
) -> Result<DamagedCopy> {
    let folder = new.root().join("damaged");
    create_private_dir(&folder)?;
    for from in [layout.database(), layout.wal()] {
        let Some(name) = from.file_name() else {
            continue;
        };
        if from.exists() {
            done.unreadable_bytes += copy_readable(&from, &folder.join(name))?;
        }
    }
    done.kept.clone_from(&folder);
    if folder.join("turnstone.db").exists() {
        return Ok(DamagedCopy { folder });
    }
    Err(StoreError::NotFound { kind: "database", id: layout.database().display().to_string() })
}

/// Copies a file; what the disk does not give becomes zeros. Returns how much that was.
fn copy_readable(from: &Path, to: &Path) -> Result<u64> {
    let source = fs_err::File::open(from)?;
    let len = source.metadata()?.len();
    let mut target = open_private_file(to)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut at, mut unreadable) = (0, 0);
    while at < len {
        let want = usize::try_from(len - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        if source.file().read_exact_at(&mut buffer[..want], at).is_err() {
            unreadable += read_sectors(source.file(), &mut buffer[..want], at);
        }
        target.write_all(&buffer[..want])?;
        at += want as u64;
    }
    target.sync_all()?;
    Ok(unreadable)
}

/// Reads sector by sector what could not be read at once; returns how many bytes stay unread.
fn read_sectors(source: &std::fs::File, buffer: &mut [u8], at: u64) -> u64 {
    let mut unread = 0;
    for (index, sector) in buffer.chunks_mut(SECTOR).enumerate() {
        if source.read_exact_at(sector, at + (index * SECTOR) as u64).is_err() {
            sector.fill(0);
            unread += sector.len() as u64;
        }
    }
    unread
}

impl DamagedCopy {
    /// Opens the copy. If its tables cannot be found, the first page is taken from the new and
    /// still empty database at `fresh`: tables are made in the same order and at the same pages in
    /// every store of one version.
    pub(super) fn open(self, out: &Connection, fresh: &Path) -> Result<DamagedDatabase> {
        let file = self.folder.join("turnstone.db");
        if let Some(conn) = open_if_readable(&file) {
            return Ok(DamagedDatabase { conn, repaired: None, folder: self.folder });
        }
        out.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        let repaired = self.folder.join("repaired.db");
        replace_first_page(&file, fresh, &repaired)?;
        let wal = self.folder.join("turnstone.db-wal");
        if wal.exists() {
            fs_err::copy(&wal, self.folder.join("repaired.db-wal"))?;
        }
        let conn = open_if_readable(&repaired);
        match conn {
            Some(conn) => {
                Ok(DamagedDatabase { conn, repaired: Some(repaired), folder: self.folder })
            }
            None => {
                Err(StoreError::Corrupt { file, reason: "its tables cannot be found".to_owned() })
            }
        }
    }
}

impl DamagedDatabase {
    /// Closes the copy and removes everything next to it that was not there before.
    pub(super) fn close(self) -> Result<()> {
        drop(self.conn);
        let mut extra = vec![self.folder.join("turnstone.db-shm")];
        if self.repaired.is_some() {
            extra.extend(
                ["repaired.db", "repaired.db-wal", "repaired.db-shm"]
                    .map(|name| self.folder.join(name)),
            );
        }
        for path in extra {
            match fs_err::remove_file(path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Opens a file whose tables can be found.
fn open_if_readable(file: &Path) -> Option<Connection> {
    let conn = connection::open_read_only(file).ok()?;
    // Damage in a page is an error rather than a guess; damage in one table hides no other.
    conn.execute_batch("PRAGMA cell_size_check = ON").ok()?;
    let tables: i64 = conn
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table'
             AND name IN ('event', 'actor', 'stream', 'chunk', 'blob')",
            [],
            |row| row.get(0),
        )
        .ok()?;
    (tables == 5 && conn.prepare("SELECT sum FROM event").is_ok()).then_some(conn)
}

/// Writes `damaged` to `repaired` with the first page of `fresh`.
fn replace_first_page(damaged: &Path, fresh: &Path, repaired: &Path) -> Result<()> {
    let mut page = vec![0; SECTOR];
    fs_err::File::open(fresh)?.file().read_exact_at(&mut page, 0)?;
    let pages = fs_err::metadata(damaged)?.len().div_ceil(SECTOR as u64);
    let pages = u32::try_from(pages).unwrap_or(u32::MAX).to_be_bytes();
    // The size in pages, valid only if both counters agree; and no free pages, which nobody needs.
    page[28..32].copy_from_slice(&pages);
    page[32..40].fill(0);
    let counter: [u8; 4] = [page[24], page[25], page[26], page[27]];
    page[92..96].copy_from_slice(&counter);
    copy_readable(damaged, repaired)?;
    let file = open_private_file(repaired)?;
    file.write_all_at(&page, 0)?;
    Ok(file.sync_all()?)
}
