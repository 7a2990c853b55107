//! Change sets, operations and the head, as readers see them.

use rusqlite::{OptionalExtension, Params};
use serde::Deserialize;
use serde_json::Value;
use turnstone_core::change::{ChangeSet, Evidence, FileChange, GitMove, GitPosition, TraceReport};
use turnstone_core::id::{ChangeId, OperationId, ProjectId, SessionId, TurnId};
use turnstone_core::operation::{HeadTarget, OperationKind, UndoExtent, UndoneChangeSet};
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
    /// The paths it named that no root holds.
    pub outside: Vec<String>,
    /// The capture before it, if one could be made.
    pub before: Option<String>,
    /// The capture after it, once it is closed, if one could be made.
    pub after: Option<String>,
    /// How many changed paths are not covered.
    pub not_covered: u64,
    /// When the capture before it began, in nanoseconds by the time of files.
    pub captured_from: Option<i64>,
    /// The change set whose command has ended, and left the processes running that this one is about.
    pub continues: Option<ChangeId>,
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
    pub head: HeadTarget,
    /// How much of which change sets was undone afterwards.
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
    /// True if what is stored as a window was traced.
    #[serde(default)]
    traced: bool,
    /// What the trace told besides; none in rows of earlier versions.
    #[serde(default)]
    trace: Option<String>,
}

impl ChangeClosedPayload {
    const fn evidence(&self) -> Evidence {
        if self.traced { Evidence::Traced } else { self.evidence }
    }

    fn trace(&self) -> Result<Option<TraceReport>> {
        Ok(self.trace.as_deref().map(serde_json::from_str).transpose()?)
    }
}

/// What changed, in the payload of the event that closed a change set.
pub(crate) fn decode_changes(payload: Value) -> Result<Vec<FileChange>> {
    let end: ChangeClosedPayload = serde_json::from_value(payload)?;
    Ok(serde_json::from_str(&end.changes)?)
}

/// Reads change sets.
#[derive(Clone, Copy)]
pub struct ChangeSetQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl ChangeSetQueries<'_> {
    /// The change sets of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn list(&self, session: &SessionId) -> Result<Vec<ChangeSetRow>> {
        let num = self.read.session_num(session)?;
        self.load_all(
            "SELECT session, opened, closed FROM change WHERE session = ?1 ORDER BY num",
            [num],
        )
    }

    /// The change sets of a turn, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn of_turn(&self, session: &SessionId, turn: &TurnId) -> Result<Vec<ChangeSetRow>> {
        let num = self.read.session_num(session)?;
        self.load_all(
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
    pub fn between(&self, root: &str, from: LogCursor, to: LogCursor) -> Result<Vec<ChangeSetRow>> {
        self.load_all(
            "SELECT session, opened, closed FROM change
             WHERE root = ?1 AND (closed IS NULL OR closed > ?2) AND opened < ?3 ORDER BY num",
            (root, from.0, to.0),
        )
    }

    /// The roots with change sets that were open at some moment between two places in the log.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn roots_between(&self, from: LogCursor, to: LogCursor) -> Result<Vec<String>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT DISTINCT root FROM change
             WHERE (closed IS NULL OR closed > ?1) AND opened < ?2 AND root <> '' ORDER BY root",
        )?;
        let roots = statement.query_map((from.0, to.0), |row| row.get(0))?;
        Ok(roots.collect::<rusqlite::Result<_>>()?)
    }

    /// A change set of a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn find(&self, session: &SessionId, id: &ChangeId) -> Result<Option<ChangeSetRow>> {
        let num = self.read.session_num(session)?;
        let found = self.load_all(
            "SELECT session, opened, closed FROM change WHERE session = ?1 AND id = ?2",
            (num, id.as_str()),
        )?;
        Ok(found.into_iter().next())
    }

    /// The change sets that are open, on one root or on all; those of deleted sessions are not closed any more and
    /// go with their rows.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn list_open(&self, root: Option<&str>) -> Result<Vec<ChangeSetRow>> {
        self.load_all(
            "SELECT change.session, opened, closed FROM change
             JOIN session ON session.num = change.session
             WHERE closed IS NULL AND (?1 IS NULL OR root = ?1) AND session.hidden = 0
             ORDER BY change.num",
            [root],
        )
    }

    /// Tells whether a turn of a session is over and a change set of it is not.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn has_orphaned(&self, session: &SessionId) -> Result<bool> {
        let num = self.read.session_num(session)?;
        Ok(self
            .read
            .conn
            .prepare_cached(
                "SELECT 1 FROM change JOIN turn ON turn.id = change.turn
                 WHERE change.session = ?1 AND change.closed IS NULL AND turn.ended IS NOT NULL",
            )?
            .exists([num])?)
    }

    fn load_all(&self, sql: &'static str, values: impl Params) -> Result<Vec<ChangeSetRow>> {
        let mut statement = self.read.conn.prepare_cached(sql)?;
        let found: Vec<ChangeSetKey> = statement
            .query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        found.into_iter().map(|found| self.load(found)).collect()
    }

    fn load(&self, (session, opened, closed): ChangeSetKey) -> Result<ChangeSetRow> {
        let session: String = self
            .read
            .conn
            .prepare_cached("SELECT id FROM stream WHERE session = ?1")?
            .query_row([session], |row| row.get(0))?;
        let payload = load_payload(self.read.conn, self.read.blobs, opened)?;
        let copied = payload.get("copied").cloned();
        let copied = copied.map(serde_json::from_value).transpose()?;
        let open: NewChangeSet = serde_json::from_value(payload)?;
        let end: Option<ChangeClosedPayload> = closed
            .map(|at| load_payload(self.read.conn, self.read.blobs, at))
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
            evidence: end.as_ref().map_or(open.evidence, ChangeClosedPayload::evidence),
            outer: open.outer,
            changes,
            git,
            trace: end.as_ref().map(ChangeClosedPayload::trace).transpose()?.flatten(),
        };
        Ok(ChangeSetRow {
            set,
            named: open.named,
            outside: open.outside,
            before: open.before,
            not_covered: end.as_ref().map_or(0, |end| end.not_covered),
            after: end.and_then(|end| end.after),
            captured_from: open.captured_from,
            continues: open.continues,
            opened: LogCursor(opened),
            closed: closed.map(LogCursor),
            copied,
        })
    }

    /// How much of a change set is undone, by whichever session did it (R40).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn undone_extent(&self, change: &ChangeId) -> Result<UndoExtent> {
        let row: Option<Option<String>> = self
            .read
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
}

/// Reads operations: undo, redo, jump, fork and eviction.
#[derive(Clone, Copy)]
pub struct OperationQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl OperationQueries<'_> {
    /// The sessions with an operation that is not over; background operations do not count.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_in_operation(&self) -> Result<Vec<SessionId>> {
        let mut statement = self.read.conn.prepare_cached(
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

    /// The sessions of a project that may have something to redo, with their directories and the place in
    /// the log of their newest undo or jump: sessions with such an operation, or with a head that was set
    /// otherwise. Newest first; sessions that another one started, and archived ones, are omitted.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_with_undo(
        &self,
        project: &ProjectId,
    ) -> Result<Vec<(SessionId, String, LogCursor)>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.id, session.directory, coalesce(max(operation.planned), 0) AS newest
             FROM session LEFT JOIN operation
               ON operation.session = session.num AND operation.kind IN ('undo', 'jump')
             WHERE session.project = (SELECT num FROM project WHERE id = ?1) AND session.hidden = 0
               AND session.parent IS NULL AND session.archived IS NULL
             GROUP BY session.num
             HAVING newest > 0 OR EXISTS (SELECT 1 FROM head WHERE head.session = session.num)
             ORDER BY newest DESC",
        )?;
        let mut rows = statement.query([project.as_str()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push((parse_id(row.get(0)?)?, row.get(1)?, LogCursor(row.get(2)?)));
        }
        Ok(found)
    }

    /// The operations of all sessions that were under way at some moment between two places in
    /// the log, oldest first; those that are not over among them.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn between(&self, from: LogCursor, to: LogCursor) -> Result<Vec<OperationRow>> {
        self.load_all(
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
    pub fn list(&self, session: &SessionId) -> Result<Vec<OperationRow>> {
        let num = self.read.session_num(session)?;
        self.load_all(
            "SELECT operation.id, operation.kind, planned, done, time
             FROM operation JOIN event ON event.cursor = planned
             WHERE operation.session = ?1 ORDER BY operation.num",
            [num],
        )
    }

    fn load_all(&self, sql: &'static str, values: impl Params) -> Result<Vec<OperationRow>> {
        let mut statement = self.read.conn.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: String = row.get(1)?;
            let (planned, done): (i64, Option<i64>) = (row.get(2)?, row.get(3)?);
            let mut plan = load_payload(self.read.conn, self.read.blobs, planned)?;
            found.push(OperationRow {
                id: parse_id(row.get(0)?)?,
                kind: OperationKind::parse(&kind)
                    .ok_or_else(|| StoreError::Internal(format!("operation {kind:?}")))?,
                time: EpochMillis(row.get(4)?),
                planned: LogCursor(planned),
                ended: done.map(LogCursor),
                plan: plan.get_mut("plan").map(Value::take).unwrap_or_default(),
                done: done
                    .map(|at| load_payload(self.read.conn, self.read.blobs, at))
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
