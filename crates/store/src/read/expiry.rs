//! Which turns can no longer be undone, and expiries that are not finished.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::Value;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::time::EpochMillis;

use super::load::load_payload;
use super::reader::{ReadTx, parse_id};
use crate::blob::BlobDir;
use crate::error::Result;
use crate::table_row_ids::SessionNum;

/// A turn that can no longer be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredTurn {
    /// Its session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Since when.
    pub at: EpochMillis,
}

/// A background operation that is not over.
#[derive(Clone, Debug, PartialEq)]
pub struct UnfinishedExpiry {
    /// Its session.
    pub session: SessionId,
    /// Names it.
    pub id: OperationId,
    /// What is to be done; the engine's words.
    pub work: Value,
}

/// The turns of a session that can no longer be undone, and since when.
pub(crate) fn expired_turns(
    conn: &Connection,
    blobs: &BlobDir,
    session: SessionNum,
) -> Result<BTreeMap<TurnId, EpochMillis>> {
    let plans = load_expiry_plans(conn, blobs, Some(session))?;
    let turns =
        plans.into_iter().flat_map(|(plan, at)| plan.turns.into_iter().map(move |id| (id, at)));
    Ok(turns.collect())
}

/// The operations whose guards have expired, of one session or of all, and since when.
pub(crate) fn expired_guards(
    conn: &Connection,
    blobs: &BlobDir,
    session: Option<SessionNum>,
) -> Result<BTreeMap<OperationId, EpochMillis>> {
    let plans = load_expiry_plans(conn, blobs, session)?;
    let guards =
        plans.into_iter().flat_map(|(plan, at)| plan.guards.into_iter().map(move |id| (id, at)));
    Ok(guards.collect())
}

/// What an expiry was to take away.
#[derive(Deserialize)]
struct ExpiryPlan {
    turns: Vec<TurnId>,
    #[serde(default)]
    guards: Vec<OperationId>,
}

/// The expiries of one session or of all, and when they were planned.
fn load_expiry_plans(
    conn: &Connection,
    blobs: &BlobDir,
    session: Option<SessionNum>,
) -> Result<Vec<(ExpiryPlan, EpochMillis)>> {
    let mut statement = conn.prepare_cached(
        "SELECT planned, time FROM operation JOIN event ON event.cursor = planned
         WHERE (?1 IS NULL OR operation.session = ?1) AND operation.kind = 'expire'",
    )?;
    let mut rows = statement.query([session])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (planned, time): (i64, i64) = (row.get(0)?, row.get(1)?);
        let mut payload = load_payload(conn, blobs, planned)?;
        let plan = payload.get_mut("plan").map(Value::take).unwrap_or_default();
        found.push((serde_json::from_value(plan)?, EpochMillis(time)));
    }
    Ok(found)
}

/// An operation that moved files, or is about to, and pins what it displaced (R14).
#[derive(Clone, Debug, PartialEq)]
pub struct GuardPin {
    /// Its session.
    pub session: SessionId,
    /// Names it.
    pub operation: OperationId,
    /// When it was planned.
    pub time: EpochMillis,
    /// True if it is over, and not the newest of its session.
    pub can_expire: bool,
    /// What it was to do; the engine's words.
    pub plan: Value,
}

/// Reads which undo data expired and what still pins it.
#[derive(Clone, Copy)]
pub struct UndoExpiryQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl UndoExpiryQueries<'_> {
    /// The operations of all sessions whose guards have not expired, oldest first.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn guard_pins(&self) -> Result<Vec<GuardPin>> {
        let expired = expired_guards(self.read.conn, self.read.blobs, None)?;
        let mut found = self.list_guard_pins(false)?;
        found.retain(|pin| !expired.contains_key(&pin.operation));
        Ok(found)
    }

    /// The same for operations of sessions that are deleted and not purged yet; expired guards are among them.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn guard_pins_of_deleted(&self) -> Result<Vec<GuardPin>> {
        self.list_guard_pins(true)
    }

    fn list_guard_pins(&self, deleted: bool) -> Result<Vec<GuardPin>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.id, operation.id, planned, time,
               done IS NOT NULL
               AND operation.num < (SELECT max(num) FROM operation AS other
                                    WHERE other.session = operation.session
                                      AND other.kind IN ('undo', 'redo', 'jump'))
             FROM operation JOIN session ON session.num = operation.session
             JOIN event ON event.cursor = planned
             WHERE hidden = ?1 AND operation.kind IN ('undo', 'redo', 'jump')
             ORDER BY operation.num",
        )?;
        let mut rows = statement.query([deleted])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let mut payload = load_payload(self.read.conn, self.read.blobs, row.get(2)?)?;
            found.push(GuardPin {
                session: parse_id(row.get(0)?)?,
                operation: parse_id(row.get(1)?)?,
                time: EpochMillis(row.get(3)?),
                can_expire: row.get(4)?,
                plan: payload.get_mut("plan").map(Value::take).unwrap_or_default(),
            });
        }
        Ok(found)
    }

    /// The operations of a session whose guards have expired, and since when (R14).
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn expired_guards(
        &self,
        session: &SessionId,
    ) -> Result<BTreeMap<OperationId, EpochMillis>> {
        let num = self.read.session_num(session)?;
        expired_guards(self.read.conn, self.read.blobs, Some(num))
    }

    /// The turns of a session that can no longer be undone, and since when (R13).
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn expired_turns(&self, session: &SessionId) -> Result<BTreeMap<TurnId, EpochMillis>> {
        let num = self.read.session_num(session)?;
        expired_turns(self.read.conn, self.read.blobs, num)
    }

    /// Which of these names no part of a session that is there is called, and no event of one speaks
    /// of: files outside of the database that no request can reach any more.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn orphaned_outputs(&self, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        let mut unknown = BTreeSet::new();
        let mut part = self.read.conn.prepare_cached(
            "SELECT 1 FROM part JOIN session ON session.num = part.session
             WHERE part.id = ?1 AND hidden = 0",
        )?;
        for name in names {
            if !part.exists([name])? {
                unknown.insert(name.clone());
            }
        }
        if unknown.is_empty() {
            return Ok(unknown);
        }
        // A copy in a fork speaks of it, and what a branch hid may come back.
        let mut events = self.read.conn.prepare_cached(
            "SELECT payload FROM event JOIN session ON session.num = event.session
             WHERE hidden = 0 AND instr(payload, '\"outputPath\"') > 0",
        )?;
        let mut rows = events.query([])?;
        while let Some(row) = rows.next()? {
            let payload: String = row.get(0)?;
            unknown.retain(|name| !payload.contains(name.as_str()));
        }
        Ok(unknown)
    }

    /// Expiries whose bytes may still be there.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn unfinished(&self) -> Result<Vec<UnfinishedExpiry>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.id, operation.id, planned FROM operation
             JOIN session ON session.num = operation.session
             WHERE done IS NULL AND hidden = 0 AND kind = 'expire' ORDER BY operation.num",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let mut payload = load_payload(self.read.conn, self.read.blobs, row.get(2)?)?;
            found.push(UnfinishedExpiry {
                session: parse_id(row.get(0)?)?,
                id: parse_id(row.get(1)?)?,
                work: payload.pointer_mut("/plan/work").map(Value::take).unwrap_or_default(),
            });
        }
        Ok(found)
    }
}
