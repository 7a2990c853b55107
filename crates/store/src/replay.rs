//! The log read again: every retained event applied again, by the function that applied it first.
//!
//! Goes in passes, because compaction may leave an entity's only image later in the log than the
//! things that refer to it: what is referred to comes in an earlier pass. Within a pass the order
//! is the log's. Events of deleted sessions and stubs are passed over.

use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use turnstone_core::event::{EntityClass, EventKind};

use crate::error::{Result, StoreError};
use crate::projection::ProjectionEvent;

/// Which classes are read together; the order is that of [`EntityClass::ALL`].
const PASSES: &[&[EntityClass]] = &[
    &[EntityClass::Project],
    &[EntityClass::Session],
    &[EntityClass::Message],
    &[
        EntityClass::Part,
        EntityClass::Todo,
        EntityClass::Turn,
        EntityClass::Request,
        EntityClass::Approval,
        EntityClass::Input,
        EntityClass::Share,
        EntityClass::Diff,
        EntityClass::Change,
        EntityClass::Operation,
    ],
    &[EntityClass::Status],
];

/// How far a replay has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayPosition {
    /// The pass.
    pub(crate) pass: usize,
    /// The last event read in it.
    pub(crate) cursor: i64,
}

/// When to stop for a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayLimit {
    /// Rows changed.
    pub(crate) rows: u64,
    /// Payload bytes read.
    pub(crate) bytes: u64,
}

impl ReplayLimit {
    /// Never.
    pub(crate) const NONE: Self = Self { rows: u64::MAX, bytes: u64::MAX };
}

/// What a stretch of a replay did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayProgress {
    /// Where to go on; `None` at the end.
    pub(crate) next: Option<ReplayPosition>,
    /// How many events were applied.
    pub(crate) events: u64,
}

/// What is done with each event.
pub(crate) type EventVisitor<'a> = dyn FnMut(&Connection, &ProjectionEvent<'_>) -> Result<()> + 'a;

const EVENTS: &str = "
SELECT event.cursor, event.session, event.seq, event.kind, event.entity, event.actor, event.time,
       event.payload, event.text_from, event.text_to
FROM event LEFT JOIN stream ON stream.session = event.session
WHERE event.cursor > ?1 AND event.kind IN (SELECT value FROM json_each(?2))
  AND (event.session IS NULL OR stream.deleted = 0)
ORDER BY event.cursor";

/// Gives the events after `from` to `each`, until the limit is reached or the log ends.
pub(crate) fn replay_log(
    conn: &Connection,
    from: ReplayPosition,
    limit: ReplayLimit,
    each: &mut EventVisitor<'_>,
) -> Result<ReplayProgress> {
    let before = conn.total_changes();
    let mut bytes = 0;
    let mut done = ReplayProgress { next: Some(from), events: 0 };
    while let Some(place) = done.next {
        let Some(kinds) = pass_event_kinds(place.pass) else {
            done.next = None;
            break;
        };
        let mut statement = conn.prepare_cached(EVENTS)?;
        let mut rows = statement.query((place.cursor, kinds))?;
        while let Some(row) = rows.next()? {
            let event = event_from_row(row)?;
            if !is_stub(&event) {
                bytes += event.payload.map_or(0, str::len) as u64;
                each(conn, &event)?;
                done.events += 1;
            }
            if conn.total_changes() - before >= limit.rows || bytes >= limit.bytes {
                done.next = Some(ReplayPosition { pass: place.pass, cursor: event.cursor });
                return Ok(done);
            }
        }
        done.next = Some(ReplayPosition { pass: place.pass + 1, cursor: 0 });
    }
    Ok(done)
}

/// The codes of a pass as a JSON list; `None` after the last pass.
fn pass_event_kinds(pass: usize) -> Option<String> {
    let classes = PASSES.get(pass)?;
    let kinds = EventKind::ALL.iter().filter(|kind| classes.contains(&kind.class()));
    let codes: Vec<i64> = kinds.map(|kind| kind.code()).collect();
    Some(serde_json::Value::from(codes).to_string())
}

fn event_from_row<'a>(row: &'a Row<'_>) -> Result<ProjectionEvent<'a>> {
    let code: i64 = row.get(3)?;
    let kind = EventKind::from_code(code)
        .ok_or_else(|| StoreError::Internal(format!("event kind {code}")))?;
    let payload = row.get_ref(7)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    Ok(ProjectionEvent {
        cursor: row.get(0)?,
        session: row.get(1)?,
        seq: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
        kind,
        entity: row.get(4)?,
        actor: row.get(5)?,
        time: row.get(6)?,
        payload,
        text: row.get::<_, Option<i64>>(8)?.zip(row.get(9)?),
    })
}

/// What compaction leaves of an event has no effect any more.
fn is_stub(event: &ProjectionEvent<'_>) -> bool {
    event.payload.is_none() && event.text.is_none() && !event.kind.has_no_payload()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_passes_visit_each_class_after_its_references() {
        let read: Vec<EntityClass> = PASSES.iter().flat_map(|pass| pass.iter().copied()).collect();
        let mut sorted = read.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, EntityClass::ALL);
        let place = |class| PASSES.iter().position(|pass| pass.contains(&class));
        let order: Vec<_> = EntityClass::ALL
            .iter()
            .filter(|class| **class != EntityClass::Status)
            .map(|class| place(*class))
            .collect();
        assert!(order.is_sorted());
        assert!(place(EntityClass::Turn) < place(EntityClass::Status));
    }
}
