//! A private copy of a database that somebody else may be writing (R30).
//!
//! Opening a database, even for reading, may create files next to it and may write to it. So the file
//! and its `-wal` are copied into a directory of our own, and only the copy is opened.
//!
//! A copy is taken as good if the main file held the same bytes before and after, and the copied
//! beginning of the `-wal` is still its beginning. A live writer only appends to the `-wal`, and SQLite
//! ignores an unfinished end; what moves pages into the main file changes it and means another attempt.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fs_err as fs;
use tempfile::TempDir;

use super::json_files::{LinkPolicy, open_regular};
use super::source_limits::{MAX_SOURCE, source_too_large};
use super::{Options, SourceError};

const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// A private copy; it is gone when this is dropped.
#[derive(Debug)]
pub(super) struct PrivateCopy {
    dir: TempDir,
}

impl PrivateCopy {
    /// Copies `source` once it holds still.
    pub(super) fn create(source: &Path, options: &Options) -> Result<Self, SourceError> {
        let dir = create_scratch_dir(options)?;
        let copy = Self { dir };
        for _ in 0..ATTEMPTS {
            if copy.try_copy(source)? {
                return Ok(copy);
            }
            std::thread::sleep(PAUSE);
        }
        Err(SourceError::Unstable { path: source.to_path_buf() })
    }

    /// The copied database.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("copy.db")
    }

    fn try_copy(&self, source: &Path) -> Result<bool, SourceError> {
        let (wal, journal) = (with_suffix(source, "-wal"), with_suffix(source, "-journal"));
        let before = (size_and_mtime(source)?, size_and_mtime(&journal)?);
        let main = self.copy(source, &self.path())?;
        let log = self.copy(&wal, &with_suffix(&self.path(), "-wal"))?;
        let roll = self.copy(&journal, &with_suffix(&self.path(), "-journal"))?;
        let after = (size_and_mtime(source)?, size_and_mtime(&journal)?);
        Ok(before == after
            && main == hash_prefix(source, main.len)?
            && log == hash_prefix(&wal, log.len)?
            && roll == hash_prefix(&journal, roll.len)?)
    }

    /// Copies one file; a missing one leaves no copy.
    fn copy(&self, from: &Path, to: &Path) -> Result<ContentHash, SourceError> {
        let scratch = |source| SourceError::Scratch { path: self.dir.path().to_path_buf(), source };
        let Some(mut input) = open(from)? else {
            if to.exists() {
                fs::remove_file(to).map_err(scratch)?;
            }
            return Ok(ContentHash::default());
        };
        let mut output = fs::File::create(to).map_err(scratch)?;
        copy_and_hash(&mut input, MAX_SOURCE, |bytes| output.write_all(bytes)).map_err(|error| {
            match error {
                CopyError::Read(source) => {
                    SourceError::Unreadable { path: from.to_path_buf(), source }
                }
                CopyError::Write(source) => scratch(source),
            }
        })
    }
}

/// Makes a directory only this user can enter.
pub(super) fn create_scratch_dir(options: &Options) -> Result<TempDir, SourceError> {
    let place = options.scratch.clone().unwrap_or_else(tempfile::env::temp_dir);
    tempfile::Builder::new()
        .prefix("turnstone-import-")
        .tempdir_in(&place)
        .map_err(|source| SourceError::Scratch { path: place, source })
}

/// `path` with `suffix` after its file name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// How long a stretch of bytes is, and what it hashes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ContentHash {
    len: u64,
    hash: Option<blake3::Hash>,
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Reads up to `limit` bytes and passes them on.
fn copy_and_hash(
    input: &mut fs::File,
    limit: u64,
    mut pass: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<ContentHash, CopyError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    let mut len = 0;
    while len < limit {
        let want = usize::try_from(limit - len).unwrap_or(usize::MAX).min(buffer.len());
        let got = input.read(&mut buffer[..want]).map_err(CopyError::Read)?;
        if got == 0 {
            break;
        }
        hasher.update(&buffer[..got]);
        pass(&buffer[..got]).map_err(CopyError::Write)?;
        len += got as u64;
    }
    Ok(ContentHash { len, hash: Some(hasher.finalize()) })
}

/// What the first `len` bytes of a file are now.
fn hash_prefix(path: &Path, len: u64) -> Result<ContentHash, SourceError> {
    let Some(mut input) = open(path)? else {
        return Ok(ContentHash::default());
    };
    copy_and_hash(&mut input, len, |_| Ok(())).map_err(
        |(CopyError::Read(source) | CopyError::Write(source))| SourceError::Unreadable {
            path: path.to_path_buf(),
            source,
        },
    )
}

fn open(path: &Path) -> Result<Option<fs::File>, SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_path_buf(), source };
    let Some(file) = open_regular(path, LinkPolicy::Follow).map_err(unreadable)? else {
        return Ok(None);
    };
    if file.metadata().map_err(unreadable)?.len() > MAX_SOURCE {
        return Err(unreadable(source_too_large()));
    }
    Ok(Some(fs::File::from_parts(file, path)))
}

fn size_and_mtime(path: &Path) -> Result<Option<(u64, SystemTime)>, SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_path_buf(), source };
    match fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.len(), meta.modified().map_err(unreadable)?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unreadable(source)),
    }
}
