//! The stat cache: which files need not be read again because the kernel says they did not change.
//!
//! A hint that is checked at every use and may be lost at any time: then files are read again. An
//! entry made within the clock's grain of the file's last change proves nothing and is not believed.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use crate::object::{Leaf, LeafMode, Oid};
use crate::path::RelPath;
use crate::worktree::{Kind, Stat};

const MAGIC: &[u8; 8] = b"TSSTAT01";
/// Grain of the kernel's file clock, generously.
const GRAIN: i64 = 100_000_000;
/// The same where times have no fraction: whole or even seconds only.
const COARSE_GRAIN: i64 = 2_100_000_000;

/// What is remembered of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) stat: Stat,
    pub(crate) leaf: Leaf,
    /// True if the file may have changed since without its times telling.
    pub(crate) racy: bool,
}

impl Cached {
    /// Remembers a file read at `clock`, a time of the file system's own.
    pub(crate) fn new(stat: Stat, leaf: Leaf, clock: i64) -> Self {
        let whole = stat.ctime % 1_000_000_000 == 0;
        let grain = if whole { COARSE_GRAIN } else { GRAIN };
        Self { stat, leaf, racy: stat.ctime.max(stat.mtime) >= clock - grain }
    }

    /// Tells whether a file with these facts has the remembered bytes.
    pub(crate) fn proves(&self, stat: &Stat) -> bool {
        !self.racy && self.stat.is_same(stat)
    }
}

/// Everything remembered of one worktree.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) files: HashMap<RelPath, Cached>,
}

impl Cache {
    /// Reads the cache; a missing, torn or foreign file is an empty cache.
    pub(crate) fn load(path: &Path) -> Self {
        let Ok(bytes) = fs_err::read(path) else {
            return Self::default();
        };
        decode(&bytes).unwrap_or_default()
    }

    /// Writes the cache for the next process. It is not synced: its check sum tells a torn one.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let mut out = Vec::with_capacity(self.files.len() * 128 + 16);
        out.extend_from_slice(MAGIC);
        for (path, cached) in &self.files {
            encode(&mut out, path, cached);
        }
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        let temp = path.with_extension("tmp");
        fs_err::File::create(&temp)?.write_all(&out)?;
        fs_err::rename(&temp, path)
    }
}

fn encode(out: &mut Vec<u8>, path: &RelPath, cached: &Cached) {
    let Cached { stat, leaf, racy } = cached;
    out.extend_from_slice(&(path.as_bytes().len() as u32).to_le_bytes());
    out.extend_from_slice(path.as_bytes());
    out.push(u8::from(*racy) | u8::from(leaf.mode == LeafMode::Link) << 1);
    out.extend_from_slice(&stat.perm.to_le_bytes());
    for number in [stat.size, stat.ino, stat.dev] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for time in [stat.mtime, stat.ctime] {
        out.extend_from_slice(&time.to_le_bytes());
    }
    out.extend_from_slice(&leaf.blob.0);
}

fn decode(bytes: &[u8]) -> Option<Cache> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let mut files = HashMap::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(take(&mut rest)?) as usize;
        let (path, after) = rest.split_at_checked(length)?;
        rest = after;
        let [flags] = take(&mut rest)?;
        let perm = u32::from_le_bytes(take(&mut rest)?);
        let size = u64::from_le_bytes(take(&mut rest)?);
        let ino = u64::from_le_bytes(take(&mut rest)?);
        let dev = u64::from_le_bytes(take(&mut rest)?);
        let mtime = i64::from_le_bytes(take(&mut rest)?);
        let ctime = i64::from_le_bytes(take(&mut rest)?);
        let blob = Oid(take(&mut rest)?);
        let link = flags & 2 != 0;
        let kind = if link { Kind::Link } else { Kind::File };
        let stat = Stat { kind, perm, size, mtime, ctime, ino, dev, nlink: 1 };
        let leaf = Leaf { blob, mode: mode_of(&stat) };
        files.insert(RelPath::new(path).ok()?, Cached { stat, leaf, racy: flags & 1 != 0 });
    }
    Some(Cache { files })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// The mode git gives a file.
pub(crate) fn mode_of(stat: &Stat) -> LeafMode {
    match stat.kind {
        Kind::Link => LeafMode::Link,
        _ if stat.is_executable() => LeafMode::Exec,
        Kind::File | Kind::Directory | Kind::Special => LeafMode::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Cache {
        let stat = Stat {
            kind: Kind::File,
            perm: 0o755,
            size: 3,
            mtime: 5_000_000_001,
            ctime: 5_000_000_002,
            ino: 7,
            dev: 8,
            nlink: 1,
        };
        let leaf = Leaf { blob: Oid([9; 20]), mode: LeafMode::Exec };
        let path = RelPath::new(&b"a/\xff"[..]).unwrap();
        let cached = Cached::new(stat, leaf, 9_000_000_000);
        Cache { files: HashMap::from([(path, cached)]) }
    }

    #[test]
    fn a_cache_is_read_back_and_a_torn_one_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let cache = sample();
        cache.save(&path).unwrap();

        assert_eq!(Cache::load(&path).files, cache.files);
        let bytes = fs_err::read(&path).unwrap();
        for cut in 0..bytes.len() {
            fs_err::write(&path, &bytes[..cut]).unwrap();
            assert!(Cache::load(&path).files.is_empty(), "cut at {cut}");
        }
    }

    #[test]
    fn a_file_changed_within_the_clocks_grain_is_not_believed() {
        let cache = sample();
        let Cached { stat, leaf, .. } = cache.files.values().next().copied().unwrap();

        assert!(Cached::new(stat, leaf, stat.ctime + GRAIN + 1).proves(&stat));
        assert!(!Cached::new(stat, leaf, stat.ctime + GRAIN).proves(&stat));
        assert!(!Cached::new(stat, leaf, 0).proves(&stat));
        let whole = Stat { ctime: 5_000_000_000, mtime: 5_000_000_000, ..stat };
        assert!(!Cached::new(whole, leaf, 7_000_000_000).proves(&whole));
    }
}
