//! Sessions: which are left, which are gone, and stubs for what is missing of their streams.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{OptionalExtension, params};
use turnstone_core::event::EventKind;
use turnstone_core::time::SessionSeq;

use super::range_reader::{self, RowVerdict, SalvageTable};
use super::{DamagedSession, SalvageRun, TableSalvageCounts};
use crate::error::{Result, StoreError};

/// More missing numbers than this at the end of a stream are a damaged figure, not missing events.
const PLAUSIBLE_END: i64 = 100_000;

/// What the damaged file holds of a stream.
#[derive(Clone, Debug)]
struct ListedStream {
    id: String,
    seq: i64,
    sync_seq: i64,
    epoch: i64,
    deleted: bool,
}

/// A live session.
#[derive(Clone, Debug)]
pub(super) struct SalvagedStream {
    id: String,
    listed: Option<ListedStream>,
    /// Events that are missing or were given up.
    pub(super) missing: u64,
    open_end: bool,
}

const STREAMS: SalvageTable = SalvageTable {
    name: "stream",
    rows: "SELECT session, id, seq, sync_seq, epoch, deleted FROM stream
           WHERE session BETWEEN ?1 AND ?2 ORDER BY session",
    highest: &["SELECT max(session) FROM stream", "SELECT max(cursor) FROM event"],
};
const SESSIONS: SalvageTable = SalvageTable {
    name: "session",
    rows: "SELECT num, id FROM session WHERE num BETWEEN ?1 AND ?2 ORDER BY num",
    highest: &["SELECT max(num) FROM session"],
};
const PURGES: SalvageTable = SalvageTable {
    name: "purge",
    rows: "SELECT session FROM purge WHERE session BETWEEN ?1 AND ?2 ORDER BY session",
    highest: &["SELECT max(session) FROM purge"],
};

/// Decides which sessions live and writes their streams; the events say who they are, the stream
/// table only how far they went.
pub(super) fn salvage_streams(work: &mut SalvageRun<'_>) -> Result<()> {
    let mut listed = BTreeMap::new();
    let counts = range_reader::read_table(work.source, &STREAMS, &mut |row| {
        let fields = || -> rusqlite::Result<(i64, ListedStream)> {
            let found = ListedStream {
                id: row.get(1)?,
                seq: row.get(2)?,
                sync_seq: row.get(3)?,
                epoch: row.get(4)?,
                deleted: row.get(5)?,
            };
            Ok((row.get(0)?, found))
        };
        let Ok((session, found)) = fields() else {
            return Ok(RowVerdict::Damaged);
        };
        listed.insert(session, found);
        Ok(RowVerdict::Sound)
    })?;
    work.done.tables.push(counts);
    let mut purged = BTreeSet::new();
    range_reader::read_table(work.source, &PURGES, &mut |row| {
        purged.extend(row.get::<_, i64>(0).ok());
        Ok(RowVerdict::Sound)
    })?;
    let mut known: BTreeSet<i64> = listed.keys().copied().collect();
    let mut statement =
        work.out.prepare("SELECT DISTINCT session FROM event WHERE session IS NOT NULL")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        known.insert(row.get(0)?);
    }
    let names = session_ids(work)?;
    known.extend(names.keys());
    for session in known {
        let (listed, gone) = (listed.remove(&session), purged.contains(&session));
        classify_session(work, session, listed, gone, names.get(&session))?;
    }
    Ok(())
}

/// The ids by which the session table knew sessions; good for naming what is lost.
fn session_ids(work: &SalvageRun<'_>) -> Result<BTreeMap<i64, String>> {
    let mut names = BTreeMap::new();
    range_reader::read_table(work.source, &SESSIONS, &mut |row| {
        if let (Ok(num), Ok(id)) = (row.get(0), row.get(1)) {
            names.insert(num, id);
        }
        Ok(RowVerdict::Sound)
    })?;
    Ok(names)
}

fn classify_session(
    work: &mut SalvageRun<'_>,
    session: i64,
    listed: Option<ListedStream>,
    purged: bool,
    name: Option<&String>,
) -> Result<()> {
    let id = id_from_events(work, session)?;
    let tombstone: Option<Option<String>> = work
        .out
        .prepare_cached("SELECT payload ->> '$.id' FROM event WHERE kind = ?1 AND entity = ?2")?
        .query_row((EventKind::SessionDeleted.code(), session), |row| row.get(0))
        .optional()?;
    let listed_gone = listed.as_ref().is_some_and(|l| l.deleted) && id.is_none();
    let old_id = listed.as_ref().map(|l| l.id.clone());
    if tombstone.is_some() || purged || listed_gone {
        let id = id.or(tombstone.flatten()).or(old_id);
        return keep_tombstone(work, session, id, listed.as_ref());
    }
    match id {
        Some(id) => insert_live_stream(work, session, id, listed),
        None => {
            let name = old_id.or_else(|| name.cloned());
            drop_session(work, session, name)
        }
    }
}

/// The id of a session as its newest image says it.
fn id_from_events(work: &SalvageRun<'_>, session: i64) -> Result<Option<String>> {
    let stored: Option<Option<String>> = work
        .out
        .prepare_cached(
            "SELECT payload ->> '$.id' FROM event
             WHERE session = ?1 AND kind IN (?2, ?3) AND payload IS NOT NULL
             ORDER BY seq DESC LIMIT 1",
        )?
        .query_row(
            (session, EventKind::SessionCreated.code(), EventKind::SessionUpdated.code()),
            |row| row.get(0),
        )
        .optional()?;
    Ok(stored.flatten())
}

/// A deleted session stays deleted: its id is used up, and its tombstone is all that is left.
fn keep_tombstone(
    work: &SalvageRun<'_>,
    session: i64,
    id: Option<String>,
    listed: Option<&ListedStream>,
) -> Result<()> {
    work.out
        .prepare_cached("DELETE FROM event WHERE session = ?1 AND kind <> ?2")?
        .execute((session, EventKind::SessionDeleted.code()))?;
    let Some(id) = id else {
        work.out.prepare_cached("DELETE FROM event WHERE session = ?1")?.execute([session])?;
        return Ok(());
    };
    let seq: Option<i64> = work
        .out
        .prepare_cached("SELECT max(seq) FROM event WHERE session = ?1")?
        .query_row([session], |row| row.get(0))?;
    // As after a purge: the numbers before the tombstone are one stub.
    work.out
        .prepare_cached(
            "INSERT INTO event (cursor, session, seq, kind, entity, actor, time, version, span)
             SELECT ?1, ?1, seq - 1, ?2, ?1, actor, time, version, seq - 1 FROM event
             WHERE session = ?1 AND seq > 1 AND cursor > ?1 ORDER BY seq LIMIT 1",
        )?
        .execute((session, EventKind::SessionCreated.code()))?;
    let seq = seq.or(listed.map(|l| l.seq)).unwrap_or(0);
    work.out
        .prepare_cached(
            "INSERT OR IGNORE INTO stream (session, id, seq, deleted) VALUES (?1, ?2, ?3, 1)",
        )?
        .execute((session, id, seq))?;
    Ok(())
}

fn insert_live_stream(
    work: &mut SalvageRun<'_>,
    session: i64,
    id: String,
    listed: Option<ListedStream>,
) -> Result<()> {
    // The owner is gone; with a higher epoch nobody can mistake an old lease for a new one.
    let epoch = listed.as_ref().map_or(0, |l| l.epoch).clamp(0, i64::MAX - 1) + 1;
    let added = work
        .out
        .prepare_cached("INSERT OR IGNORE INTO stream (session, id, epoch) VALUES (?1, ?2, ?3)")?
        .execute((session, &id, epoch))?;
    if added == 0 {
        return drop_session(work, session, Some(id));
    }
    work.streams.insert(session, SalvagedStream { id, listed, missing: 0, open_end: false });
    Ok(())
}

/// Too little is left of a session to show it. Its id can be used again, by an import for example.
fn drop_session(work: &mut SalvageRun<'_>, session: i64, name: Option<String>) -> Result<()> {
    work.out.prepare_cached("DELETE FROM event WHERE session = ?1")?.execute([session])?;
    work.out.prepare_cached("DELETE FROM stream WHERE session = ?1")?.execute([session])?;
    work.done.lost.push(name.unwrap_or_else(|| format!("number {session}")));
    Ok(())
}

/// Gives up the streams whose session could not be made from the log.
pub(super) fn drop_streams_without_session(work: &mut SalvageRun<'_>) -> Result<()> {
    let nums: Vec<i64> = work.streams.keys().copied().collect();
    for session in nums {
        let shown =
            work.out.prepare_cached("SELECT 1 FROM session WHERE num = ?1")?.exists([session])?;
        if !shown {
            let name = work.streams.remove(&session).map(|stream| stream.id);
            drop_session(work, session, name)?;
        }
    }
    Ok(())
}

/// A row of a stream.
#[derive(Clone, Copy)]
struct StreamRow {
    cursor: i64,
    seq: i64,
    span: i64,
    sync: Option<i64>,
    stub: bool,
}

/// Numbers of a stream that nothing stands for.
struct SequenceGap {
    session: i64,
    /// The first missing number and the last.
    seq: (i64, i64),
    /// The cursors between which it lies, both excluded.
    between: (i64, i64),
    sync: Option<i64>,
}

/// Puts stubs where numbers are missing, and tells the streams where they stand.
pub(super) fn fill_gaps(work: &mut SalvageRun<'_>) -> Result<()> {
    let mut holes = Vec::new();
    let mut streams = std::mem::take(&mut work.streams);
    for (session, stream) in &mut streams {
        remove_stray_stubs(work, *session)?;
        let places = stream_rows(work, *session)?;
        find_gaps(*session, stream, &places, &mut holes);
        let last_sync: Option<i64> = places.iter().filter_map(|p| p.sync).max();
        let (seq, sync) = stream
            .end_seqs(SessionSeq(places.last().map_or(0, |p| p.seq)), last_sync.unwrap_or(-1));
        work.out
            .prepare_cached("UPDATE stream SET seq = ?2, sync_seq = ?3 WHERE session = ?1")?
            .execute((session, seq, sync))?;
    }
    work.streams = streams;
    // Those that must lie before the lowest cursor choose first, and take the lowest they can: so
    // none takes the last free place of another.
    holes.sort_by_key(|hole| hole.between.1);
    holes.iter().try_for_each(|hole| insert_stub(work, hole))
}

impl SalvagedStream {
    /// Where the stream ends: further than its last event if that is what the file says.
    fn end_seqs(&mut self, SessionSeq(last): SessionSeq, sync: i64) -> (i64, i64) {
        let plausible =
            |l: &&ListedStream| (0..=PLAUSIBLE_END).contains(&l.seq.saturating_sub(last));
        let Some(listed) = self.listed.as_ref().filter(plausible) else {
            self.open_end = true;
            return (last, sync);
        };
        if listed.seq == last {
            return (last, sync);
        }
        let most = sync + (listed.seq - last);
        (listed.seq, listed.sync_seq.clamp(sync, most))
    }
}

fn stream_rows(work: &SalvageRun<'_>, session: i64) -> Result<Vec<StreamRow>> {
    let mut statement = work.out.prepare_cached(
        "SELECT cursor, seq, span, sync_seq, payload IS NULL AND text_to IS NULL AND sum IS NULL
         FROM event WHERE session = ?1 ORDER BY seq",
    )?;
    let rows = statement.query_map([session], |row| {
        Ok(StreamRow {
            cursor: row.get(0)?,
            seq: row.get(1)?,
            span: row.get(2)?,
            sync: row.get(3)?,
            stub: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Stubs have no check sum. One that does not fit between the events around it is removed.
fn remove_stray_stubs(work: &SalvageRun<'_>, session: i64) -> Result<()> {
    let places = stream_rows(work, session)?;
    let mut last = StreamRow { cursor: session - 1, seq: 0, span: 1, sync: None, stub: false };
    for (index, place) in places.iter().enumerate() {
        let next = places[index + 1..].iter().find(|next| !next.stub);
        let follows = place.cursor > last.cursor
            && place.seq - place.span >= last.seq
            && place.seq - last.seq <= place.cursor - last.cursor;
        let precedes = next.is_none_or(|n| place.seq < n.seq && place.cursor < n.cursor);
        if place.stub && !(follows && precedes) {
            work.out
                .prepare_cached("DELETE FROM event WHERE cursor = ?1")?
                .execute([place.cursor])?;
        } else {
            last = *place;
        }
    }
    Ok(())
}

fn find_gaps(
    session: i64,
    stream: &mut SalvagedStream,
    places: &[StreamRow],
    holes: &mut Vec<SequenceGap>,
) {
    let (mut seq, mut cursor, mut sync) = (0, session - 1, -1);
    for (index, place) in places.iter().enumerate() {
        if place.seq - place.span > seq {
            // The numbers of OpenCode's types that are missing go with the first hole they can.
            let next = places[index..].iter().find_map(|p| p.sync);
            let lost = next.filter(|next| *next > sync + 1).map(|next| next - 1);
            sync = lost.unwrap_or(sync);
            let low = seq + 1;
            let high = place.seq - place.span;
            let between = (cursor, place.cursor);
            holes.push(SequenceGap { session, seq: (low, high), between, sync: lost });
            stream.missing += u64::try_from(high - seq).unwrap_or(0);
        }
        (seq, cursor, sync) = (place.seq, place.cursor, place.sync.unwrap_or(sync));
    }
    let (end, end_sync) = stream.end_seqs(SessionSeq(seq), sync);
    if end > seq {
        let lost = (end_sync > sync).then_some(end_sync);
        let between = (cursor, i64::MAX);
        holes.push(SequenceGap { session, seq: (seq + 1, end), between, sync: lost });
        stream.missing += u64::try_from(end - seq).unwrap_or(0);
    }
}

/// Puts a stub into a hole, at a cursor that nothing has: those of the missing events are free.
///
/// Where the event that first named something is lost, the stub in its place says who wrote it, so
/// that a rebuild reads the same.
fn insert_stub(work: &SalvageRun<'_>, hole: &SequenceGap) -> Result<()> {
    let (low, high) = hole.between;
    let taken =
        work.out.prepare_cached("SELECT 1 FROM event WHERE cursor = ?1")?.exists([low + 1])?;
    let cursor = if taken {
        work.out
            .prepare_cached(
                "SELECT cursor + 1 FROM event WHERE cursor > ?1 AND NOT EXISTS
                   (SELECT 1 FROM event AS next WHERE next.cursor = event.cursor + 1)
                 ORDER BY cursor LIMIT 1",
            )?
            .query_row([low], |row| row.get(0))?
    } else {
        low + 1
    };
    if cursor >= high {
        let why = format!("no place for a stub of session {} at {:?}", hole.session, hole.seq);
        return Err(StoreError::Internal(why));
    }
    work.out
        .prepare_cached(
            "INSERT INTO event (cursor, session, seq, sync_seq, kind, entity, actor, time, version,
                                span)
             SELECT ?1, ?2, ?3, ?4, ?5, ?2,
                    coalesce((SELECT actor FROM message WHERE num = ?1),
                             (SELECT actor FROM session WHERE num = ?1), max(actor), 1), ?6, 1, ?7
             FROM (SELECT actor FROM event WHERE session = ?2 ORDER BY seq LIMIT 1)",
        )?
        .execute(params![
            cursor,
            hole.session,
            hole.seq.1,
            hole.sync,
            EventKind::SessionUpdated.code(),
            work.now.0,
            hole.seq.1 - hole.seq.0 + 1,
        ])?;
    Ok(())
}

/// Says how each session came through.
pub(super) fn report_sessions(work: &mut SalvageRun<'_>) {
    for stream in work.streams.values() {
        let id = stream.id.clone();
        if stream.missing == 0 && !stream.open_end {
            work.done.complete.push(id);
        } else {
            let (events, open_end) = (stream.missing, stream.open_end);
            work.done.damaged.push(DamagedSession { id, events, open_end });
        }
    }
}

/// Copies a table of a few columns that is not part of the log.
pub(super) fn copy_small_table(
    work: &mut SalvageRun<'_>,
    table: &SalvageTable,
    each: &dyn Fn(&SalvageRun<'_>, &rusqlite::Row<'_>) -> rusqlite::Result<usize>,
) -> Result<()> {
    let counts: TableSalvageCounts = range_reader::read_table(work.source, table, &mut |row| {
        // What does not fit is damaged, whatever the reason.
        let taken = each(work, row).is_ok_and(|rows| rows == 1);
        Ok(if taken { RowVerdict::Sound } else { RowVerdict::Damaged })
    })?;
    work.done.tables.push(counts);
    Ok(())
}
