//! Expiry: which turns can no longer be undone, recorded before anything of them is removed (R13).

use serde_json::{Value, json};
use turnstone_core::event::EventKind;
use turnstone_core::id::{ChangeId, OperationId, SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::time::EpochMillis;

use crate::error::Result;
use crate::payload::PreparedPayload;
use crate::read::{ExpiredTurn, expired_guards, expired_turns, load_payload};
use crate::table_row_ids::SessionNum;
use crate::tx::{EventDraft, Tx};

/// Turns whose undo is given up.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnExpiry {
    /// Names the operation.
    pub id: OperationId,
    /// The turns, oldest first.
    pub turns: Vec<TurnId>,
    /// What is to go with them; the engine's words.
    pub work: Value,
}

/// Operations whose guards are given up.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardExpiry {
    /// Names the operation that gives them up.
    pub id: OperationId,
    /// The operations, oldest first.
    pub operations: Vec<OperationId>,
    /// What is to go; the engine's words.
    pub work: Value,
}

/// Records which undo data expired.
#[derive(Clone, Copy)]
pub struct UndoExpiryMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl UndoExpiryMutations<'_> {
    /// Records that turns of a session can no longer be undone; returns those of which that
    /// is new. Never the newest turn, nor one that runs, nor while an operation might need them.
    ///
    /// An operation stays open until [`OperationMutations::finish`](crate::OperationMutations::finish) says that their bytes are gone.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn expire_turns(&self, session: &SessionId, expiring: &TurnExpiry) -> Result<Vec<TurnId>> {
        let num = self.tx.session_num(session)?;
        if self.has_blocking_operation(session)? {
            return Ok(Vec::new());
        }
        let known = expired_turns(self.tx.conn, self.tx.blobs, num)?;
        let mut fresh = Vec::new();
        for turn in expiring.turns.iter().filter(|turn| !known.contains_key(*turn)) {
            if self.is_superseded_turn(num, turn)? {
                fresh.push(turn.clone());
            }
        }
        // Work without a turn is for captures no turn needs: it is nobody's loss, and no event.
        if !fresh.is_empty() {
            let plan = json!({ "turns": fresh, "work": expiring.work });
            let payload = json!({ "id": expiring.id, "kind": OperationKind::Expire, "plan": plan });
            let draft = EventDraft::new(Some(num), EventKind::OperationPlanned, None);
            self.tx.append(&draft.payload(PreparedPayload::new(&payload)?))?;
        }
        Ok(fresh)
    }

    /// Writes down that what operations of a session displaced is gone (R14); returns those of which
    /// that is new. Never the newest operation that moved files, nor one that is not over, nor while
    /// an operation might need them.
    ///
    /// As with turns, the work stays open until [`OperationMutations::finish`](crate::OperationMutations::finish).
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn expire_guards(
        &self,
        session: &SessionId,
        expiring: &GuardExpiry,
    ) -> Result<Vec<OperationId>> {
        let num = self.tx.session_num(session)?;
        if self.has_blocking_operation(session)? {
            return Ok(Vec::new());
        }
        let known = expired_guards(self.tx.conn, self.tx.blobs, Some(num))?;
        let mut fresh = Vec::new();
        for operation in expiring.operations.iter().filter(|it| !known.contains_key(*it)) {
            if self.is_superseded_operation(num, operation)? {
                fresh.push(operation.clone());
            }
        }
        if !fresh.is_empty() {
            let none: [TurnId; 0] = [];
            let plan = json!({ "turns": none, "guards": fresh, "work": expiring.work });
            let payload = json!({ "id": expiring.id, "kind": OperationKind::Expire, "plan": plan });
            let draft = EventDraft::new(Some(num), EventKind::OperationPlanned, None);
            self.tx.append(&draft.payload(PreparedPayload::new(&payload)?))?;
        }
        Ok(fresh)
    }

    /// Tells whether an operation is over and another one moved files after it.
    fn is_superseded_operation(
        &self,
        session: SessionNum,
        operation: &OperationId,
    ) -> Result<bool> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT 1 FROM operation WHERE session = ?1 AND id = ?2 AND done IS NOT NULL
                   AND num < (SELECT max(num) FROM operation
                              WHERE session = ?1 AND kind IN ('undo', 'redo', 'jump'))",
            )?
            .exists((session, operation.as_str()))?)
    }

    /// The first of some operations of a session whose guard has expired, and when.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn find_expired_guard(
        &self,
        session: &SessionId,
        operations: &[OperationId],
    ) -> Result<Option<(OperationId, EpochMillis)>> {
        if operations.is_empty() {
            return Ok(None);
        }
        let known =
            expired_guards(self.tx.conn, self.tx.blobs, Some(self.tx.session_num(session)?))?;
        let gone = operations.iter().find_map(|it| known.get_key_value(it));
        Ok(gone.map(|(operation, at)| (operation.clone(), *at)))
    }

    /// Records that turns of a copy could not be undone in its original.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn copy_turn_expiry(
        &self,
        session: &SessionId,
        id: &OperationId,
        turns: &[TurnId],
    ) -> Result<()> {
        self.tx.operations().record_finished(
            session,
            id,
            OperationKind::Expire,
            &json!({ "turns": turns }),
        )
    }

    /// Tells whether a turn has ended and another one came after it.
    fn is_superseded_turn(&self, session: SessionNum, turn: &TurnId) -> Result<bool> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT 1 FROM turn WHERE session = ?1 AND id = ?2 AND ended IS NOT NULL
                   AND num < (SELECT max(num) FROM turn WHERE session = ?1)",
            )?
            .exists((session, turn.as_str()))?)
    }

    /// Tells whether an operation is under way that may need what turns of a session did: its own,
    /// one of a session that began it, or one that takes its turns along.
    fn has_blocking_operation(&self, session: &SessionId) -> Result<bool> {
        let mut statement = self.tx.conn.prepare_cached(
            "SELECT session.id, planned FROM operation
             JOIN session ON session.num = operation.session
             WHERE done IS NULL AND kind NOT IN ('expire', 'forget')",
        )?;
        let mut rows = statement.query([])?;
        let family = self.session_and_ancestors(session)?;
        while let Some(row) = rows.next()? {
            let (busy, planned): (String, i64) = (row.get(0)?, row.get(1)?);
            let plan = load_payload(self.tx.conn, self.tx.blobs, planned)?;
            let also = plan.pointer("/plan/also").cloned().unwrap_or_default();
            let also: Vec<(String, String)> = serde_json::from_value(also).unwrap_or_default();
            let is_one = |id: &str| family.iter().any(|one| one == id);
            if is_one(&busy) || also.iter().any(|(id, _)| is_one(id)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A session, and those that began it.
    fn session_and_ancestors(&self, session: &SessionId) -> Result<Vec<String>> {
        let mut family: Vec<String> = Vec::new();
        let mut at = Some(session.to_string());
        while let Some(id) = at.take().filter(|id| !family.contains(id)) {
            let mut parent =
                self.tx.conn.prepare_cached("SELECT parent FROM session WHERE id = ?1")?;
            let mut rows = parent.query([&id])?;
            if let Some(row) = rows.next()? {
                at = row.get(0)?;
            }
            family.push(id);
        }
        Ok(family)
    }

    /// The first of some change sets whose turn can no longer be undone.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find_expired_change_set(
        &self,
        changes: &[(SessionId, ChangeId)],
    ) -> Result<Option<ExpiredTurn>> {
        for (session, change) in changes {
            let num = self.tx.session_num(session)?;
            let mut statement = self
                .tx
                .conn
                .prepare_cached("SELECT turn FROM change WHERE session = ?1 AND id = ?2")?;
            let mut rows = statement.query((num, change.as_str()))?;
            let Some(row) = rows.next()? else { continue };
            let turn: String = row.get(0)?;
            let known = expired_turns(self.tx.conn, self.tx.blobs, num)?;
            if let Some((turn, at)) = known.iter().find(|(id, _)| id.as_str() == turn) {
                let (session, turn) = (session.clone(), turn.clone());
                return Ok(Some(ExpiredTurn { session, turn, at: *at }));
            }
        }
        Ok(None)
    }
}
