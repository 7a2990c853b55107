//! The log and what it stands on: events, sequences, large values and streamed text.

use std::collections::HashSet;

use serde::Deserialize;
use turnstone_core::event::EventKind;

use super::data_dir_check::for_each_file;
use super::{CheckContext, DiagnosisBuilder, display_path, remedy};
use crate::blob::{self, BlobHash};
use crate::checksum::{self, EventRow};
use crate::error::Result;
use crate::payload::parse_refs;
use crate::read::load_part_text;
use crate::table_row_ids::PartNum;

/// Every event is what was stored, and the values it refers to are there.
pub(super) fn check_events(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> Result<()> {
    let mut statement = exam.conn.prepare(
        "SELECT cursor, session, seq, sync_seq, kind, entity, actor, time, version, payload, refs,
                text_from, text_to, sum, span, (SELECT 1 FROM actor WHERE num = event.actor)
         FROM event ORDER BY cursor",
    )?;
    let mut used = exam
        .conn
        .prepare("SELECT 1 FROM blob JOIN blob_use USING (hash) WHERE hash = ?1 AND cursor = ?2")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        report.diagnosis.events += 1;
        let found = EventRow::from_row(row)?;
        let place = format!("event {}", found.event.cursor);
        if !found.is_intact() {
            report.error("does not match its check sum".to_owned(), place, remedy::SALVAGE);
            continue;
        }
        if EventKind::from_code(found.event.kind).is_none() {
            let what = format!("is of the unknown kind {}", found.event.kind);
            report.error(what, place.clone(), remedy::SALVAGE);
        }
        if row.get::<_, Option<i64>>(15)?.is_none() {
            report.error(
                "names an actor that does not exist".to_owned(),
                place.clone(),
                remedy::SALVAGE,
            );
        }
        for (_, hash, _) in parse_refs(found.event.refs)? {
            if !used.exists((&hash.0[..], found.event.cursor))? {
                let what = format!("refers to the value {}, which is missing", hash.hex());
                report.error(what, place.clone(), remedy::SALVAGE);
            }
        }
    }
    Ok(())
}

/// Every stream counts 1, 2, 3 … to where it stands; a stub stands for all the numbers of its span.
pub(super) fn check_sequences(
    exam: &CheckContext<'_>,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    let mut streams = exam
        .conn
        .prepare("SELECT session, id, seq FROM stream WHERE deleted = 0 ORDER BY session")?;
    let mut events =
        exam.conn.prepare("SELECT seq, span, cursor FROM event WHERE session = ?1 ORDER BY seq")?;
    let mut rows = streams.query([])?;
    while let Some(row) = rows.next()? {
        let (session, id, end): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let place = format!("session {id}");
        let (mut last, mut newest) = (0, 0);
        let mut found = events.query([session])?;
        while let Some(event) = found.next()? {
            let (seq, span, cursor): (i64, i64, i64) =
                (event.get(0)?, event.get(1)?, event.get(2)?);
            if seq - span != last || cursor <= newest {
                let what = format!("number {} does not follow {last}", seq - span + 1);
                report.error(what, place.clone(), remedy::SALVAGE);
            }
            (last, newest) = (seq, cursor);
        }
        if last != end {
            let what = format!("the stream stands at {end}, its last event is number {last}");
            report.error(what, place, remedy::SALVAGE);
        }
    }
    let strays: i64 = exam.conn.query_row(
        "SELECT count(*) FROM event LEFT JOIN stream USING (session)
         WHERE session IS NOT NULL AND stream.id IS NULL",
        [],
        |row| row.get(0),
    )?;
    if strays > 0 {
        report.error(format!("{strays} events of no session"), "event", remedy::SALVAGE);
    }
    Ok(())
}

/// Every large value is what its hash says.
pub(super) fn check_blobs(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> Result<()> {
    let mut statement = exam.conn.prepare(
        "SELECT hash, size, octet_length(data),
           NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.hash = blob.hash)
           AND NOT EXISTS (SELECT 1 FROM blob_doomed WHERE blob_doomed.hash = blob.hash)
         FROM blob",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(0)?;
        let Ok(hash) = <[u8; 32]>::try_from(bytes).map(BlobHash) else {
            report.error("has a hash of the wrong length".to_owned(), "blob", remedy::SALVAGE);
            continue;
        };
        let place = format!("value {}", hash.hex());
        let (size, inside): (i64, Option<i64>) = (row.get(1)?, row.get(2)?);
        match blob::load_blob(exam.conn, exam.blobs, &hash) {
            Err(error) => report.error(error.to_string(), place.clone(), remedy::SALVAGE),
            Ok(_) if inside.is_some_and(|len| len != size) => {
                report.error("has the wrong size".to_owned(), place.clone(), remedy::SALVAGE);
            }
            Ok(_) => {}
        }
        if row.get(3)? {
            report.warning("is used by no event".to_owned(), place, remedy::COMPACT);
        }
    }
    Ok(())
}

/// Files in the folder of large values that no row knows.
pub(super) fn check_blob_files(
    exam: &CheckContext<'_>,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    let mut statement = exam.conn.prepare("SELECT hash FROM blob WHERE data IS NULL")?;
    let mut known = HashSet::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Ok(hash) = <[u8; 32]>::try_from(row.get::<_, Vec<u8>>(0)?) {
            known.insert(exam.blobs.path(&BlobHash(hash)));
        }
    }
    for_each_file(&exam.layout.blobs(), &mut |path, _| {
        let temp = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(".new-"));
        if !temp && !known.contains(path) {
            let what = "belongs to no stored value (it may be one being written)".to_owned();
            report.note("files", what, display_path(path), remedy::COMPACT);
        }
    })
}

/// What a part's newest image says about its streamed text.
#[derive(Deserialize)]
struct CheckedPartImage {
    text: Option<CheckedTextRef>,
}

#[derive(Deserialize)]
struct CheckedTextRef {
    len: i64,
    hash: String,
}

/// Streamed text is all there, and what was sealed is what is stored.
pub(super) fn check_texts(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> Result<()> {
    check_chunks(exam, report)?;
    let mut statement = exam.conn.prepare(
        "SELECT part.num, part.id, text_len, event.payload FROM part
         LEFT JOIN event ON event.cursor = part.image WHERE text_len IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (num, id, len): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let place = format!("part {id}");
        let text = match load_part_text(exam.conn, PartNum(num), len) {
            Ok(text) => text,
            Err(error) => {
                report.error(error.to_string(), place, remedy::SALVAGE);
                continue;
            }
        };
        let Some(json) = row.get::<_, Option<String>>(3)? else {
            continue;
        };
        let Some(sealed) = serde_json::from_str::<CheckedPartImage>(&json)?.text else {
            continue;
        };
        let end = usize::try_from(sealed.len).unwrap_or(usize::MAX);
        let kept = text.get(..end).map(|text| BlobHash::of(text.as_bytes()).hex());
        if kept.as_deref() != Some(sealed.hash.as_str()) {
            report.error(
                "its text is not the one that was sealed".to_owned(),
                place,
                remedy::SALVAGE,
            );
        }
    }
    Ok(())
}

/// The rows of streamed text match their sums and follow each other.
fn check_chunks(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) -> Result<()> {
    let mut statement =
        exam.conn.prepare("SELECT num, part, start, text, sum FROM chunk ORDER BY part, start")?;
    let mut rows = statement.query([])?;
    let (mut before, mut end) = (0, 0);
    while let Some(row) = rows.next()? {
        let (num, part, start): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let text = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
        if part != before {
            (before, end) = (part, 0);
        }
        let expected =
            checksum::extend_checksum(checksum::empty_chunk_checksum(PartNum(part), start), text);
        if row.get::<_, Option<i64>>(4)?.is_some_and(|sum| sum != expected) {
            let what = "does not match its check sum".to_owned();
            report.error(what, format!("chunk {num} of part {part}"), remedy::SALVAGE);
        }
        if start != end {
            let what = format!("begins at {start}, the one before ends at {end}");
            report.error(what, format!("chunk {num} of part {part}"), remedy::SALVAGE);
        }
        end = start + text.len() as i64;
    }
    Ok(())
}
