//! The database file from outside: its header and its companions.

use std::io::Read;

use super::{Report, remedy, show};
use crate::error::Result;
use crate::layout::Layout;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Reads the header; a file that is no database at all is said to be one thing, not twenty.
pub(super) fn check(layout: &Layout, report: &mut Report) -> Result<()> {
    let path = layout.database();
    let found = fs_err::metadata(&path)?;
    if !found.is_file() {
        report.error("is not a file".to_owned(), show(&path), remedy::NONE);
        return Ok(());
    }
    let mut header = [0; 100];
    let mut file = fs_err::File::open(&path)?;
    if found.len() == 0 {
        report.note("file", "the database is empty".to_owned(), show(&path), remedy::OPEN);
        return Ok(());
    }
    if file.read_exact(&mut header).is_err() || header[..16] != MAGIC[..] {
        report.error("does not begin like a database".to_owned(), show(&path), remedy::SALVAGE);
        return Ok(());
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    // The write-ahead log may hold what the file does not have yet.
    let wal = fs_err::metadata(layout.wal()).map_or(0, |m| m.len());
    if page < 512 || (found.len() % page != 0 && wal == 0) {
        report.error(
            "its length does not fit its page size".to_owned(),
            show(&path),
            remedy::SALVAGE,
        );
    }
    if layout.locks().join("poisoned").exists() {
        let what = "a write to disk failed; the next open checks the file".to_owned();
        report.warning(what, show(&path), remedy::OPEN);
    }
    Ok(())
}
