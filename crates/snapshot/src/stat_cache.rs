//! The stat cache: which files need not be read again because their stat has not changed.
//!
//! A hint that is checked at every use and may be lost at any time: then files are read again. An
//! entry made within the clock's grain of the file's last change proves nothing and is not used.

use std::io::{self, Write};
use std::path::Path;

use crate::object_store::{FileMode, Oid, TreeLeaf};
use crate::path::RelPath;
use crate::worktree::{FileKind, FileStat};

const MAGIC: &[u8; 8] = b"TSSTAT02";
/// Grain of the kernel's file clock, generously.
const GRAIN: i64 = 100_000_000;
/// Grain of a file system whose times have no fraction: whole or even seconds only.
const COARSE_GRAIN: i64 = 2_100_000_000;

/// What is remembered of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedFile {
    pub(crate) stat: FileStat,
    pub(crate) leaf: TreeLeaf,
    /// True if the file may have changed since without its times telling.
    pub(crate) racy: bool,
}

impl CachedFile {
    /// Remembers a file read at `clock`, a time of the file system's own.
    pub(crate) fn new(stat: FileStat, leaf: TreeLeaf, clock: i64) -> Self {
        let whole = stat.ctime % 1_000_000_000 == 0;
        let grain = if whole { COARSE_GRAIN } else { GRAIN };
        Self { stat, leaf, racy: stat.ctime.max(stat.mtime) >= clock - grain }
    }

    /// True if a file with these facts has the remembered bytes.
    pub(crate) fn proves_unchanged(&self, stat: &FileStat) -> bool {
        !self.racy && self.stat.is_unchanged(stat)
    }
}

/// One name in a folder.
pub(crate) type EntryName = Box<[u8]>;

/// Files of one folder, sorted by name.
pub(crate) type CachedFiles = Vec<(EntryName, CachedFile)>;

/// Reads the cache, folder by folder; a missing, torn or foreign file is an empty cache.
pub(crate) fn load_stat_cache(path: &Path) -> Vec<(Vec<u8>, CachedFiles)> {
    let Ok(bytes) = fs_err::read(path) else {
        return Vec::new();
    };
    decode_stat_cache(&bytes).unwrap_or_default()
}

/// A cache on its way to the next process.
pub(crate) struct StatCacheWriter(Vec<u8>);

impl StatCacheWriter {
    pub(crate) fn new(files: usize) -> Self {
        let mut out = Vec::with_capacity(files * 112 + 16);
        out.extend_from_slice(MAGIC);
        Self(out)
    }

    /// Adds a folder and its files.
    pub(crate) fn add<'a>(
        &mut self,
        folder: &[u8],
        files: impl Iterator<Item = (&'a EntryName, &'a CachedFile)> + Clone,
    ) {
        let count = files.clone().count();
        if count == 0 {
            return;
        }
        put_bytes(&mut self.0, folder);
        self.0.extend_from_slice(&(count as u32).to_le_bytes());
        files.for_each(|(name, cached)| encode_file(&mut self.0, name, cached));
    }

    /// Writes it. It is not synced: a checksum detects a torn one.
    pub(crate) fn finish(self, path: &Path) -> io::Result<()> {
        let Self(mut out) = self;
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        let temp = path.with_extension("tmp");
        fs_err::File::create(&temp)?.write_all(&out)?;
        fs_err::rename(&temp, path)
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn encode_file(out: &mut Vec<u8>, name: &[u8], cached: &CachedFile) {
    let CachedFile { stat, leaf, racy } = cached;
    put_bytes(out, name);
    out.push(u8::from(*racy) | u8::from(leaf.mode == FileMode::Link) << 1);
    out.extend_from_slice(&stat.perm.to_le_bytes());
    for number in [stat.size, stat.ino, stat.dev, stat.nlink] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for time in [stat.mtime, stat.ctime] {
        out.extend_from_slice(&time.to_le_bytes());
    }
    out.extend_from_slice(&leaf.blob.0);
}

fn decode_stat_cache(bytes: &[u8]) -> Option<Vec<(Vec<u8>, CachedFiles)>> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let mut folders = Vec::new();
    while !rest.is_empty() {
        let folder = take_bytes(&mut rest)?;
        if !folder.is_empty() {
            RelPath::new(folder).ok()?;
        }
        let count = u32::from_le_bytes(take(&mut rest)?);
        let mut files = CachedFiles::new();
        for _ in 0..count {
            let name = take_bytes(&mut rest)?;
            RelPath::in_folder(folder, name).ok()?;
            files.push((name.into(), decode_file(&mut rest)?));
        }
        folders.push((folder.to_vec(), files));
    }
    Some(folders)
}

fn decode_file(rest: &mut &[u8]) -> Option<CachedFile> {
    let [flags] = take(rest)?;
    let perm = u32::from_le_bytes(take(rest)?);
    let size = u64::from_le_bytes(take(rest)?);
    let ino = u64::from_le_bytes(take(rest)?);
    let dev = u64::from_le_bytes(take(rest)?);
    let nlink = u64::from_le_bytes(take(rest)?);
    let mtime = i64::from_le_bytes(take(rest)?);
    let ctime = i64::from_le_bytes(take(rest)?);
    let blob = Oid(take(rest)?);
    let kind = if flags & 2 != 0 { FileKind::Link } else { FileKind::File };
    let stat = FileStat { kind, perm, size, mtime, ctime, ino, dev, nlink };
    let leaf = TreeLeaf { blob, mode: leaf_mode_of(&stat) };
    Some(CachedFile { stat, leaf, racy: flags & 1 != 0 })
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// The mode git gives a file.
pub(crate) fn leaf_mode_of(stat: &FileStat) -> FileMode {
    match stat.kind {
        FileKind::Link => FileMode::Link,
        _ if stat.is_executable() => FileMode::Exec,
        FileKind::File | FileKind::Directory | FileKind::Special => FileMode::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CachedFile {
        let stat = FileStat {
            kind: FileKind::File,
            perm: 0o755,
            size: 3,
            mtime: 5_000_000_001,
            ctime: 5_000_000_002,
            ino: 7,
            dev: 8,
            nlink: 1,
        };
        let leaf = TreeLeaf { blob: Oid([9; 20]), mode: FileMode::Exec };
        CachedFile::new(stat, leaf, 9_000_000_000)
    }

    #[test]
    fn stat_cache_round_trips_and_torn_file_reads_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let files: CachedFiles = vec![(b"\xff"[..].into(), sample())];
        let mut saver = StatCacheWriter::new(1);
        for folder in [&b""[..], b"a"] {
            saver.add(folder, files.iter().map(|(name, cached)| (name, cached)));
        }
        saver.finish(&path).unwrap();

        assert_eq!(load_stat_cache(&path), [(b"".to_vec(), files.clone()), (b"a".to_vec(), files)]);
        let bytes = fs_err::read(&path).unwrap();
        for cut in 0..bytes.len() {
            fs_err::write(&path, &bytes[..cut]).unwrap();
            assert!(load_stat_cache(&path).is_empty(), "cut at {cut}");
        }
    }

    #[test]
    fn file_changed_within_clock_granularity_is_not_trusted() {
        let CachedFile { stat, leaf, .. } = sample();

        assert!(CachedFile::new(stat, leaf, stat.ctime + GRAIN + 1).proves_unchanged(&stat));
        assert!(!CachedFile::new(stat, leaf, stat.ctime + GRAIN).proves_unchanged(&stat));
        assert!(!CachedFile::new(stat, leaf, 0).proves_unchanged(&stat));
        let whole = FileStat { ctime: 5_000_000_000, mtime: 5_000_000_000, ..stat };
        assert!(!CachedFile::new(whole, leaf, 7_000_000_000).proves_unchanged(&whole));
    }
}
