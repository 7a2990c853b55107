//! The database file from outside: its header and its companions.

use std::io::Read;
use std::path::Path;

use super::{DiagnosisBuilder, display_path, remedy};
use crate::data_layout::DataLayout;
use crate::database_creation::{self, MAGIC};
use crate::error::Result;

/// True if the file is what an interrupted creation left: nothing was stored in it yet.
pub(super) fn is_interrupted_creation(path: &Path) -> bool {
    matches!(database_creation::find_interrupted_creation(path), Ok(Some(_)))
}

/// Reads the header; a file that is no database at all is said to be one thing, not twenty.
pub(super) fn check_database_file(
    layout: &DataLayout,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    let path = layout.database();
    let found = fs_err::metadata(&path)?;
    if !found.is_file() {
        report.error("is not a file".to_owned(), display_path(&path), remedy::NONE);
        return Ok(());
    }
    let mut header = [0; 100];
    let mut file = fs_err::File::open(&path)?;
    if file.read_exact(&mut header).is_err() || header[..16] != MAGIC[..] {
        report.error(
            "does not begin like a database".to_owned(),
            display_path(&path),
            remedy::SALVAGE,
        );
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
            display_path(&path),
            remedy::SALVAGE,
        );
    }
    if layout.locks().join("poisoned").exists() {
        let what = "a write to disk failed; the next open checks the file".to_owned();
        report.warning(what, display_path(&path), remedy::OPEN);
    }
    Ok(())
}
