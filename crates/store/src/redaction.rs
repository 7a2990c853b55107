//! Redaction: words are taken out of everything the database holds, and nothing else is changed (R20).
//!
//! Letters become stars, one for each byte, so that places in streamed text stay where they are. Events
//! keep their numbers and get new sums; long values get new names. Every step finds what is left, so
//! that a redaction that was cut off is repeated. Freed pages are overwritten and the write-ahead log
//! is cut back at the end.

use std::collections::BTreeSet;

use turnstone_core::call_context::Context;
use turnstone_core::time::LogCursor;

use crate::blob::{self, BlobHash};
use crate::checksum::{self, EventRow};
use crate::deletion_traces;
use crate::error::Result;
use crate::payload::parse_refs;
use crate::store::Store;
use crate::table_row_ids::{ChunkNum, PartNum};
use crate::tx::Tx;

/// Rows looked at before the next look.
const PAGE: i64 = 500;
/// How the route ends that answers with the content of a file, in the key of a stored answer.
const FILE_READ_ENDING: &str = "/file/read";
/// Events of one value that change in one transaction.
const AT_ONCE: i64 = 50;

/// What a redaction found, or took out.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RedactionReport {
    /// Events whose payload had one of the words.
    pub events: usize,
    /// Streamed texts that had.
    pub texts: usize,
    /// Long values that had.
    pub values: usize,
    /// Answers, kept for callers who repeat themselves, that had, or that hold a file as it was read.
    pub answers: usize,
}

/// Words to be taken out, in every form in which the database stores them.
#[derive(Clone, Debug, Default)]
struct RedactionTerms {
    plain: Vec<String>,
    /// As they stand in JSON, in JSON inside of JSON, and as a list of bytes; with what comes instead.
    encoded: Vec<(String, String)>,
}

impl RedactionTerms {
    fn new(words: &BTreeSet<String>) -> Self {
        let escaped = |text: &str| {
            let json = serde_json::Value::from(text).to_string();
            json[1..json.len() - 1].to_owned()
        };
        let mut written = Vec::new();
        for word in words {
            let once = escaped(word);
            let twice = escaped(&once);
            let bytes: Vec<String> = word.bytes().map(|byte| byte.to_string()).collect();
            let stars: Vec<&str> = word.bytes().map(|_| "42").collect();
            written.push((bytes.join(","), stars.join(",")));
            written.extend([twice, once].map(|form| (form.clone(), "*".repeat(form.len()))));
        }
        // What is inside of another one goes after it.
        let mut plain: Vec<String> = words.iter().cloned().collect();
        plain.sort_by_key(|word| std::cmp::Reverse(word.len()));
        written.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        Self { plain, encoded: written }
    }

    /// A text without the words, of the same length; nothing if it has none.
    fn redact_text(&self, text: &str) -> Option<String> {
        let stars = |word: &String| (word.clone(), "*".repeat(word.len()));
        replace_all(text, self.plain.iter().map(stars))
    }

    /// JSON, or a value that may hold JSON, without the words; nothing if it has none.
    fn redact_json(&self, text: &str) -> Option<String> {
        let plain = self.redact_text(text);
        let more = replace_all(plain.as_deref().unwrap_or(text), self.encoded.iter().cloned());
        more.or(plain)
    }
}

fn replace_all(text: &str, pairs: impl Iterator<Item = (String, String)>) -> Option<String> {
    let mut found: Option<String> = None;
    for (from, to) in pairs {
        let at = found.as_deref().unwrap_or(text);
        if at.contains(&from) {
            found = Some(at.replace(&from, &to));
        }
    }
    found
}

/// See [`DatabaseMaintenance::redact`](crate::DatabaseMaintenance::redact).
pub(crate) fn redact(
    store: &Store,
    ctx: &Context,
    words: &BTreeSet<String>,
    dry_run: bool,
) -> Result<RedactionReport> {
    let words = RedactionTerms::new(words);
    let answers = redact_answers(store, ctx, &words, dry_run)?;
    let mut done = RedactionReport { answers, ..RedactionReport::default() };
    if words.plain.is_empty() {
        if done.answers > 0 && !dry_run {
            deletion_traces::rewrite_database(store)?;
        }
        return Ok(done);
    }
    done.values = redact_blobs(store, ctx, &words, dry_run)?;
    fail::fail_point!("store::redacted_values");
    if !dry_run {
        remove_doomed_files(store, ctx, &words)?;
    }
    done.texts = redact_texts(store, ctx, &words, dry_run)?;
    done.events = redact_events(store, ctx, &words, dry_run)?;
    fail::fail_point!("store::redacted_events");
    if !dry_run {
        store.write(ctx, move |tx| redact_titles(tx, &words)).wait()?;
        store.session_search().rebuild(ctx)?;
        deletion_traces::rewrite_database(store)?;
    }
    Ok(done)
}

fn redact_blobs(
    store: &Store,
    ctx: &Context,
    words: &RedactionTerms,
    dry_run: bool,
) -> Result<usize> {
    let hashes: Vec<Vec<u8>> = store.read(ctx, |r| {
        let mut statement = r.conn.prepare_cached("SELECT hash FROM blob")?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
    })?;
    let mut count = 0;
    for hash in hashes {
        let Ok(hash) = <[u8; 32]>::try_from(hash.as_slice()) else { continue };
        let hash = BlobHash(hash);
        let bytes = store.read(ctx, |r| blob::load_blob(r.conn, r.blobs, &hash))?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        let Some(clean) = words.redact_json(&text) else { continue };
        count += 1;
        let mut is_left = !dry_run;
        while is_left {
            let clean = clean.clone();
            is_left = !store.write(ctx, move |tx| replace_blob(tx, &hash, &clean)).wait()?;
        }
    }
    Ok(count)
}

/// Removes the files of values that nobody refers to any more and that hold one of the words,
/// at once: who still reads one began before, and its bytes are what must go.
fn remove_doomed_files(store: &Store, ctx: &Context, words: &RedactionTerms) -> Result<()> {
    let doomed: Vec<Vec<u8>> = store.read(ctx, |r| {
        let mut statement = r.conn.prepare_cached(
            "SELECT hash FROM blob_doomed
             WHERE NOT EXISTS (SELECT 1 FROM blob WHERE blob.hash = blob_doomed.hash)",
        )?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
    })?;
    for hash in doomed {
        let Ok(hash) = <[u8; 32]>::try_from(hash.as_slice()) else { continue };
        let hash = BlobHash(hash);
        match fs_err::read_to_string(store.blobs().path(&hash)) {
            Ok(text) if words.redact_json(&text).is_some() => store.blobs().remove_file(&hash)?,
            Ok(_) => {}
            // It was never a file, or it is gone.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn redact_texts(
    store: &Store,
    ctx: &Context,
    words: &RedactionTerms,
    dry_run: bool,
) -> Result<usize> {
    let parts: Vec<PartNum> = store.read(ctx, |r| {
        let mut statement = r.conn.prepare_cached("SELECT DISTINCT part FROM chunk")?;
        Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
    })?;
    let mut count = 0;
    for part in parts {
        let rows: Vec<(ChunkNum, i64, String)> = store.read(ctx, |r| {
            let mut statement = r.conn.prepare_cached(
                "SELECT num, start, text FROM chunk WHERE part = ?1 ORDER BY start",
            )?;
            let rows =
                statement.query_map([part], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })?;
        // A word may stand across two rows.
        let whole: String = rows.iter().map(|row| row.2.as_str()).collect();
        let Some(clean) = words.redact_text(&whole) else { continue };
        count += 1;
        let mut at = 0;
        for (num, start, text) in rows {
            let now = clean.get(at..at + text.len()).unwrap_or_default().to_owned();
            at += text.len();
            if !dry_run && now != text {
                store.write(ctx, move |tx| rewrite_chunk(tx, num, part, start, &now)).wait()?;
            }
        }
    }
    Ok(count)
}

fn redact_events(
    store: &Store,
    ctx: &Context,
    words: &RedactionTerms,
    dry_run: bool,
) -> Result<usize> {
    let (mut after, mut count) = (0, 0);
    loop {
        let page: Vec<(i64, Option<String>)> = store.read(ctx, |r| {
            let mut statement = r.conn.prepare_cached(
                "SELECT cursor, payload FROM event WHERE cursor > ?1 ORDER BY cursor LIMIT ?2",
            )?;
            let rows = statement.query_map((after, PAGE), |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })?;
        let Some((last, _)) = page.last() else { return Ok(count) };
        after = *last;
        for (cursor, payload) in page {
            let Some(clean) = payload.and_then(|payload| words.redact_json(&payload)) else {
                continue;
            };
            count += 1;
            if !dry_run {
                let swap =
                    move |tx: &Tx<'_>| rewrite_event(tx, LogCursor(cursor), Some(&clean), None);
                store.write(ctx, swap).wait()?;
            }
        }
    }
}

/// Gives an event another payload or other references, and the sum of them.
fn rewrite_event(
    tx: &Tx<'_>,
    at: LogCursor,
    payload: Option<&str>,
    refs: Option<&str>,
) -> Result<()> {
    let sum = {
        let mut statement = tx.conn.prepare_cached(
            "SELECT cursor, session, seq, sync_seq, kind, entity, actor, time, version,
                    payload, refs, text_from, text_to, sum, span
             FROM event WHERE cursor = ?1",
        )?;
        let mut rows = statement.query([at.0])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let mut event = EventRow::from_row(row)?.event;
        event.payload = payload.or(event.payload);
        event.refs = refs.or(event.refs);
        event.checksum()
    };
    tx.conn
        .prepare_cached(
            "UPDATE event SET payload = coalesce(?2, payload), refs = coalesce(?3, refs),
                    sum = ?4
             WHERE cursor = ?1",
        )?
        .execute((at.0, payload, refs, sum))?;
    Ok(())
}

fn rewrite_chunk(tx: &Tx<'_>, num: ChunkNum, part: PartNum, start: i64, text: &str) -> Result<()> {
    tx.conn.prepare_cached("UPDATE chunk SET text = ?2, sum = ?3 WHERE num = ?1")?.execute((
        num,
        text,
        checksum::extend_checksum(checksum::empty_chunk_checksum(part, start), text),
    ))?;
    Ok(())
}

/// Puts another value in the place of one, in some events; true when nobody refers to it.
fn replace_blob(tx: &Tx<'_>, old: &BlobHash, clean: &str) -> Result<bool> {
    let new = BlobHash::of(clean.as_bytes());
    blob::put_blob(tx.conn, tx.blobs, &new, clean.as_bytes())?;
    let cursors: Vec<i64> = tx
        .conn
        .prepare_cached("SELECT cursor FROM blob_use WHERE hash = ?1 LIMIT ?2")?
        .query_map((&old.0[..], AT_ONCE), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for cursor in &cursors {
        let refs: Option<String> = tx
            .conn
            .prepare_cached("SELECT refs FROM event WHERE cursor = ?1")?
            .query_row([cursor], |row| row.get(0))?;
        let list =
            parse_refs(refs.as_deref())?.into_iter().map(|(pointer, hash, length)| {
                match hash == *old {
                    true => serde_json::json!([pointer, new.hex(), clean.len()]),
                    false => serde_json::json!([pointer, hash.hex(), length]),
                }
            });
        let refs = serde_json::Value::Array(list.collect()).to_string();
        rewrite_event(tx, LogCursor(*cursor), None, Some(&refs))?;
        tx.conn
            .prepare_cached("DELETE FROM blob_use WHERE hash = ?1 AND cursor = ?2")?
            .execute((&old.0[..], cursor))?;
        tx.conn
            .prepare_cached("INSERT OR IGNORE INTO blob_use (hash, cursor) VALUES (?1, ?2)")?
            .execute((&new.0[..], cursor))?;
    }
    if cursors.len() as i64 == AT_ONCE {
        return Ok(false);
    }
    tx.conn.prepare_cached("DELETE FROM blob WHERE hash = ?1")?.execute([&old.0[..]])?;
    blob::mark_for_removal(tx.conn, &old.0, tx.now())?;
    Ok(true)
}

/// Removes the answers that hold a word, and all that hold a file: what a file held when it was read may be in
/// no capture. Returns how many there are.
fn redact_answers(
    store: &Store,
    ctx: &Context,
    words: &RedactionTerms,
    dry_run: bool,
) -> Result<usize> {
    let doomed: Vec<(i64, String)> = store.read(ctx, |r| {
        let mut statement = r.conn.prepare_cached("SELECT actor, key, result FROM idempotency")?;
        let mut rows = statement.query([])?;
        let mut doomed = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, result): (String, String) = (row.get(1)?, row.get(2)?);
            let path = key.split('\t').next().unwrap_or_default();
            if path.ends_with(FILE_READ_ENDING) || words.redact_json(&result).is_some() {
                doomed.push((row.get(0)?, key));
            }
        }
        Ok(doomed)
    })?;
    let count = doomed.len();
    if count > 0 && !dry_run {
        let remove = move |tx: &Tx<'_>| {
            let mut statement =
                tx.conn.prepare_cached("DELETE FROM idempotency WHERE actor = ?1 AND key = ?2")?;
            doomed.iter().try_for_each(|(actor, key)| statement.execute((actor, key)).map(drop))?;
            Ok(())
        };
        store.write(ctx, remove).wait()?;
    }
    Ok(count)
}

/// The titles of sessions.
fn redact_titles(tx: &Tx<'_>, words: &RedactionTerms) -> Result<()> {
    let titles: Vec<(i64, String)> = tx
        .conn
        .prepare_cached("SELECT num, title FROM session")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (num, title) in titles {
        if let Some(clean) = words.redact_text(&title) {
            tx.conn
                .prepare_cached("UPDATE session SET title = ?2 WHERE num = ?1")?
                .execute((num, clean))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_masked_in_plain_json_and_byte_forms() {
        let words = RedactionTerms::new(&["se\"cret".to_owned(), "se\"cret-two".to_owned()].into());
        assert_eq!(words.redact_text("a se\"cret-two b").as_deref(), Some("a *********** b"));
        assert_eq!(words.redact_text("nothing"), None);
        let once = serde_json::json!({ "a": "se\"cret" }).to_string();
        let twice = serde_json::json!({ "whole": once }).to_string();
        for json in [&once, &twice] {
            let clean = words.redact_json(json).expect("found");
            assert!(!clean.contains("cret"), "{clean}");
            assert!(serde_json::from_str::<serde_json::Value>(&clean).is_ok(), "{clean}");
        }
        let bytes = serde_json::json!({ "merges": ["se\"cret".as_bytes()] }).to_string();
        assert_eq!(
            words.redact_json(&bytes).as_deref(),
            Some("{\"merges\":[[42,42,42,42,42,42,42]]}")
        );
    }
}
