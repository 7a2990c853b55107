//! JSON files in directories, as OpenCode's file storage keeps them.
//!
//! The directory may come from anybody: links inside it are not followed, only regular files are opened,
//! and none is waited for.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fs_err as fs;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;

use super::{SourceError, source_limits};

/// Whether a link is followed to what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    /// It is: a person named this path.
    Follow,
    /// It is not: the path is part of a source.
    Refuse,
}

/// Opens a regular file without waiting for anything; `None` if there is none.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub(super) fn open_regular(path: &Path, links: LinkPolicy) -> io::Result<Option<File>> {
    let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    if links == LinkPolicy::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP) => return Err(odd("it is a symbolic link")),
        // A socket, and a device without a driver, cannot even be opened.
        Err(Errno::NXIO | Errno::NODEV) => return Err(odd("it is not a regular file")),
        Err(errno) => return Err(errno.into()),
    };
    if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(odd("it is not a regular file")) }
}

/// One entry of a directory that should hold `<name>.json` files only.
pub(super) enum JsonDirEntry {
    /// A JSON file, by its name without the ending.
    Json { name: String, path: PathBuf },
    /// Anything else.
    Other { name: String },
}

/// Lists the files of a directory by name; a missing directory is an empty one.
pub(super) fn list_files(dir: &Path) -> Result<Vec<JsonDirEntry>, SourceError> {
    let mut entries = Vec::new();
    for path in children(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = name.strip_suffix(".json").map(str::to_owned);
        match stem {
            // Anything but a file is found out, and reported, when it is read.
            Some(name) if !path.is_dir() => entries.push(JsonDirEntry::Json { name, path }),
            _ => entries.push(JsonDirEntry::Other { name }),
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
    let is_dir = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    Ok(children(dir)?.into_iter().filter(is_dir).map(named).collect())
}

/// True if there is anything at a path, be it a link that leads nowhere.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
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
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let file = open_regular(path, LinkPolicy::Refuse).map_err(unreadable)?;
    let file = file.ok_or_else(|| "cannot be read: it is gone".to_owned())?;
    let mut bytes = Vec::new();
    file.take(source_limits::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|_| "not JSON: it is not UTF-8".to_owned())?;
    source_limits::parse_json(&text)
}
