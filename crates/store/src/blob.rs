//! Large values, stored once by content: small ones in the database, big ones as files.

use std::io::Write;
use std::path::{Path, PathBuf};

use fs_err as fs;
use rusqlite::{Connection, OptionalExtension};
use turnstone_core::time::{EpochMillis, LogCursor};

use crate::data_layout::{create_private_dir, sync_dir};
use crate::error::{Result, StoreError};

/// A string of at least this many bytes is taken out of its payload.
pub(crate) const INLINE_LIMIT: usize = 2048;
/// A value of more bytes than this becomes a file.
pub(crate) const FILE_LIMIT: usize = 256 * 1024;

/// The name of a value: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobHash(pub(crate) [u8; 32]);

impl BlobHash {
    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash as 64 hex digits.
    #[must_use]
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

/// The folder of big values.
#[derive(Clone, Debug)]
pub(crate) struct BlobDir {
    root: PathBuf,
}

impl BlobDir {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn path(&self, hash: &BlobHash) -> PathBuf {
        let hex = hash.hex();
        self.root.join(&hex[..2]).join(&hex[2..])
    }

    /// Puts a big value on disk, durably; does nothing if it is there.
    pub(crate) fn write_file(&self, hash: &BlobHash, bytes: &[u8]) -> Result<()> {
        let path = self.path(hash);
        if fs::metadata(&path).is_ok_and(|m| m.len() == bytes.len() as u64) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.root);
        if !folder.exists() {
            create_private_dir(folder)?;
            sync_dir(&self.root)?;
        }
        let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
        temp.write_all(bytes)?;
        temp.as_file().sync_data()?;
        temp.persist(&path).map_err(|e| StoreError::from(e.error))?;
        sync_dir(folder)?;
        Ok(())
    }

    pub(crate) fn read_file(&self, hash: &BlobHash, size: u64) -> Result<Vec<u8>> {
        let path = self.path(hash);
        let bytes = fs::read(&path).map_err(|e| corrupt_error(&path, &e.to_string()))?;
        if bytes.len() as u64 != size {
            return Err(corrupt_error(&path, "it has the wrong length"));
        }
        Ok(bytes)
    }

    pub(crate) fn remove_file(&self, hash: &BlobHash) -> Result<()> {
        match fs::remove_file(self.path(hash)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// The values in the folder with their sizes; what is not named like a value is left out.
    pub(crate) fn list_files(&self) -> Result<Vec<(BlobHash, u64)>> {
        let mut found = Vec::new();
        for folder in fs::read_dir(&self.root)?.flatten() {
            if !folder.path().is_dir() {
                continue;
            }
            let head = folder.file_name().to_string_lossy().into_owned();
            for file in fs::read_dir(folder.path())?.flatten() {
                let name = head.clone() + &file.file_name().to_string_lossy();
                let Some(hash) = BlobHash::from_hex(&name) else { continue };
                // A file may go while we look.
                found.extend(file.metadata().ok().map(|m| (hash, m.len())));
            }
        }
        Ok(found)
    }

    /// Removes what a killed process was still writing; call it only with the open lock held.
    pub(crate) fn remove_stale_temp_files(&self) -> Result<()> {
        for folder in fs::read_dir(&self.root)?.flatten() {
            if !folder.path().is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())?.flatten() {
                if file.file_name().to_string_lossy().starts_with(".new-") && is_stale(&file.path())
                {
                    fs::remove_file(file.path())?;
                }
            }
        }
        Ok(())
    }
}

/// A temp file of a living process is at most seconds old; its own age decides, not our clock.
fn is_stale(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
    age.is_some_and(|age| age.as_secs() > 3600)
}

fn corrupt_error(path: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt { file: path.to_path_buf(), reason: reason.to_owned() }
}

/// Stores a value for the transaction at hand.
///
/// A big value's file is looked for even if its row exists, and inside the write transaction: so is
/// the removal in [`remove_marked_files`], and write transactions of all processes follow one another. A file is
/// therefore never removed between this look and the commit of the row that needs it.
pub(crate) fn put_blob(
    conn: &Connection,
    dir: &BlobDir,
    hash: &BlobHash,
    bytes: &[u8],
) -> Result<()> {
    let data = if bytes.len() > FILE_LIMIT {
        dir.write_file(hash, bytes)?;
        None
    } else {
        Some(bytes)
    };
    conn.prepare_cached(
        "INSERT INTO blob (hash, size, data) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING",
    )?
    .execute((&hash.0[..], bytes.len() as i64, data))?;
    Ok(())
}

/// Reads a value back and proves that it is the one that was stored.
pub(crate) fn load_blob(conn: &Connection, dir: &BlobDir, hash: &BlobHash) -> Result<Vec<u8>> {
    let row: Option<(i64, Option<Vec<u8>>)> = conn
        .prepare_cached("SELECT size, data FROM blob WHERE hash = ?1")?
        .query_row([&hash.0[..]], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let bytes = match row {
        Some((_, Some(data))) => data,
        Some((size, None)) => dir.read_file(hash, u64::try_from(size).unwrap_or(0))?,
        None => return Err(corrupt_error(Path::new("turnstone.db"), "a stored value is missing")),
    };
    if BlobHash::of(&bytes) == *hash {
        return Ok(bytes);
    }
    Err(corrupt_error(&dir.path(hash), "a stored value does not match its hash"))
}

/// What was let go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleasedBlobs {
    /// Values nobody uses any more.
    pub(crate) values: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// True if there is more to let go.
    pub(crate) has_more: bool,
}

/// Lets go of at most `limit` values the event at `cursor` used.
///
/// A value nobody else uses is gone with this transaction; its file is only doomed, see [`remove_marked_files`].
pub(crate) fn release_blobs(
    conn: &Connection,
    LogCursor(cursor): LogCursor,
    now: EpochMillis,
    limit: i64,
) -> Result<ReleasedBlobs> {
    let hashes: Vec<Vec<u8>> = conn
        .prepare_cached("SELECT hash FROM blob_use WHERE cursor = ?1 LIMIT ?2")?
        .query_map((cursor, limit), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut released =
        ReleasedBlobs { has_more: hashes.len() as i64 == limit, ..ReleasedBlobs::default() };
    for hash in hashes {
        conn.prepare_cached("DELETE FROM blob_use WHERE hash = ?1 AND cursor = ?2")?
            .execute((&hash, cursor))?;
        let gone: Option<(i64, bool)> = conn
            .prepare_cached(
                "DELETE FROM blob WHERE hash = ?1
                   AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.hash = blob.hash)
                 RETURNING size, data IS NULL",
            )?
            .query_row([&hash], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((size, file)) = gone else { continue };
        released.values += 1;
        released.bytes += u64::try_from(size).unwrap_or(0);
        if file {
            mark_for_removal(conn, &hash, now)?;
        }
    }
    Ok(released)
}

/// Marks a file for removal; a file that is needed again is not removed.
pub(crate) fn mark_for_removal(conn: &Connection, hash: &[u8], now: EpochMillis) -> Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO blob_doomed (hash, time) VALUES (?1, ?2)")?
        .execute((hash, now.0))?;
    Ok(())
}

/// Removes at most `limit` files that were doomed by `before` and are not needed again.
///
/// The file goes inside the transaction: if that fails to commit, the file is gone and still
/// doomed, which the next call settles. Readers that began before `before` have long ended.
pub(crate) fn remove_marked_files(
    conn: &Connection,
    dir: &BlobDir,
    before: EpochMillis,
    limit: i64,
) -> Result<u64> {
    let doomed: Vec<(Vec<u8>, bool)> = conn
        .prepare_cached(
            "SELECT hash, EXISTS (SELECT 1 FROM blob WHERE blob.hash = blob_doomed.hash)
             FROM blob_doomed WHERE time <= ?1 LIMIT ?2",
        )?
        .query_map((before.0, limit), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (hash, needed) in &doomed {
        if let (false, Ok(bytes)) = (needed, <[u8; 32]>::try_from(hash.as_slice())) {
            dir.remove_file(&BlobHash(bytes))?;
        }
        conn.prepare_cached("DELETE FROM blob_doomed WHERE hash = ?1")?.execute([hash])?;
    }
    Ok(doomed.len() as u64)
}
