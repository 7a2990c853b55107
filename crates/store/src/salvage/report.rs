//! What came out of it: counts by table, and how each session came through.

use std::path::PathBuf;

use crate::doctor::Finding;

/// What came out of a damaged store.
#[derive(Clone, Debug, Default)]
pub struct SalvageReport {
    /// The new data directory; `--data` opens it.
    pub data: PathBuf,
    /// The copy of the damaged files.
    pub kept: PathBuf,
    /// Bytes of the damaged files that the disk did not give.
    pub unreadable_bytes: u64,
    /// What was read and lost, by table.
    pub tables: Vec<TableSalvageCounts>,
    /// Sessions of which nothing is missing.
    pub complete: Vec<String>,
    /// Sessions of which something is missing.
    pub damaged: Vec<DamagedSession>,
    /// Sessions of which too little is left to show them.
    pub lost: Vec<String>,
    /// Errors the doctor still finds in the new store; there should be none.
    pub remaining: Vec<Finding>,
}

/// What was read of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSalvageCounts {
    /// The table.
    pub table: &'static str,
    /// Rows read and proved.
    pub read: u64,
    /// Rows that were read but are not what was stored.
    pub damaged: u64,
    /// Row numbers at which nothing could be read; there may or may not have been a row.
    pub unreadable: u64,
}

/// A session of which something is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSession {
    /// The session.
    pub id: String,
    /// Events that are missing or had to be given up.
    pub events: u64,
    /// True if it is not certain where the stream ended.
    pub open_end: bool,
}
