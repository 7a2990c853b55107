//! Change sets and operations: opened before anything is touched, closed with what came of it.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use turnstone_core::call_context::Actor;
use turnstone_core::change::{ChangeRoot, Evidence, FileChange, GitPosition, TraceReport};
use turnstone_core::event::EventKind;
use turnstone_core::id::{ChangeId, OperationId, PartId, SessionId, TurnId};
use turnstone_core::operation::{HeadTarget, OperationKind, SessionHead, UndoneChangeSet};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;

use super::open_step::patch_recovered_step;
use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::{ReadTx, find_open_turn};
use crate::table_row_ids::SessionNum;
use crate::tx::{EventDraft, Tx, WriteOutcome};

/// A call that is about to touch files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewChangeSet {
    /// Names the change set.
    pub id: ChangeId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
    /// Where.
    pub root: ChangeRoot,
    /// How its changes will be known.
    #[serde(serialize_with = "write_evidence")]
    pub evidence: Evidence,
    /// The window it is opened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<ChangeId>,
    /// The paths it named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<RelPath>,
    /// The paths it named that no root holds; they are not captured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
    /// The capture made before; none if there could be none, then the call is not covered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Where the user's repository stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitPosition>,
    /// When the capture before it began, in nanoseconds by the time of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_from: Option<i64>,
    /// The change set whose command has ended, and left the processes running that this one is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<ChangeId>,
}

/// Writes how changes are known. Earlier versions know no traced change sets; to them such a one is a window, which
/// claims less.
fn write_evidence<S: Serializer>(
    evidence: &Evidence,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    stored_evidence(*evidence).serialize(serializer)
}

const fn stored_evidence(evidence: Evidence) -> Evidence {
    match evidence {
        Evidence::Traced => Evidence::Window,
        Evidence::Named | Evidence::Window | Evidence::Recovered | Evidence::Imported => evidence,
    }
}

/// A change set of a copied turn (R40): the same one, claimed where the original was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyChangeSet {
    /// What was announced.
    #[serde(flatten)]
    pub open: NewChangeSet,
    /// Where in the log the original was opened and closed.
    pub copied: (LogCursor, LogCursor),
}

/// What a call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseChangeSet {
    /// The change set.
    pub id: ChangeId,
    /// How its changes are known: as announced, or `recovered`.
    pub evidence: Evidence,
    /// The capture made after.
    pub after: Option<String>,
    /// What changed, sorted by path.
    pub changes: Vec<FileChange>,
    /// How many changed paths are not covered.
    pub not_covered: u64,
    /// Where the user's repository stood.
    pub git: Option<GitPosition>,
    /// What a trace of the call tells besides; nothing if none was asked for.
    pub trace: Option<TraceReport>,
}

/// An operation about to happen.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOperation {
    /// Names the operation.
    pub id: OperationId,
    /// What kind.
    pub kind: OperationKind,
    /// What it is to do; the engine's words.
    pub plan: Value,
}

/// An operation that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedOperation {
    /// The operation.
    pub id: OperationId,
    /// Where the session stands now.
    pub head: HeadTarget,
    /// How much of which change sets is undone now.
    pub taken: Vec<UndoneChangeSet>,
    /// What it did; the engine's words.
    pub report: Value,
}

/// Opens and closes change sets.
#[derive(Clone, Copy)]
pub struct ChangeSetMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl ChangeSetMutations<'_> {
    /// Opens a change set: from here on a crash leaves a window that recovery closes. Repeating it
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if the id names another change set of the session.
    pub fn open(&self, session: &SessionId, open: &NewChangeSet) -> Result<WriteOutcome> {
        self.append_opened(session, &open.id, PreparedPayload::new(open)?)
    }

    /// Copies a change set into a session that was forked, closed as the original is.
    ///
    /// # Errors
    ///
    /// As [`ChangeSetMutations::open`] and [`ChangeSetMutations::close`].
    pub fn copy(
        &self,
        session: &SessionId,
        copy: &CopyChangeSet,
        close: &CloseChangeSet,
    ) -> Result<WriteOutcome> {
        self.append_opened(session, &copy.open.id, PreparedPayload::new(copy)?)?;
        self.close(session, close)
    }

    fn append_opened(
        &self,
        session: &SessionId,
        id: &ChangeId,
        prepared: PreparedPayload,
    ) -> Result<WriteOutcome> {
        let num = self.tx.session_num(session)?;
        if let Some((_, opened, _)) = self.find(num, id)? {
            if self.tx.is_payload_unchanged(opened, &prepared)? {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "change set", id: id.to_string() });
        }
        self.tx
            .append(&EventDraft::new(Some(num), EventKind::ChangeOpened, None).payload(prepared))?;
        Ok(WriteOutcome::Created)
    }

    /// Closes a change set with what came of it. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Conflict`] if it was closed with something else.
    pub fn close(&self, session: &SessionId, close: &CloseChangeSet) -> Result<WriteOutcome> {
        self.append_closed(session, close, false)
    }

    /// Closes what a dead process left open, even if another process holds the lease by now (R32). What it changed is
    /// added to the patch of its step.
    ///
    /// # Errors
    ///
    /// As [`ChangeSetMutations::close`].
    pub fn recover(&self, session: &SessionId, close: &CloseChangeSet) -> Result<WriteOutcome> {
        let written = self.append_closed(session, close, true)?;
        let read = ReadTx { conn: self.tx.conn, blobs: self.tx.blobs };
        if let Some(row) = read.change_sets().find(session, &close.id)? {
            patch_recovered_step(self.tx, &row)?;
        }
        Ok(written)
    }

    fn append_closed(
        &self,
        session: &SessionId,
        close: &CloseChangeSet,
        recovers: bool,
    ) -> Result<WriteOutcome> {
        let num = self.tx.session_num(session)?;
        let Some((entity, _, closed)) = self.find(num, &close.id)? else {
            return Err(StoreError::NotFound { kind: "change set", id: close.id.to_string() });
        };
        // One text, so that a long list is a value of its own like any long text.
        let changes = serde_json::to_string(&close.changes)?;
        let mut payload = json!({
            "id": close.id, "evidence": stored_evidence(close.evidence), "after": close.after,
            "count": close.changes.len(), "not_covered": close.not_covered, "git": close.git,
            "changes": changes,
        });
        if close.evidence == Evidence::Traced {
            payload["traced"] = Value::Bool(true);
        }
        if let Some(trace) = &close.trace {
            payload["trace"] = Value::String(serde_json::to_string(trace)?);
        }
        let prepared = PreparedPayload::new(&payload)?;
        if let Some(closed) = closed {
            if self.tx.is_payload_unchanged(closed, &prepared)? {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "change set", id: close.id.to_string() });
        }
        let draft =
            EventDraft::new(Some(num), EventKind::ChangeClosed, Some(entity)).payload(prepared);
        self.tx.append(&if recovers { draft.unrestricted() } else { draft })?;
        Ok(WriteOutcome::Updated)
    }

    /// `(num, opened, closed)` of a change set.
    fn find(&self, session: SessionNum, id: &ChangeId) -> Result<Option<(i64, i64, Option<i64>)>> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT num, opened, closed FROM change WHERE session = ?1 AND id = ?2",
            )?
            .query_row((session, id.as_str()), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?)
    }
}

/// Why the head of a session cannot move at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadMoveObstacle {
    /// A turn of it is open, or another operation.
    Busy,
    /// It is not where it is expected to be.
    Changed,
}

/// Where a session is expected to be.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedPosition<'a> {
    /// Its head.
    pub head: Option<&'a SessionHead>,
    /// Its newest turn.
    pub newest_turn: Option<&'a TurnId>,
}

/// Plans and finishes operations: undo, redo, jump, fork and eviction.
#[derive(Clone, Copy)]
pub struct OperationMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl OperationMutations<'_> {
    /// Writes an operation down before it begins. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn of the session is open (R45), or another operation.
    pub fn plan(&self, session: &SessionId, new: &NewOperation) -> Result<WriteOutcome> {
        let num = self.tx.session_num(session)?;
        self.plan_operation(session, new, find_open_turn(self.tx.conn, num)?.is_some())
    }

    /// Writes down an operation that may run next to a turn of the session: it moves neither the head nor
    /// anything else that the turn relies on. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while another operation of the session is open.
    pub fn plan_during_turn(
        &self,
        session: &SessionId,
        new: &NewOperation,
    ) -> Result<WriteOutcome> {
        self.plan_operation(session, new, false)
    }

    fn plan_operation(
        &self,
        session: &SessionId,
        new: &NewOperation,
        is_busy: bool,
    ) -> Result<WriteOutcome> {
        let num = self.tx.session_num(session)?;
        let payload = json!({ "id": new.id, "kind": new.kind, "plan": new.plan });
        let prepared = PreparedPayload::new(&payload)?;
        if let Some((_, planned, _)) = self.find(num, &new.id)? {
            if self.tx.is_payload_unchanged(planned, &prepared)? {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "operation", id: new.id.to_string() });
        }
        if is_busy || self.is_in_operation(num)? {
            return Err(StoreError::Busy(session.clone()));
        }
        self.tx.append(
            &EventDraft::new(Some(num), EventKind::OperationPlanned, None).payload(prepared),
        )?;
        Ok(WriteOutcome::Created)
    }

    /// Why a session cannot record at once that its head moves; `None` if it can.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn find_head_move_obstacle(
        &self,
        session: &SessionId,
        expected: ExpectedPosition<'_>,
    ) -> Result<Option<HeadMoveObstacle>> {
        let num = self.tx.session_num(session)?;
        if find_open_turn(self.tx.conn, num)?.is_some() || self.is_in_operation(num)? {
            return Ok(Some(HeadMoveObstacle::Busy));
        }
        let read = ReadTx { conn: self.tx.conn, blobs: self.tx.blobs };
        let turns = read.turns().list(session)?;
        let is_expected = read.sessions().head(session)?.as_ref() == expected.head
            && turns.last().map(|turn| &turn.id) == expected.newest_turn;
        Ok((!is_expected).then_some(HeadMoveObstacle::Changed))
    }

    /// Writes an operation down that is over at once. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`OperationMutations::plan`] and [`OperationMutations::finish`].
    pub fn record_at_once(
        &self,
        session: &SessionId,
        new: &NewOperation,
        done: &FinishedOperation,
    ) -> Result<WriteOutcome> {
        self.plan(session, new)?;
        self.finish(session, done)
    }

    /// Tells whether an operation of the session is not over; background operations do not count.
    pub(super) fn is_in_operation(&self, session: SessionNum) -> Result<bool> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT 1 FROM operation WHERE session = ?1 AND done IS NULL
                   AND kind NOT IN ('expire', 'forget')",
            )?
            .exists([session])?)
    }

    /// Writes down what an operation did, where the head of the session is, and what is undone, at
    /// once. A session whose head has moved since is written again, even if it looks the same: that
    /// is the event its readers learn it from. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Conflict`] if it ended differently.
    pub fn finish(&self, session: &SessionId, done: &FinishedOperation) -> Result<WriteOutcome> {
        let num = self.tx.session_num(session)?;
        let Some((entity, _, ended)) = self.find(num, &done.id)? else {
            return Err(StoreError::NotFound { kind: "operation", id: done.id.to_string() });
        };
        let prepared = PreparedPayload::new(&json!({
            "id": done.id, "head": done.head, "taken": done.taken, "report": done.report,
        }))?;
        if let Some(ended) = ended {
            if self.tx.is_payload_unchanged(ended, &prepared)? {
                return Ok(WriteOutcome::No);
            }
            return Err(StoreError::Conflict { kind: "operation", id: done.id.to_string() });
        }
        let draft = EventDraft::new(Some(num), EventKind::OperationDone, Some(entity));
        self.tx.append(&draft.payload(prepared))?;
        if done.head != HeadTarget::Stay {
            // An import repeats what its source did: that is no change of the session at this moment.
            let is_import = self.tx.ctx.actor.as_str() == Actor::IMPORT;
            let touches = self.kind(entity)? != OperationKind::Branch && !is_import;
            self.tx.sessions().rewrite(num, touches)?;
        }
        Ok(WriteOutcome::Updated)
    }

    fn kind(&self, operation: i64) -> Result<OperationKind> {
        let word: String = self
            .tx
            .conn
            .prepare_cached("SELECT kind FROM operation WHERE num = ?1")?
            .query_row([operation], |row| row.get(0))?;
        OperationKind::parse(&word)
            .ok_or_else(|| StoreError::Internal(format!("operation kind {word}")))
    }

    /// `(num, planned, done)` of an operation.
    pub(super) fn find(
        &self,
        session: SessionNum,
        id: &OperationId,
    ) -> Result<Option<(i64, i64, Option<i64>)>> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "SELECT num, planned, done FROM operation WHERE session = ?1 AND id = ?2",
            )?
            .query_row((session, id.as_str()), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?)
    }

    /// Records a finished background operation of a session.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn record_finished(
        &self,
        session: &SessionId,
        id: &OperationId,
        kind: OperationKind,
        plan: &Value,
    ) -> Result<()> {
        let num = self.tx.session_num(session)?;
        let payload = json!({ "id": id, "kind": kind, "plan": plan });
        let draft = EventDraft::new(Some(num), EventKind::OperationPlanned, None);
        self.tx.append(&draft.payload(PreparedPayload::new(&payload)?))?;
        let (head, report) = (HeadTarget::Stay, Value::Null);
        let done = FinishedOperation { id: id.clone(), head, taken: Vec::new(), report };
        self.finish(session, &done).map(drop)
    }
}
