//! Reading files of the user's repository: regular ones only, and never more than a limit.

use std::io;
use std::path::Path;

use crate::bounded_file::{open_regular_file, read_open_file};
use crate::worktree::FileStat;

/// No index is larger: one of two million entries fits.
pub(super) const INDEX_BYTES: u64 = 512 << 20;
/// No configuration, excludes or attributes file is larger.
const TEXT_BYTES: u64 = 16 << 20;

/// Reads a file of at most `limit` bytes; `None` if it is not there. A pipe or a device is an error.
pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Option<(Vec<u8>, FileStat)>> {
    let Some(file) = open_regular_file(path)? else { return Ok(None) };
    let stat = FileStat::of(&file)?;
    Ok(Some((read_open_file(path, &file, limit)?, stat)))
}

/// Reads a text file; `None` if it is not there.
pub(super) fn read_text(path: &Path) -> io::Result<Option<Vec<u8>>> {
    Ok(read_bounded(path, TEXT_BYTES)?.map(|(bytes, _)| bytes))
}

/// Reads a text file that may be missing; then it is empty.
pub(super) fn read_or_empty(path: &Path) -> io::Result<Vec<u8>> {
    Ok(read_text(path)?.unwrap_or_default())
}
