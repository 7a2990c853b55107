//! What is stored outside of the log and cannot be rebuilt from it: secrets of shares, the outbox, consumers.
//!
//! The results kept for repeated calls are left behind: nothing proves them, and a wrong one would
//! be believed.

use super::SalvageRun;
use super::range_reader::SalvageTable;
use super::session_streams::copy_small_table;
use crate::error::Result;

const SECRETS: SalvageTable = SalvageTable {
    name: "share_secret",
    rows: "SELECT session, secret FROM share_secret WHERE session BETWEEN ?1 AND ?2
           ORDER BY session",
    highest: &["SELECT max(session) FROM share_secret"],
};
const OUTBOX: SalvageTable = SalvageTable {
    name: "outbox",
    rows: "SELECT num, session, cursor, time FROM outbox WHERE num BETWEEN ?1 AND ?2 ORDER BY num",
    highest: &["SELECT max(num) FROM outbox"],
};
const CONSUMERS: SalvageTable = SalvageTable {
    name: "consumer",
    rows: "SELECT rowid, name, time FROM consumer WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid",
    highest: &["SELECT max(rowid) FROM consumer"],
};

/// Copies them; every consumer has to start again, because the log is not what it was.
pub(super) fn salvage_side_tables(work: &mut SalvageRun<'_>) -> Result<()> {
    copy_small_table(work, &SECRETS, &|work, row| {
        work.out
            .prepare_cached(
                "INSERT INTO share_secret (session, secret)
                 SELECT session, ?2 FROM share WHERE session = ?1",
            )?
            .execute((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    copy_small_table(work, &OUTBOX, &|work, row| {
        let (num, session): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (cursor, time): (i64, i64) = (row.get(2)?, row.get(3)?);
        work.out
            .prepare_cached(
                "INSERT INTO outbox (num, session, cursor, time)
                 SELECT ?1, event.session, cursor, ?4 FROM event
                 JOIN session ON session.num = event.session
                 WHERE cursor = ?3 AND event.session = ?2 AND shared = 1",
            )?
            .execute((num, session, cursor, time))
    })?;
    copy_small_table(work, &CONSUMERS, &|work, row| {
        let (name, time): (String, i64) = (row.get(1)?, row.get(2)?);
        // The index of the new file is empty, and search begins at the beginning by itself.
        if name == "search" {
            return Ok(1);
        }
        work.out
            .prepare_cached(
                "INSERT INTO consumer (name, cursor, time, resync) VALUES (?1, 0, ?2, 1)",
            )?
            .execute((name, time))
    })
}
