//! Reading around damage: rows in ranges of row numbers, halved where a page cannot be read.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use rusqlite::{Connection, Row};

use super::TableSalvageCounts;
use crate::error::Result;

/// How many ranges that cannot be read are halved before the rest is given up.
const MAX_FAILED_RANGES: u64 = 400_000;
/// Rows a page holds at most, as far as guessing the last row number goes.
const ROWS_PER_PAGE: i64 = 64;

/// How a table is read.
pub(super) struct SalvageTable {
    pub(super) name: &'static str,
    /// Rows with a number from `?1` to `?2`, in order; the first column is the number.
    pub(super) rows: &'static str,
    /// Statements that give the highest number, the best first.
    pub(super) highest: &'static [&'static str],
}

/// What was made of a row.
pub(super) enum RowVerdict {
    /// It is what was stored.
    Sound,
    /// It is not.
    Damaged,
}

/// Gives every readable row to `each`. An error of reading is damage; an error of `each` ends it.
pub(super) fn read_table(
    conn: &Connection,
    table: &SalvageTable,
    each: &mut dyn FnMut(&Row<'_>) -> Result<RowVerdict>,
) -> Result<TableSalvageCounts> {
    let mut counts = TableSalvageCounts { table: table.name, ..TableSalvageCounts::default() };
    // Widest first, so that patience is spent on the neighbourhood of the damage last.
    let mut ranges = VecDeque::from([(0, highest_rowid(conn, table))]);
    let mut failures = 0;
    while let Some((low, high)) = ranges.pop_front() {
        let Some(next) = read_range(conn, table, low..=high, &mut counts, each)? else {
            continue;
        };
        failures += 1;
        if next >= high || failures > MAX_FAILED_RANGES {
            let left = high.saturating_sub(next).saturating_add(1);
            counts.unreadable =
                counts.unreadable.saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
            continue;
        }
        let middle = next + (high - next) / 2;
        ranges.push_back((next, middle));
        ranges.push_back((middle + 1, high));
    }
    Ok(counts)
}

/// Reads a range to its end, or returns the first number that was not read.
fn read_range(
    conn: &Connection,
    table: &SalvageTable,
    range: RangeInclusive<i64>,
    counts: &mut TableSalvageCounts,
    each: &mut dyn FnMut(&Row<'_>) -> Result<RowVerdict>,
) -> Result<Option<i64>> {
    let (low, high) = range.into_inner();
    let mut next = low;
    let Ok(mut statement) = conn.prepare_cached(table.rows) else {
        return Ok(Some(next));
    };
    let Ok(mut rows) = statement.query((low, high)) else {
        return Ok(Some(next));
    };
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(None),
            Err(_) => return Ok(Some(next)),
        };
        let Ok(number) = row.get::<_, i64>(0) else {
            return Ok(Some(next));
        };
        // A damaged tree may lead in circles.
        if number < next || number > high {
            return Ok(Some(next));
        }
        match each(row)? {
            RowVerdict::Sound => counts.read += 1,
            RowVerdict::Damaged => counts.damaged += 1,
        }
        if number == high {
            return Ok(None);
        }
        next = number + 1;
    }
}

/// The highest row number, or a bound for it.
fn highest_rowid(conn: &Connection, table: &SalvageTable) -> i64 {
    let asked = |sql: &&str| conn.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).ok();
    if let Some(found) = table.highest.first().and_then(asked) {
        return found.unwrap_or(0);
    }
    let pages = conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap_or(1_i64);
    let guess = pages.saturating_mul(ROWS_PER_PAGE);
    table.highest.iter().skip(1).filter_map(asked).flatten().fold(guess, i64::max)
}
