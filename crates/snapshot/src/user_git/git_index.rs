//! The user's index: versions 2 to 4, ids of 20 or 32 bytes, from untrusted bytes.
//!
//! Anything that is not exactly as git writes it is an error. Extensions that may be skipped are
//! skipped: the untracked cache and the file system monitor are not trusted.

use super::split_index::SplitIndexLink;

/// Why an index cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index cannot be read: {0}")]
pub(crate) struct GitIndexError(pub(super) &'static str);

type Result<T> = std::result::Result<T, GitIndexError>;

/// What git remembers of a file: seconds and nanoseconds, numbers cut to 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GitIndexEntry {
    start: u32,
    length: u32,
    pub(crate) ctime: (u32, u32),
    pub(crate) mtime: (u32, u32),
    pub(crate) dev: u32,
    pub(crate) ino: u32,
    pub(crate) mode: u32,
    pub(crate) size: u32,
    /// The name of the blob; of a longer name the first bytes.
    pub(crate) blob: [u8; 20],
    /// Git's own: assume-valid, extended, two bits of stage.
    flags: u16,
    /// Git's own: intent-to-add, skip-worktree.
    more: u16,
}

impl GitIndexEntry {
    /// True if git vouches for the entry: no conflict, not assumed unchanged, not intended to be added.
    pub(crate) fn is_normal(&self) -> bool {
        self.flags & 0xb000 == 0 && self.more == 0
    }

    /// A directory that a sparse index does not spell out.
    pub(crate) fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }
}

/// An index that was read to its end.
#[derive(Debug, Default)]
pub(crate) struct GitIndex {
    pub(super) paths: Vec<u8>,
    /// Sorted by path.
    pub(super) entries: Vec<GitIndexEntry>,
    /// When it was written, by its file system's clock; of a split one, its older half.
    pub(crate) time: i64,
}

impl GitIndex {
    pub(crate) fn entries(&self) -> &[GitIndexEntry] {
        &self.entries
    }

    pub(crate) fn path(&self, entry: &GitIndexEntry) -> &[u8] {
        let start = entry.start as usize;
        self.paths.get(start..start + entry.length as usize).unwrap_or_default()
    }

    /// True if a file is listed, or lies in a directory that is listed as a whole.
    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        let exact =
            |path: &[u8]| self.entries.binary_search_by(|entry| self.path(entry).cmp(path)).is_ok();
        exact(path) || self.contains_sparse_parent(path)
    }

    fn contains_sparse_parent(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(at, _)| &path[..=at]).any(|folder| {
            let found = self.entries.binary_search_by(|entry| self.path(entry).cmp(folder));
            found.is_ok_and(|at| self.entries[at].is_directory())
        })
    }

    /// True if anything below a directory is listed.
    pub(crate) fn contains_below(&self, folder: &[u8]) -> bool {
        let from = [folder, b"/"].concat();
        let at = self.entries.partition_point(|entry| self.path(entry) < &from[..]);
        let next = self.entries.get(at);
        next.is_some_and(|entry| self.path(entry).starts_with(&from))
            || self.contains_sparse_parent(&from)
    }

    /// The paths that are in one of both only.
    pub(crate) fn differing_paths(&self, other: &Self) -> Vec<Vec<u8>> {
        let mut here = self.entries.iter().map(|entry| self.path(entry)).peekable();
        let mut there = other.entries.iter().map(|entry| other.path(entry)).peekable();
        let mut found = Vec::new();
        loop {
            match (here.peek(), there.peek()) {
                (Some(one), Some(two)) if one == two => drop((here.next(), there.next())),
                (Some(one), two) if two.is_none_or(|two| one < two) => found.extend(here.next()),
                (_, Some(_)) => found.extend(there.next()),
                (_, None) => break,
            }
        }
        found.into_iter().map(<[u8]>::to_vec).collect()
    }

    /// Adds an entry of another index under a path.
    pub(super) fn push(&mut self, entry: &GitIndexEntry, path: &[u8]) -> Result<()> {
        let start = u32::try_from(self.paths.len()).map_err(|_| GitIndexError("too large"))?;
        self.paths.extend_from_slice(path);
        self.entries.push(GitIndexEntry { start, length: path.len() as u32, ..*entry });
        Ok(())
    }
}

/// Reads an index whose object names have `width` bytes; the second answer is its other half.
pub(super) fn parse_index(
    bytes: &[u8],
    width: usize,
) -> Result<(GitIndex, Option<SplitIndexLink>)> {
    let sealed = bytes.len().checked_sub(width).ok_or(GitIndexError("too short"))?;
    let (body, sum) = bytes.split_at(sealed);
    check_sum(body, sum)?;
    let mut reader = IndexReader { rest: body };
    if reader.take(4)? != b"DIRC" {
        return Err(GitIndexError("not an index"));
    }
    let version = reader.number()?;
    if !(2..=4).contains(&version) {
        return Err(GitIndexError("unknown version"));
    }
    let count = reader.number()? as usize;
    let least = 42 + width;
    if count > body.len() / least {
        return Err(GitIndexError("fewer entries than it says"));
    }
    let mut index = GitIndex::default();
    index.entries.reserve(count);
    index.paths.reserve(body.len().saturating_sub(count * least));
    let mut last = Vec::new();
    for _ in 0..count {
        let entry = read_entry(&mut reader, width, version, &mut last)?;
        let before = index.entries.last().map(|entry| index.path(entry));
        if before.is_some_and(|before| before > &last[..]) {
            return Err(GitIndexError("not sorted"));
        }
        index.push(&entry, &last)?;
    }
    let link = parse_extensions(&mut reader, width)?;
    Ok((index, link))
}

/// Verifies the checksum; git omits it if `index.skipHash` is set.
fn check_sum(body: &[u8], sum: &[u8]) -> Result<()> {
    if sum.len() != 20 || sum.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(body);
    let found = hasher.try_finalize().map_err(|_| GitIndexError("no check sum"))?;
    if found.as_slice() == sum { Ok(()) } else { Err(GitIndexError("wrong check sum")) }
}

/// Reads one entry; `path` holds the path before it and then its own.
fn read_entry(
    reader: &mut IndexReader<'_>,
    width: usize,
    version: u32,
    path: &mut Vec<u8>,
) -> Result<GitIndexEntry> {
    let before = reader.rest.len();
    let ctime = (reader.number()?, reader.number()?);
    let mtime = (reader.number()?, reader.number()?);
    let (dev, ino, mode) = (reader.number()?, reader.number()?, reader.number()?);
    let (_uid, _gid, size) = (reader.number()?, reader.number()?, reader.number()?);
    let mut blob = [0; 20];
    blob.copy_from_slice(&reader.take(width)?[..20]);
    let flags = reader.short()?;
    let more = if version >= 3 && flags & 0x4000 != 0 { reader.short()? } else { 0 };
    if version == 4 {
        let cut = reader.varint()?;
        let kept = path.len().checked_sub(cut).ok_or(GitIndexError("path before its beginning"))?;
        path.truncate(kept);
        path.extend_from_slice(reader.until_nul()?);
    } else {
        path.clear();
        path.extend_from_slice(reader.until_nul()?);
        // One NUL was taken; the rest fill the entry up to a multiple of eight bytes.
        let used = before - reader.rest.len();
        reader.take(used.next_multiple_of(8) - used)?;
    }
    let (start, length) = (0, 0);
    Ok(GitIndexEntry { start, length, ctime, mtime, dev, ino, mode, size, blob, flags, more })
}

fn parse_extensions(reader: &mut IndexReader<'_>, width: usize) -> Result<Option<SplitIndexLink>> {
    let mut link = None;
    while !reader.rest.is_empty() {
        let name = reader.take(4)?;
        let length = reader.number()? as usize;
        let data = reader.take(length)?;
        match name {
            b"link" => link = SplitIndexLink::parse(data, width)?,
            b"sdir" => {}
            // Git may pass over extensions whose name begins with a capital letter.
            [b'A'..=b'Z', ..] => {}
            _ => return Err(GitIndexError("an extension that must be understood")),
        }
    }
    Ok(link)
}

/// Bytes, taken from the front, never beyond their end.
pub(super) struct IndexReader<'b> {
    pub(super) rest: &'b [u8],
}

impl<'b> IndexReader<'b> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or(GitIndexError("cut off"))?;
        self.rest = tail;
        Ok(head)
    }

    pub(super) fn number(&mut self) -> Result<u32> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(GitIndexError("cut off"))?;
        self.rest = tail;
        Ok(u32::from_be_bytes(*head))
    }

    fn short(&mut self) -> Result<u16> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(GitIndexError("cut off"))?;
        self.rest = tail;
        Ok(u16::from_be_bytes(*head))
    }

    fn until_nul(&mut self) -> Result<&'b [u8]> {
        let end =
            self.rest.iter().position(|byte| *byte == 0).ok_or(GitIndexError("endless path"))?;
        let path = self.take(end)?;
        self.take(1)?;
        Ok(path)
    }

    /// The number form of pack offsets: each further byte adds one.
    fn varint(&mut self) -> Result<usize> {
        let mut value = 0_usize;
        loop {
            let byte = self.take(1)?[0];
            value =
                value.checked_add(usize::from(byte & 0x7f)).ok_or(GitIndexError("huge number"))?;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            let more = value.checked_add(1).and_then(|value| value.checked_mul(128));
            value = more.ok_or(GitIndexError("huge number"))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], flags: u16, suffix: Option<u8>) -> Vec<u8> {
        let mut out: Vec<u8> = (1_u32..=10).flat_map(u32::to_be_bytes).collect();
        out.extend_from_slice(&[7; 20]);
        out.extend_from_slice(&flags.to_be_bytes());
        if let Some(cut) = suffix {
            out.push(cut);
        }
        out.extend_from_slice(path);
        let full = out.len() + 1;
        let end = if suffix.is_some() { full } else { full.next_multiple_of(8) };
        out.resize(end, 0);
        out
    }

    fn index(version: u32, entries: &[Vec<u8>], extension: &[u8]) -> Vec<u8> {
        let mut out = b"DIRC".to_vec();
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&(entries.len() as u32).to_be_bytes());
        entries.iter().for_each(|entry| out.extend_from_slice(entry));
        out.extend_from_slice(extension);
        // Without a check sum, as git writes it on request, so that nothing else catches a mistake.
        out.resize(out.len() + 20, 0);
        out
    }

    fn paths(index: &GitIndex) -> Vec<&[u8]> {
        index.entries.iter().map(|entry| index.path(entry)).collect()
    }

    #[test]
    fn plain_and_prefix_compressed_paths_are_parsed() {
        let plain = index(2, &[entry(b"a/b", 3, None), entry(b"a/cc", 4, None)], b"");
        let short = index(4, &[entry(b"a/b", 3, Some(0)), entry(b"cc", 4, Some(1))], b"");

        for bytes in [plain, short] {
            let (index, link) = parse_index(&bytes, 20).unwrap();
            assert_eq!(paths(&index), [&b"a/b"[..], b"a/cc"]);
            assert!(link.is_none() && index.entries[0].is_normal());
            assert!(index.contains(b"a/cc") && !index.contains(b"a") && !index.contains(b"a/c"));
            assert!(index.contains_below(b"a") && !index.contains_below(b"a/b"));
        }
    }

    #[test]
    fn differing_paths_lists_changes_between_indexes() {
        let of = |paths: &[&str]| {
            let mut index = GitIndex::default();
            let (plain, _) =
                parse_index(&super::tests::index(2, &[entry(b"x", 1, None)], b""), 20).unwrap();
            paths.iter().for_each(|path| index.push(&plain.entries[0], path.as_bytes()).unwrap());
            index
        };
        let (one, two) = (of(&["a", "a-b", "a/x", "b"]), of(&["a-b", "a/x", "a/y", "c"]));

        assert_eq!(one.differing_paths(&two), [&b"a"[..], b"a/y", b"b", b"c"]);
        assert!(one.differing_paths(&one).is_empty());
        assert_eq!(of(&[]).differing_paths(&of(&["a"])), [b"a"]);
    }

    #[test]
    fn malformed_index_is_rejected() {
        let good = [entry(b"a", 1, None), entry(b"b", 1, None)];
        for bytes in [
            index(2, &[good[1].clone(), good[0].clone()], b""),
            index(5, &good, b""),
            index(2, &good, b"evil\0\0\0\0"),
            index(2, &good, b"TREE\0\0\0\x09"),
            index(4, &[entry(b"a", 1, Some(1))], b""),
            b"DIRC".to_vec(),
        ] {
            assert!(parse_index(&bytes, 20).is_err());
        }
        let mut summed = index(2, &good, b"");
        *summed.last_mut().unwrap() = 1;
        assert!(parse_index(&summed, 20).is_err());
    }

    #[test]
    fn mutated_index_bytes_never_read_out_of_bounds() {
        let mut link = b"link\0\0\0\x38".to_vec();
        link.extend_from_slice(&[9; 20]);
        for _ in 0..2 {
            link.extend_from_slice(&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        }
        let entries = [entry(b"a", 1, None), entry(b"bb", 0x4002, None), entry(b"c", 1, None)];
        let short = [entry(b"a", 1, Some(0)), entry(b"b", 1, Some(1))];
        let mut state = 7_u64;
        for seed in [index(2, &entries, &link), index(3, &entries, b""), index(4, &short, &link)] {
            for _ in 0..30_000 {
                let mut bytes = seed.clone();
                for _ in 0..3 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (state >> 33) as usize % (bytes.len() - 20);
                    bytes[at] = (state >> 16) as u8;
                }
                bytes.truncate(bytes.len() - (state >> 60) as usize);
                for width in [20, 32] {
                    if let Ok((index, Some(link))) = parse_index(&bytes, width) {
                        link.join_halves(&GitIndex::default(), &index).ok();
                        link.join_halves(&index, &index).ok();
                    }
                }
            }
        }
    }
}
