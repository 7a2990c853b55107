//! Change sets, operations and the head, as readers see them.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, Params};
use serde::Deserialize;
use serde_json::Value;
use turnstone_core::change::{ChangeSet, Evidence, FileChange, GitMove, GitPosition};
use turnstone_core::id::{ChangeId, OperationId, SessionId, TurnId};
use turnstone_core::operation::{
    HeadMove, OperationKind, SessionHead, UndoExtent, UndoneChangeSet,
};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::{EpochMillis, LogCursor};

use super::load::load_payload;
use super::reader::{ReadTx, parse_id};
use crate::error::{Result, StoreError};
use crate::mutation::NewChangeSet;

/// A change set and where in the log it was open.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeSetRow {
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
    pub opened: LogCursor,
    /// Where in the log it was closed; none while it is open.
    pub closed: Option<LogCursor>,
    /// Where the original was opened and closed, if this is a copy in a fork (R40).
    pub copied: Option<(LogCursor, LogCursor)>,
}

impl ChangeSetRow {
    /// Where in the log the call ran: of a copy, where the original ran.
    #[must_use]
    pub fn span(&self) -> (LogCursor, Option<LogCursor>) {
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
    pub time: EpochMillis,
    /// Where in the log it was planned.
    pub planned: LogCursor,
    /// Where in the log it ended; none while it is not over.
    pub ended: Option<LogCursor>,
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
    pub taken: Vec<UndoneChangeSet>,
    /// What it did.
    pub report: Value,
}

/// Which change sets, by places in tables.
type ChangeSetKey = (i64, i64, Option<i64>);

#[derive(Deserialize)]
struct ChangeClosedPayload {
    evidence: Evidence,
    after: Option<String>,
    not_covered: u64,
    git: Option<GitPosition>,
    changes: String,
}

impl ReadTx<'_> {
    /// The change sets of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn change_sets(&self, session: &SessionId) -> Result<Vec<ChangeSetRow>> {
        let num = self.session_num(session)?;
        self.load_change_sets(
            "SELECT session, opened, closed FROM change WHERE session = ?1 ORDER BY num",
            [num],
        )
    }

    /// The change sets of a turn, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn turn_change_sets(
        &self,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Vec<ChangeSetRow>> {
        let num = self.session_num(session)?;
        self.load_change_sets(
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
    pub fn change_sets_between(
        &self,
        root: &str,
        from: LogCursor,
        to: LogCursor,
    ) -> Result<Vec<ChangeSetRow>> {
        self.load_change_sets(
            "SELECT session, opened, closed FROM change
             WHERE root = ?1 AND (closed IS NULL OR closed > ?2) AND opened < ?3 ORDER BY num",
            (root, from.0, to.0),
        )
    }

    /// A change set of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn find_change_set(
        &self,
        session: &SessionId,
        id: &ChangeId,
    ) -> Result<Option<ChangeSetRow>> {
        let num = self.session_num(session)?;
        let found = self.load_change_sets(
            "SELECT session, opened, closed FROM change WHERE session = ?1 AND id = ?2",
            (num, id.as_str()),
        )?;
        Ok(found.into_iter().next())
    }

    /// The change sets that are open, on one root or on all.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn open_change_sets(&self, root: Option<&str>) -> Result<Vec<ChangeSetRow>> {
        self.load_change_sets(
            "SELECT session, opened, closed FROM change
             WHERE closed IS NULL AND (?1 IS NULL OR root = ?1) ORDER BY num",
            [root],
        )
    }

    /// Tells whether a turn of a session is over and a change set of it is not.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn has_orphaned_change_sets(&self, session: &SessionId) -> Result<bool> {
        let num = self.session_num(session)?;
        Ok(self
            .conn
            .prepare_cached(
                "SELECT 1 FROM change JOIN turn ON turn.id = change.turn
                 WHERE change.session = ?1 AND change.closed IS NULL AND turn.ended IS NOT NULL",
            )?
            .exists([num])?)
    }

    fn load_change_sets(
        &self,
        sql: &'static str,
        values: impl Params,
    ) -> Result<Vec<ChangeSetRow>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let found: Vec<ChangeSetKey> = statement
            .query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        found.into_iter().map(|found| self.load_change_set(found)).collect()
    }

    fn load_change_set(&self, (session, opened, closed): ChangeSetKey) -> Result<ChangeSetRow> {
        let session: String = self
            .conn
            .prepare_cached("SELECT id FROM stream WHERE session = ?1")?
            .query_row([session], |row| row.get(0))?;
        let payload = load_payload(self.conn, self.blobs, opened)?;
        let copied = payload.get("copied").cloned();
        let copied = copied.map(serde_json::from_value).transpose()?;
        let open: NewChangeSet = serde_json::from_value(payload)?;
        let end: Option<ChangeClosedPayload> = closed
            .map(|at| load_payload(self.conn, self.blobs, at))
            .transpose()?
            .map(serde_json::from_value)
            .transpose()?;
        let changes: Vec<FileChange> = match &end {
            Some(end) => serde_json::from_str(&end.changes)?,
            None => Vec::new(),
        };
        let git = match &end {
            Some(end) => git_move(&open, end.git.clone()),
            None => None,
        };
        let set = ChangeSet {
            id: open.id,
            session: parse_id(session)?,
            turn: open.turn,
            part: open.part,
            root: open.root,
            evidence: end.as_ref().map_or(open.evidence, |end| end.evidence),
            outer: open.outer,
            changes,
            git,
        };
        Ok(ChangeSetRow {
            set,
            named: open.named,
            before: open.before,
            not_covered: end.as_ref().map_or(0, |end| end.not_covered),
            after: end.and_then(|end| end.after),
            opened: LogCursor(opened),
            closed: closed.map(LogCursor),
            copied,
        })
    }

    /// How much of a change set is taken back, by whichever session did it (R40).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn undone_extent(&self, change: &ChangeId) -> Result<UndoExtent> {
        let row: Option<Option<String>> = self
            .conn
            .prepare_cached("SELECT paths FROM taken WHERE change = ?1")?
            .query_row([change.as_str()], |row| row.get(0))
            .optional()?;
        Ok(match row {
            None => UndoExtent::Nothing,
            Some(None) => UndoExtent::All,
            Some(Some(paths)) => UndoExtent::Paths(serde_json::from_str(&paths)?),
        })
    }

    /// Where a session stands: the first thing that is taken back, or nothing at its end (R19).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn session_head(&self, session: &SessionId) -> Result<Option<SessionHead>> {
        let num = self.session_num(session)?;
        let row: Option<(String, Option<String>)> = self
            .conn
            .prepare_cached("SELECT message, part FROM head WHERE session = ?1")?
            .query_row([num], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        row.map(|(message, part)| {
            Ok(SessionHead { message: parse_id(message)?, part: part.map(parse_id).transpose()? })
        })
        .transpose()
    }

    /// The sessions whose head is not at their end.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_not_at_tip(&self) -> Result<HashSet<SessionId>> {
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
    pub fn operations_between(&self, from: LogCursor, to: LogCursor) -> Result<Vec<OperationRow>> {
        self.load_operations(
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
        self.load_operations(
            "SELECT operation.id, operation.kind, planned, done, time
             FROM operation JOIN event ON event.cursor = planned
             WHERE operation.session = ?1 ORDER BY operation.num",
            [num],
        )
    }

    fn load_operations(&self, sql: &'static str, values: impl Params) -> Result<Vec<OperationRow>> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: String = row.get(1)?;
            let (planned, done): (i64, Option<i64>) = (row.get(2)?, row.get(3)?);
            let mut plan = load_payload(self.conn, self.blobs, planned)?;
            found.push(OperationRow {
                id: parse_id(row.get(0)?)?,
                kind: OperationKind::parse(&kind)
                    .ok_or_else(|| StoreError::Internal(format!("operation {kind:?}")))?,
                time: EpochMillis(row.get(4)?),
                planned: LogCursor(planned),
                ended: done.map(LogCursor),
                plan: plan.get_mut("plan").map(Value::take).unwrap_or_default(),
                done: done
                    .map(|at| load_payload(self.conn, self.blobs, at))
                    .transpose()?
                    .map(serde_json::from_value)
                    .transpose()?,
            });
        }
        Ok(found)
    }
}

/// Where the user's repository stood before and after a call; nothing if there never was one.
fn git_move(open: &NewChangeSet, after: Option<GitPosition>) -> Option<GitMove> {
    match (open.git.clone(), after) {
        (None, None) => None,
        // Where nothing is captured nobody looked a second time.
        (_, None) if open.root.store.is_empty() => None,
        // It was made, or removed, by the call: nothing stood there before, or stands there since.
        (before, after) => {
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            Some(GitMove { before, after })
        }
    }
}
