//! Change sets, operations and the head, as readers see them.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, Params};
use serde::Deserialize;
use serde_json::Value;
use turnstone_core::change::{ChangeSet, Evidence, FileChange, GitMove, GitPoint};
use turnstone_core::id::{ChangeId, OperationId, SessionId, TurnId};
use turnstone_core::operation::{Extent, Head, HeadMove, OperationKind, Taken};
use turnstone_core::path::RelPath;
use turnstone_core::time::{Cursor, Millis};

use super::body::payload_at;
use super::reader::{Reader, parse_id};
use crate::error::{Result, StoreError};
use crate::mutate::OpenChange;

/// A change set and where in the log it was open.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeRow {
    /// What it holds.
    pub set: ChangeSet,
    /// The paths it named before it wrote.
    pub named: Vec<RelPath>,
    /// The capture before it, if one could be made.
    pub before: Option<String>,
    /// The capture after it, once it is closed, if one could be made.
    pub after: Option<String>,
    /// How many paths changed of which nothing can be said.
    pub not_covered: u64,
    /// Where in the log it was opened.
    pub opened: Cursor,
    /// Where in the log it was closed; none while it is open.
    pub closed: Option<Cursor>,
    /// Where the original was opened and closed, if this is a copy in a fork (R40).
    pub copied: Option<(Cursor, Cursor)>,
}

impl ChangeRow {
    /// Where in the log the call ran: of a copy, where the original ran.
    #[must_use]
    pub fn span(&self) -> (Cursor, Option<Cursor>) {
        match self.copied {
            Some((opened, closed)) => (opened, Some(closed)),
            None => (self.opened, self.closed),
        }
    }
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationRow {
    /// Names it.
    pub id: OperationId,
    /// What kind.
    pub kind: OperationKind,
    /// When it was planned.
    pub time: Millis,
    /// Where in the log it was planned.
    pub planned: Cursor,
    /// Where in the log it ended; none while it is not over.
    pub ended: Option<Cursor>,
    /// What it was to do.
    pub plan: Value,
    /// What it did; none while it is not over.
    pub done: Option<OperationEnd>,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OperationEnd {
    /// Where the session stood afterwards.
    pub head: HeadMove,
    /// How much of which change sets was taken back afterwards.
    pub taken: Vec<Taken>,
    /// What it did.
    pub report: Value,
}

/// Which change sets, by places in tables.
type Found = (i64, i64, Option<i64>);

#[derive(Deserialize)]
struct Closed {
    evidence: Evidence,
    after: Option<String>,
    not_covered: u64,
    git: Option<GitPoint>,
    changes: String,
}

impl Reader<'_> {
    /// The change sets of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn changes(&self, session: &SessionId) -> Result<Vec<ChangeRow>> {
        let num = self.session_num(session)?;
        self.change_rows(
            "SELECT session, opened, closed FROM change WHERE session = ?1 ORDER BY num",
            [num],
        )
    }

    /// The change sets of a turn, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn turn_changes(&self, session: &SessionId, turn: &TurnId) -> Result<Vec<ChangeRow>> {
        let num = self.session_num(session)?;
        self.change_rows(
            "SELECT session, opened, closed FROM change
             WHERE turn = ?2 AND session = ?1 ORDER BY num",
            (num, turn.as_str()),
        )
    }

    /// The change sets of all sessions on one root that were open at some moment between two
    /// places in the log, oldest first; those still open among them.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn changes_between(&self, root: &str, from: Cursor, to: Cursor) -> Result<Vec<ChangeRow>> {
        self.change_rows(
            "SELECT session, opened, closed FROM change
             WHERE root = ?1 AND (closed IS NULL OR closed > ?2) AND opened < ?3 ORDER BY num",
            (root, from.0, to.0),
        )
    }

    /// The change sets that are open, on one root or on all.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn open_changes(&self, root: Option<&str>) -> Result<Vec<ChangeRow>> {
        self.change_rows(
            "SELECT session, opened, closed FROM change
             WHERE closed IS NULL AND (?1 IS NULL OR root = ?1) ORDER BY num",
            [root],
        )
    }

    fn change_rows(&self, sql: &'static str, values: impl Params) -> Result<Vec<ChangeRow>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let found: Vec<Found> = statement
            .query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        found.into_iter().map(|found| self.change_row(found)).collect()
    }

    fn change_row(&self, (session, opened, closed): Found) -> Result<ChangeRow> {
        let session: String = self
            .conn
            .prepare_cached("SELECT id FROM stream WHERE session = ?1")?
            .query_row([session], |row| row.get(0))?;
        let payload = payload_at(self.conn, self.blobs, opened)?;
        let copied = payload.get("copied").cloned();
        let copied = copied.map(serde_json::from_value).transpose()?;
        let open: OpenChange = serde_json::from_value(payload)?;
        let end: Option<Closed> = closed
            .map(|at| payload_at(self.conn, self.blobs, at))
            .transpose()?
            .map(serde_json::from_value)
            .transpose()?;
        let changes: Vec<FileChange> = match &end {
            Some(end) => serde_json::from_str(&end.changes)?,
            None => Vec::new(),
        };
        let after = end.as_ref().and_then(|end| end.git.clone());
        let set = ChangeSet {
            id: open.id,
            session: parse_id(session)?,
            turn: open.turn,
            part: open.part,
            root: open.root,
            evidence: end.as_ref().map_or(open.evidence, |end| end.evidence),
            outer: open.outer,
            changes,
            git: open.git.zip(after).map(|(before, after)| GitMove { before, after }),
        };
        Ok(ChangeRow {
            set,
            named: open.named,
            before: open.before,
            not_covered: end.as_ref().map_or(0, |end| end.not_covered),
            after: end.and_then(|end| end.after),
            opened: Cursor(opened),
            closed: closed.map(Cursor),
            copied,
        })
    }

    /// How much of a change set is taken back, by whichever session did it (R40).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn taken(&self, change: &ChangeId) -> Result<Extent> {
        let row: Option<Option<String>> = self
            .conn
            .prepare_cached("SELECT paths FROM taken WHERE change = ?1")?
            .query_row([change.as_str()], |row| row.get(0))
            .optional()?;
        Ok(match row {
            None => Extent::Nothing,
            Some(None) => Extent::All,
            Some(Some(paths)) => Extent::Paths(serde_json::from_str(&paths)?),
        })
    }

    /// Where a session stands: the first thing that is taken back, or nothing at its end (R19).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn head(&self, session: &SessionId) -> Result<Option<Head>> {
        let num = self.session_num(session)?;
        let row: Option<(String, Option<String>)> = self
            .conn
            .prepare_cached("SELECT message, part FROM head WHERE session = ?1")?
            .query_row([num], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        row.map(|(message, part)| {
            Ok(Head { message: parse_id(message)?, part: part.map(parse_id).transpose()? })
        })
        .transpose()
    }

    /// The sessions whose head is not at their end.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_back(&self) -> Result<HashSet<SessionId>> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT id FROM head JOIN session ON session.num = head.session")?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        ids.map(|id| parse_id(id?)).collect()
    }

    /// The sessions with an operation that is not over; those done beside a session do not count.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_in_operation(&self) -> Result<Vec<SessionId>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT DISTINCT session.id FROM operation
             JOIN session ON session.num = operation.session
             WHERE done IS NULL AND hidden = 0 AND kind NOT IN ('expire', 'forget')",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(parse_id(row.get(0)?)?);
        }
        Ok(found)
    }

    /// The operations of all sessions that were under way at some moment between two places in
    /// the log, oldest first; those that are not over among them.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn operations_between(&self, from: Cursor, to: Cursor) -> Result<Vec<OperationRow>> {
        self.operation_rows(
            "SELECT operation.id, operation.kind, planned, done, time
             FROM operation JOIN event ON event.cursor = planned
             WHERE (done IS NULL OR done > ?1) AND planned < ?2 ORDER BY operation.num",
            (from.0, to.0),
        )
    }

    /// The operations of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn operations(&self, session: &SessionId) -> Result<Vec<OperationRow>> {
        let num = self.session_num(session)?;
        self.operation_rows(
            "SELECT operation.id, operation.kind, planned, done, time
             FROM operation JOIN event ON event.cursor = planned
             WHERE operation.session = ?1 ORDER BY operation.num",
            [num],
        )
    }

    fn operation_rows(&self, sql: &'static str, values: impl Params) -> Result<Vec<OperationRow>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: String = row.get(1)?;
            let (planned, done): (i64, Option<i64>) = (row.get(2)?, row.get(3)?);
            let mut plan = payload_at(self.conn, self.blobs, planned)?;
            found.push(OperationRow {
                id: parse_id(row.get(0)?)?,
                kind: OperationKind::parse(&kind)
                    .ok_or_else(|| StoreError::Internal(format!("operation {kind:?}")))?,
                time: Millis(row.get(4)?),
                planned: Cursor(planned),
                ended: done.map(Cursor),
                plan: plan.get_mut("plan").map(Value::take).unwrap_or_default(),
                done: done
                    .map(|at| payload_at(self.conn, self.blobs, at))
                    .transpose()?
                    .map(serde_json::from_value)
                    .transpose()?,
            });
        }
        Ok(found)
    }
}
