//! The entries of a folder of the data directory.

use std::fs::FileType;
use std::path::{Path, PathBuf};

use crate::error::Result;

/// Lists the entries of a folder, sorted by path; none if it is not there.
pub(super) fn list_entries(folder: &Path) -> Result<Vec<(PathBuf, FileType)>> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        found.push((entry.path(), entry.file_type()?));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
