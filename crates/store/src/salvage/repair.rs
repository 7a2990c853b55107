//! The salvaged log made whole: projects that are only referred to, events that do not apply, and
//! values that nothing uses any more.

use std::collections::BTreeSet;

use serde_json::json;
use turnstone_core::event::EventKind;
use turnstone_core::model::SCHEMA_VERSION;

use super::SalvageRun;
use crate::blob::BlobHash;
use crate::checksum::ChecksummedEvent;
use crate::error::Result;
use crate::projection;
use crate::replay::{self, ReplayLimit, ReplayPosition};

/// A session needs its project. A lost one is rebuilt from what its sessions say about it.
pub(super) fn recreate_lost_projects(work: &mut SalvageRun<'_>) -> Result<()> {
    let mut statement = work.out.prepare(
        "SELECT payload ->> '$.projectID', min(cursor), payload ->> '$.directory', actor, time
         FROM event WHERE kind IN (?1, ?2) AND payload IS NOT NULL
           AND payload ->> '$.projectID' NOT IN
             (SELECT payload ->> '$.id' FROM event WHERE kind = ?3 AND payload IS NOT NULL)
         GROUP BY 1",
    )?;
    let codes = (
        EventKind::SessionCreated.code(),
        EventKind::SessionUpdated.code(),
        EventKind::ProjectUpdated.code(),
    );
    let mut rows = statement.query(codes)?;
    while let Some(row) = rows.next()? {
        let (id, directory): (String, String) = (row.get(0)?, row.get(2)?);
        let (actor, time): (i64, i64) = (row.get(3)?, row.get(4)?);
        let payload = json!({"id": id, "worktree": directory,
            "time": {"created": time, "updated": time}, "sandboxes": []})
        .to_string();
        // Its own event is missing, so there is a free cursor before the session's.
        let cursor: i64 = work.out.query_row(
            "SELECT cursor - 1 FROM event WHERE cursor <= ?1 AND cursor > 1 AND NOT EXISTS
               (SELECT 1 FROM event AS before WHERE before.cursor = event.cursor - 1)
             UNION ALL SELECT max(cursor) + 1 FROM event
             LIMIT 1",
            [row.get::<_, i64>(1)?],
            |row| row.get(0),
        )?;
        let event = ChecksummedEvent {
            cursor,
            session: None,
            seq: None,
            sync_seq: None,
            kind: EventKind::ProjectUpdated.code(),
            entity: cursor,
            actor,
            time,
            version: i64::from(SCHEMA_VERSION),
            payload: Some(&payload),
            refs: None,
            text: None,
        };
        work.out
            .prepare_cached(
                "INSERT INTO event (cursor, kind, entity, actor, time, version, payload, sum)
                 VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute((
                cursor,
                event.kind,
                actor,
                time,
                event.version,
                &payload,
                event.checksum(),
            ))?;
    }
    Ok(())
}

/// Makes the projections of the salvaged log; returns the events that do not apply, because what
/// they follow from is missing.
pub(super) fn replay_salvaged_log(work: &mut SalvageRun<'_>) -> Result<Vec<i64>> {
    let mut refused = Vec::new();
    replay::replay_log(
        work.out,
        ReplayPosition::default(),
        ReplayLimit::NONE,
        &mut |conn, event| {
            conn.prepare_cached("SAVEPOINT salvage")?.execute([])?;
            if projection::apply_event(conn, event).is_err() {
                refused.push(event.cursor);
                conn.prepare_cached("ROLLBACK TO salvage")?.execute([])?;
            }
            conn.prepare_cached("RELEASE salvage")?.execute([])?;
            Ok(())
        },
    )?;
    Ok(refused)
}

/// Makes stubs of events, and counts them as missing.
pub(super) fn stub_events(work: &mut SalvageRun<'_>, cursors: &[i64]) -> Result<()> {
    for cursor in cursors.iter().copied().collect::<BTreeSet<_>>() {
        let session: Option<i64> = work
            .out
            .prepare_cached(
                "UPDATE event SET payload = NULL, refs = NULL, text_from = NULL, text_to = NULL,
                                  sum = NULL
                 WHERE cursor = ?1 RETURNING session",
            )?
            .query_row([cursor], |row| row.get(0))?;
        if let Some(stream) = session.and_then(|session| work.streams.get_mut(&session)) {
            stream.missing += 1;
        }
    }
    Ok(())
}

/// Removes what nothing refers to.
pub(super) fn prune_unreferenced(work: &mut SalvageRun<'_>) -> Result<()> {
    work.out.execute_batch(
        "DELETE FROM blob_use WHERE cursor NOT IN
           (SELECT cursor FROM event WHERE refs IS NOT NULL);
         DELETE FROM chunk WHERE part NOT IN (SELECT entity FROM event WHERE session IS NOT NULL);
         DELETE FROM actor WHERE num NOT IN (SELECT actor FROM event);",
    )?;
    let mut statement = work.out.prepare(
        "DELETE FROM blob WHERE hash NOT IN (SELECT hash FROM blob_use) RETURNING hash, data IS NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let hash: Vec<u8> = row.get(0)?;
        if let (true, Ok(hash)) = (row.get(1)?, <[u8; 32]>::try_from(hash)) {
            work.to.remove_file(&BlobHash(hash))?;
        }
    }
    Ok(())
}
