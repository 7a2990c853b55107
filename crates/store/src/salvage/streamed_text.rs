//! Streamed text: rows proved by their sums, and parts whose text is not all there.

use serde::Deserialize;
use turnstone_core::event::EventKind;

use super::SalvageRun;
use super::range_reader::{self, RowVerdict, SalvageTable};
use crate::blob::BlobHash;
use crate::checksum;
use crate::error::Result;
use crate::table_row_ids::PartNum;

const CHUNKS: SalvageTable = SalvageTable {
    name: "chunk",
    rows: "SELECT num, part, start, text, sum FROM chunk WHERE num BETWEEN ?1 AND ?2 ORDER BY num",
    highest: &["SELECT max(num) FROM chunk"],
};

/// Takes the sound rows, and of each part those that follow each other from its beginning.
pub(super) fn salvage_chunks(work: &mut SalvageRun<'_>) -> Result<()> {
    let counts = range_reader::read_table(work.source, &CHUNKS, &mut |row| {
        let (Ok(num), Ok(part), Ok(start), Ok(text), Ok(stored)) = (
            row.get::<_, i64>(0),
            row.get::<_, i64>(1),
            row.get::<_, i64>(2),
            row.get::<_, String>(3),
            row.get::<_, Option<i64>>(4),
        ) else {
            return Ok(RowVerdict::Damaged);
        };
        let expected =
            checksum::extend_checksum(checksum::empty_chunk_checksum(PartNum(part), start), &text);
        if stored.is_some_and(|sum| sum != expected) {
            return Ok(RowVerdict::Damaged);
        }
        let added = work
            .out
            .prepare_cached(
                "INSERT OR IGNORE INTO chunk (num, part, start, text, sum)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((num, part, start, text, stored))?;
        Ok(if added == 1 { RowVerdict::Sound } else { RowVerdict::Damaged })
    })?;
    work.done.tables.push(counts);
    work.out.execute_batch(
        "DELETE FROM chunk WHERE part NOT IN (SELECT entity FROM event WHERE session IS NOT NULL);
         DELETE FROM chunk WHERE num IN (
           SELECT num FROM (
             SELECT num, start, coalesce(sum(octet_length(text)) OVER (
               PARTITION BY part ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
             ), 0) AS before FROM chunk)
           WHERE start <> before)",
    )?;
    Ok(())
}

/// An event that says what a part's text is.
struct TextEvent {
    cursor: i64,
    /// How much of the streamed text is shown, and the hash of it where it was sealed; nothing if
    /// the text is in the event itself.
    shown: Option<(i64, Option<String>)>,
}

#[derive(Deserialize)]
struct SalvagedPartImage {
    text: Option<SalvagedTextRef>,
}

#[derive(Deserialize)]
struct SalvagedTextRef {
    len: i64,
    hash: String,
}

/// Finds the events that show text which is not there any more; without them the part shows what
/// it showed before.
pub(super) fn find_events_without_text(work: &mut SalvageRun<'_>) -> Result<Vec<i64>> {
    let mut statement = work.out.prepare(
        "SELECT DISTINCT entity FROM event
         WHERE text_to IS NOT NULL OR payload ->> '$.text.len' IS NOT NULL",
    )?;
    let parts: Vec<i64> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut given_up = Vec::new();
    for part in parts {
        let text = load_text(work, part)?;
        let mut steps = text_events(work, part)?;
        while let Some(step) = steps.pop() {
            if is_text_present(&text, &step) {
                break;
            }
            given_up.push(step.cursor);
        }
    }
    Ok(given_up)
}

fn load_text(work: &SalvageRun<'_>, part: i64) -> Result<String> {
    let mut statement =
        work.out.prepare_cached("SELECT text FROM chunk WHERE part = ?1 ORDER BY start")?;
    let rows = statement.query_map([part], |row| row.get::<_, String>(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn text_events(work: &SalvageRun<'_>, part: i64) -> Result<Vec<TextEvent>> {
    let mut statement = work.out.prepare_cached(
        "SELECT cursor, text_to, payload FROM event
         WHERE entity = ?1 AND session IS NOT NULL AND kind IN (?2, ?3)
           AND (text_to IS NOT NULL OR payload IS NOT NULL) ORDER BY cursor",
    )?;
    let kinds = (EventKind::PartUpdated.code(), EventKind::PartDelta.code());
    let mut rows = statement.query((part, kinds.0, kinds.1))?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        let shown = match (row.get::<_, Option<i64>>(1)?, row.get::<_, Option<String>>(2)?) {
            (Some(to), _) => Some((to, None)),
            (None, Some(json)) => {
                let head = serde_json::from_str::<SalvagedPartImage>(&json)?;
                head.text.map(|sealed| (sealed.len, Some(sealed.hash)))
            }
            (None, None) => None,
        };
        steps.push(TextEvent { cursor: row.get(0)?, shown });
    }
    Ok(steps)
}

fn is_text_present(text: &str, step: &TextEvent) -> bool {
    let Some((len, hash)) = &step.shown else {
        return true;
    };
    let shown = usize::try_from(*len).ok().and_then(|len| text.get(..len));
    let same =
        |text: &str| hash.as_ref().is_none_or(|hash| BlobHash::of(text.as_bytes()).hex() == *hash);
    shown.is_some_and(same)
}
