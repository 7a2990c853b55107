//! What a session had used up at some place of its stream, from the log.
//!
//! The row of a session knows the sum of now. The sum of then is counted forwards from a place where it
//! is known, or backwards from now; the numbers are whole, so both give the same.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Number;
use turnstone_core::event::EventKind;
use turnstone_core::model::{SessionUsage, TokenCounts};
use turnstone_core::time::SessionSeq;

use super::list::usage_from_row;
use super::reader::ReadTx;
use crate::error::{Result, StoreError};
use crate::table_row_ids::SessionNum;
use rusqlite::OptionalExtension;

/// Sums that are known: by session, at a place of its stream.
#[derive(Default)]
pub(super) struct UsageCache(HashMap<SessionNum, (SessionSeq, SessionUsage)>);

impl UsageCache {
    /// Forgets everything once there are more than `most`.
    pub(super) fn trim(&mut self, most: usize) {
        if self.0.len() > most {
            self.0.clear();
        }
    }
}

#[derive(Deserialize)]
struct StepFinishPayload {
    data: StepUsageFields,
}

#[derive(Deserialize)]
struct StepUsageFields {
    cost: Option<Number>,
    tokens: Option<TokenCounts>,
}

fn step_usage(json: &str) -> Result<SessionUsage> {
    let step = serde_json::from_str::<StepFinishPayload>(json)?.data;
    Ok(match (&step.cost, &step.tokens) {
        (Some(cost), Some(tokens)) => SessionUsage::from_step(cost, tokens),
        _ => SessionUsage::default(),
    })
}

// The statements below name these kinds by their codes, which never change.
const _: () = assert!(
    EventKind::MessageRemoved.code() == 21
        && EventKind::PartUpdated.code() == 30
        && EventKind::PartRemoved.code() == 31
);

/// What may change the sum in `(?2, ?3]` of a session's stream.
const USAGE_EVENTS: &str = "
SELECT seq, kind, entity, cursor, payload FROM event
WHERE session = ?1 AND seq > ?2 AND seq <= ?3 AND payload IS NOT NULL
  AND (kind IN (21, 31) OR (kind = 30 AND payload ->> '$.data.type' = 'step-finish'))
ORDER BY seq";

/// The images of finished steps from the event that made `?2` on, before `?3`.
const STEP_IMAGES: &str = "
SELECT entity, payload, payload ->> '$.message' FROM event
WHERE session = ?1 AND seq >= (SELECT seq FROM event WHERE cursor = ?2) AND seq < ?3
  AND kind = 30 AND payload IS NOT NULL AND payload ->> '$.data.type' = 'step-finish'
ORDER BY seq";

const REMOVED_PARTS: &str = "
SELECT entity FROM event
WHERE session = ?1 AND seq >= (SELECT seq FROM event WHERE cursor = ?2) AND seq < ?3 AND kind = 31";

/// What a session had used up after the event `seq` of its stream.
pub(super) fn usage_at_seq(
    read: &ReadTx<'_>,
    session: SessionNum,
    seq: SessionSeq,
    cache: &mut UsageCache,
) -> Result<SessionUsage> {
    let usage = match cache.0.get(&session) {
        Some((known, usage)) if *known <= seq => {
            usage.plus(usage_between(read, session, *known, seq)?)
        }
        _ => current_usage(read, session)?.minus(usage_between(
            read,
            session,
            seq,
            SessionSeq(i64::MAX),
        )?),
    };
    cache.0.insert(session, (seq, usage));
    Ok(usage)
}

fn current_usage(read: &ReadTx<'_>, session: SessionNum) -> Result<SessionUsage> {
    let usage = read
        .conn
        .prepare_cached(
            "SELECT cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read,
                    tokens_cache_write FROM session WHERE num = ?1",
        )?
        .query_row([session], usage_from_row::<0>)
        .optional()?;
    Ok(usage.unwrap_or_default())
}

/// By how much the sum changed between two places.
fn usage_between(
    read: &ReadTx<'_>,
    session: SessionNum,
    from: SessionSeq,
    to: SessionSeq,
) -> Result<SessionUsage> {
    let mut statement = read.conn.prepare_cached(USAGE_EVENTS)?;
    let mut rows = statement.query((session, from.0, to.0))?;
    let mut sum = SessionUsage::default();
    while let Some(row) = rows.next()? {
        let (seq, code, entity): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let cursor: i64 = row.get(3)?;
        let kind = EventKind::from_code(code);
        if kind == Some(EventKind::PartUpdated) {
            let json = row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?;
            sum = sum.plus(step_usage(json)?);
        }
        // The first image of a part takes nothing's place.
        if cursor != entity {
            sum = sum.minus(replaced_usage(read, session, kind, entity, SessionSeq(seq))?);
        }
    }
    Ok(sum)
}

/// What a part, or a message's parts, counted before the event `seq`.
fn replaced_usage(
    read: &ReadTx<'_>,
    session: SessionNum,
    kind: Option<EventKind>,
    entity: i64,
    seq: SessionSeq,
) -> Result<SessionUsage> {
    let whole = kind == Some(EventKind::MessageRemoved);
    let mut steps: BTreeMap<i64, SessionUsage> = BTreeMap::new();
    let mut statement = read.conn.prepare_cached(STEP_IMAGES)?;
    let mut rows = statement.query((session, entity, seq.0))?;
    while let Some(row) = rows.next()? {
        let (part, message): (i64, i64) = (row.get(0)?, row.get(2)?);
        if (whole && message == entity) || (!whole && part == entity) {
            let json = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            steps.insert(part, step_usage(json)?);
        }
    }
    if whole && !steps.is_empty() {
        let mut statement = read.conn.prepare_cached(REMOVED_PARTS)?;
        let removed = statement.query_map((session, entity, seq.0), |row| row.get::<_, i64>(0))?;
        for part in removed {
            steps.remove(&part.map_err(StoreError::from)?);
        }
    }
    Ok(steps.into_values().fold(SessionUsage::default(), SessionUsage::plus))
}
