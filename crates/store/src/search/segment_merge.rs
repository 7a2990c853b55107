//! Keeps the index in few segments, in steps that fit a transaction (R23).
//!
//! Every batch leaves one segment behind. The documented command `merge` merges them page by page, but
//! it removes the page list of a merged segment at once at the end, which for a large segment exceeds
//! the limit of rows of one transaction; `optimize` rewrites the whole index at once. So each step
//! also removes the entries of pages that are merged already: FTS5 ignores them in searches and in its
//! `integrity-check`. This reads the structure record and edits the page list, which are private to
//! FTS5. Therefore the SQLite that is bundled is pinned exactly in `Cargo.toml`, a test fails with any
//! other version or format, and a record that cannot be read is left alone: then nothing is merged.

use rusqlite::{Connection, OptionalExtension};

use super::index_plan::PAGE;
use crate::error::Result;
use crate::tx::Tx;

/// So many segments on a level are merged into one; `usermerge` in the schema.
const FAN_IN: usize = 8;
/// A level with so many percent deleted is merged for that alone; FTS5's `deletemerge`.
const DELETED_PERCENT: u64 = 10;
/// Pages written by one step.
const PAGES: u64 = 64;
/// A level of fewer pages can be merged to its end in one step whatever is in it.
const SMALL_LEVEL_PAGES: u64 = 100;
/// Segments that are too many: merging did not keep up or cannot go on. FTS5 ends at 2000.
const TOO_MANY: usize = 1000;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentMergeOutcome {
    /// There was nothing to merge.
    Nothing,
    /// There may be more.
    Progressed,
    /// What there is to merge does not fit a transaction.
    Stuck,
}

/// The index as FTS5 describes it in row 10 of `search_data`.
#[derive(Debug, Default, PartialEq, Eq)]
struct IndexStructure {
    levels: Vec<SegmentLevel>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct SegmentLevel {
    /// So many of its first segments are being merged.
    merging: usize,
    segments: Vec<IndexSegment>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct IndexSegment {
    id: u64,
    first: u64,
    last: u64,
    deleted: u64,
    entries: u64,
}

/// How much a step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeStepSize {
    /// What usually fits a transaction.
    Pages,
    /// As little as can be: to the end of the next word. Its list is not divided, however long.
    SingleTerm,
}

/// Merges a little. With other mutations in the group it waits for a better moment.
pub(super) fn merge_step(tx: &Tx<'_>, step_size: MergeStepSize) -> Result<SegmentMergeOutcome> {
    if super::indexer::is_group_shared(tx) {
        return Ok(SegmentMergeOutcome::Nothing);
    }
    let Some(structure) = read_structure(tx.conn)? else {
        return Ok(SegmentMergeOutcome::Nothing);
    };
    let Some(level) = structure.next_level() else {
        return Ok(SegmentMergeOutcome::Nothing);
    };
    let Some(usual) = level.pages_per_step() else {
        return Ok(SegmentMergeOutcome::Stuck);
    };
    let pages = if step_size == MergeStepSize::SingleTerm { 1 } else { usual };
    run_merge(tx, pages as i64)
}

/// Merges a little of the segments that hold deleted documents, so that in the end none does.
pub(super) fn erase_deleted_step(
    tx: &Tx<'_>,
    step_size: MergeStepSize,
) -> Result<SegmentMergeOutcome> {
    if super::indexer::is_group_shared(tx) {
        return Ok(SegmentMergeOutcome::Nothing);
    }
    let Some(structure) = read_structure(tx.conn)? else {
        return Ok(SegmentMergeOutcome::Nothing);
    };
    // A merge that has begun is continued; otherwise all segments become the input of one, as the
    // negative number asks, because FTS5 merges whole levels.
    let merging = structure.levels.iter().find(|level| level.merging > 0);
    let all = SegmentLevel {
        merging: 0,
        segments: structure.levels.iter().flat_map(|level| level.segments.clone()).collect(),
    };
    let Some(usual) = merging.unwrap_or(&all).pages_per_step() else {
        return Ok(SegmentMergeOutcome::Stuck);
    };
    let pages = if step_size == MergeStepSize::SingleTerm { 1 } else { usual };
    run_merge(tx, if merging.is_some() { pages as i64 } else { -(pages as i64) })
}

fn run_merge(tx: &Tx<'_>, pages: i64) -> Result<SegmentMergeOutcome> {
    let before = tx.conn.total_changes();
    tx.conn
        .prepare_cached("INSERT INTO search (search, rank) VALUES ('merge', ?1)")?
        .execute([pages])?;
    // At least every second row is a removed page or an entry of the page list.
    tx.count_bytes((tx.conn.total_changes() - before) / 2 * PAGE);
    if let Some(after) = read_structure(tx.conn)? {
        after.delete_merged_pages(tx.conn)?;
    }
    Ok(SegmentMergeOutcome::Progressed)
}

/// What the index still holds of deleted documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeletedEntries {
    /// Documents that are only marked as deleted.
    pub(super) documents: u64,
    /// Pages of the segments.
    pages: u64,
}

/// Counts the documents that are only marked as deleted; `None` if the structure record cannot be read.
pub(super) fn count_deleted(conn: &Connection) -> Result<Option<DeletedEntries>> {
    Ok(read_structure(conn)?.map(|structure| DeletedEntries {
        documents: structure.levels.iter().map(SegmentLevel::deleted).sum(),
        pages: structure.levels.iter().map(SegmentLevel::pages).sum(),
    }))
}

/// True if the index must be rebuilt because it has too many segments.
pub(super) fn has_too_many_segments(conn: &Connection) -> Result<bool> {
    let structure = read_structure(conn)?.unwrap_or_default();
    Ok(structure.levels.iter().map(|level| level.segments.len()).sum::<usize>() > TOO_MANY)
}

fn read_structure(conn: &Connection) -> Result<Option<IndexStructure>> {
    let block: Option<Vec<u8>> = conn
        .prepare_cached("SELECT block FROM search_data WHERE id = 10")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(block.and_then(|block| IndexStructure::parse(&block)))
}

impl IndexStructure {
    /// Reads the record: a cookie, the mark of version 2, and numbers.
    fn parse(block: &[u8]) -> Option<Self> {
        let mut rest = block.get(4..)?.strip_prefix(&[0xFF, 0, 0, 1])?;
        let levels = read_varint(&mut rest)?;
        let (_segments, _writes) = (read_varint(&mut rest)?, read_varint(&mut rest)?);
        let mut structure = Self::default();
        for _ in 0..levels {
            let merging = usize::try_from(read_varint(&mut rest)?).ok()?;
            let count = read_varint(&mut rest)?;
            let mut level = SegmentLevel { merging, segments: Vec::new() };
            for _ in 0..count {
                level.segments.push(IndexSegment::parse(&mut rest)?);
            }
            structure.levels.push(level);
        }
        Some(structure)
    }

    /// The level FTS5 would merge next.
    fn next_level(&self) -> Option<&SegmentLevel> {
        let mut best: Option<&SegmentLevel> = None;
        let mut most = 0;
        for level in &self.levels {
            if level.merging > 0 {
                if level.merging > most {
                    return Some(level);
                }
                break;
            }
            if level.segments.len() > most {
                (most, best) = (level.segments.len(), Some(level));
            }
        }
        if most >= FAN_IN { best } else { self.most_deleted() }
    }

    fn most_deleted(&self) -> Option<&SegmentLevel> {
        let upto = self.levels.iter().position(|level| level.merging > 0);
        let upto = upto.map_or(self.levels.len(), |at| at + 1);
        let levels = self.levels.iter().take(upto);
        levels
            .rev()
            .filter(|l| l.deleted_percent() >= DELETED_PERCENT)
            .max_by_key(|l| l.deleted_percent())
    }

    /// Removes the page list entries of pages that are merged already.
    fn delete_merged_pages(&self, conn: &Connection) -> Result<()> {
        let merging = self.levels.iter().flat_map(|l| l.segments.iter().take(l.merging));
        for segment in merging {
            let first = if segment.first == 0 { i64::MAX } else { segment.first as i64 };
            conn.prepare_cached("DELETE FROM search_idx WHERE segid = ?1 AND (pgno >> 1) < ?2")?
                .execute((segment.id as i64, first))?;
        }
        Ok(())
    }
}

impl SegmentLevel {
    fn entries(&self) -> u64 {
        self.segments.iter().map(|s| s.entries).sum()
    }

    fn deleted(&self) -> u64 {
        self.segments.iter().map(|s| s.deleted).sum()
    }

    fn deleted_percent(&self) -> u64 {
        (self.deleted() * 100).checked_div(self.entries()).unwrap_or(0).min(100)
    }

    fn pages(&self) -> u64 {
        self.segments.iter().map(|s| (s.last + 1).saturating_sub(s.first)).sum()
    }

    /// Pages to write in one step: the more is deleted, the more is read and removed for each.
    fn pages_per_step(&self) -> Option<u64> {
        if self.pages() <= SMALL_LEVEL_PAGES {
            return Some(PAGES);
        }
        let pages = PAGES * (100 - self.deleted_percent()) / 100;
        (pages > 2).then_some(pages)
    }
}

impl IndexSegment {
    fn parse(rest: &mut &[u8]) -> Option<Self> {
        let (id, first, last) = (read_varint(rest)?, read_varint(rest)?, read_varint(rest)?);
        let (_oldest, _newest, _pages) =
            (read_varint(rest)?, read_varint(rest)?, read_varint(rest)?);
        let (deleted, entries) = (read_varint(rest)?, read_varint(rest)?);
        Some(Self { id, first, last, deleted, entries })
    }
}

/// A number as SQLite writes it: seven bits a byte, high bits first, nine bytes at most.
fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..9 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        if at == 8 {
            return Some((value << 8) | u64::from(*byte));
        }
        value = (value << 7) | u64::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SQLite whose private tables of FTS5 this module was checked against.
    const CHECKED_SQLITE: &str = "3.54.1";

    /// A new version of SQLite must be checked first: read `fts5_index.c` for changes of the structure
    /// record and of `%_idx`, run the tests of the search, and only then write its number here.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a scratch database in memory, for this table alone"
    )]
    fn private_format_of_fts5_is_the_one_that_was_checked() {
        assert_eq!(rusqlite::version(), CHECKED_SQLITE, "see the comment of this test");
        let conn = Connection::open_in_memory().expect("opens");
        conn.execute_batch(
            "CREATE VIRTUAL TABLE search USING fts5(body, content='', contentless_delete=1)",
        )
        .expect("creates");
        for num in 1..=3 {
            conn.execute("INSERT INTO search (rowid, body) VALUES (?1, 'okapi')", [num])
                .expect("inserts");
        }
        let structure = read_structure(&conn).expect("reads").expect("the record parses");
        let segments: Vec<_> = structure.levels.iter().flat_map(|l| &l.segments).collect();
        assert_eq!(segments.len(), 3, "one for each transaction");
        let listed: Vec<i64> = conn
            .prepare("SELECT DISTINCT segid FROM search_idx ORDER BY segid")
            .and_then(|mut found| found.query_map([], |row| row.get(0))?.collect())
            .expect("lists");
        let mut ids: Vec<i64> = segments.iter().map(|segment| segment.id as i64).collect();
        ids.sort_unstable();
        assert_eq!(ids, listed, "the record and the page list name the same segments");
        assert_eq!(segments.iter().map(|segment| segment.entries).sum::<u64>(), 3);
    }

    #[test]
    fn structure_record_parses_and_garbage_is_rejected() {
        let block = [0, 0, 0, 1, 0xFF, 0, 0, 1, 1, 1, 0, 0, 1, 5, 1, 0x81, 0, 1, 1, 0, 2, 9];
        let structure = IndexStructure::parse(&block).expect("a structure");
        let segment = IndexSegment { id: 5, first: 1, last: 128, deleted: 2, entries: 9 };
        assert_eq!(structure.levels, [SegmentLevel { merging: 0, segments: vec![segment] }]);
        assert!(structure.next_level().is_some(), "22 % are deleted");
        for len in 0..block.len() {
            assert_eq!(IndexStructure::parse(&block[..len]), None, "{len}");
        }
    }
}
