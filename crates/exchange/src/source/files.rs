//! JSON files in directories, as OpenCode's file storage keeps them.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::Value;

use super::SourceError;

/// One entry of a directory that should hold `<name>.json` files only.
pub(super) enum Entry {
    /// A JSON file, by its name without the ending.
    Json { name: String, path: PathBuf },
    /// Anything else.
    Other { name: String },
}

/// Lists the files of a directory by name; a missing directory is an empty one.
pub(super) fn list_files(dir: &Path) -> Result<Vec<Entry>, SourceError> {
    let mut entries = Vec::new();
    for path in children(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = name.strip_suffix(".json").map(str::to_owned);
        match stem {
            Some(name) if path.is_file() => entries.push(Entry::Json { name, path }),
            _ => entries.push(Entry::Other { name }),
        }
    }
    Ok(entries)
}

/// Lists the directories inside a directory by name; a missing directory is an empty one.
pub(super) fn list_dirs(dir: &Path) -> Result<Vec<(String, PathBuf)>, SourceError> {
    let named = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, path)
    };
    Ok(children(dir)?.into_iter().filter(|path| path.is_dir()).map(named).collect())
}

fn children(dir: &Path) -> Result<Vec<PathBuf>, SourceError> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let unreadable = |source| SourceError::Unreadable { path: dir.to_path_buf(), source };
    let mut paths = fs::read_dir(dir)
        .map_err(unreadable)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}

/// Reads one JSON file.
///
/// # Errors
///
/// Why it cannot be read, in words.
pub(super) fn read_json(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("not JSON: {error}"))
}
