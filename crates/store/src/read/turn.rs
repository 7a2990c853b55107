//! Queries on turns and on the lease of a session.

use rusqlite::Row;
use turnstone_core::call_context::OwnerId;
use turnstone_core::id::{MessageId, ProjectId, SessionId, TurnId};
use turnstone_core::time::LogCursor;
use turnstone_core::turn::TurnState;

use crate::read::reader::{ReadTx, parse_id};
use crate::table_row_ids::SessionNum;

use super::load::{find_open_turn, is_abort_requested};
use crate::error::{Result, StoreError};

/// A turn as readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Names the turn.
    pub id: TurnId,
    /// The message that began it.
    pub message: MessageId,
    /// How far it got.
    pub state: TurnState,
    /// When it began to run.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: Option<i64>,
    /// True if its message was hidden by a branch, or removed.
    pub hidden: bool,
    /// True if an import brought it: another program ran it.
    pub imported: bool,
    /// Where in the log it was accepted and where it last moved: its end, once it has ended.
    pub span: (LogCursor, LogCursor),
}

/// A turn in a list of the turns of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectTurnRow {
    /// Its session.
    pub session: SessionId,
    /// The directory of that session.
    pub directory: String,
    /// The turn.
    pub turn: TurnRow,
    /// True if its prompt is older than its session, and it began with it: in a fork it is a copy.
    pub predates_session: bool,
}

/// The columns of a turn, as `turn_from_row` reads them.
macro_rules! turn_columns {
    () => {
        "turn.id, turn.message, turn.state, turn.started, turn.ended, turn.num, turn.image,
         NOT EXISTS (SELECT 1 FROM message WHERE message.id = turn.message),
         EXISTS (SELECT 1 FROM event JOIN actor ON actor.num = event.actor
                 WHERE event.cursor = turn.num
                   AND (actor.name = 'import' OR actor.name LIKE 'import' || char(10) || '%'))"
    };
}

/// The turn in the columns `turn_columns`.
fn turn_from_row(row: &Row<'_>) -> Result<TurnRow> {
    let state: String = row.get(2)?;
    Ok(TurnRow {
        id: parse_id(row.get(0)?)?,
        message: parse_id(row.get(1)?)?,
        state: TurnState::parse(&state)
            .ok_or_else(|| StoreError::Internal(format!("turn state {state:?}")))?,
        started: row.get(3)?,
        ended: row.get(4)?,
        hidden: row.get(7)?,
        imported: row.get(8)?,
        span: (LogCursor(row.get(5)?), LogCursor(row.get(6)?)),
    })
}

/// Reads turns and the lease of a session.
#[derive(Clone, Copy)]
pub struct TurnQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl TurnQueries<'_> {
    /// The turns of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn list(&self, session: &SessionId) -> Result<Vec<TurnRow>> {
        let num = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(concat!(
            "SELECT ",
            turn_columns!(),
            " FROM turn WHERE session = ?1 ORDER BY num"
        ))?;
        let mut rows = statement.query([num])?;
        let mut turns = Vec::new();
        while let Some(row) = rows.next()? {
            turns.push(turn_from_row(row)?);
        }
        Ok(turns)
    }

    /// The turns of the sessions of a project that were accepted before a place in the log, newest first.
    /// Sessions that another one started, and archived ones, are omitted.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn list_in_project(
        &self,
        project: &ProjectId,
        before: LogCursor,
        limit: usize,
    ) -> Result<Vec<ProjectTurnRow>> {
        let mut statement = self.read.conn.prepare_cached(concat!(
            "SELECT ",
            turn_columns!(),
            ", session.id, session.directory,
             COALESCE(turn.started >= session.created AND session.created >
                (SELECT created FROM message WHERE message.id = turn.message), 0)
             FROM turn JOIN session ON session.num = turn.session
             WHERE session.project = (SELECT num FROM project WHERE id = ?1) AND session.hidden = 0
               AND session.parent IS NULL AND session.archived IS NULL AND turn.num < ?2
             ORDER BY turn.num DESC LIMIT ?3"
        ))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query((project.as_str(), before.0, limit))?;
        let mut turns = Vec::new();
        while let Some(row) = rows.next()? {
            turns.push(ProjectTurnRow {
                turn: turn_from_row(row)?,
                session: parse_id(row.get(9)?)?,
                directory: row.get(10)?,
                predates_session: row.get(11)?,
            });
        }
        Ok(turns)
    }

    /// The running turns of all sessions: session number, turn, owner.
    pub(crate) fn running(&self) -> Result<Vec<(SessionNum, String, Option<OwnerId>)>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT turn.session, turn.id, stream.owner FROM turn
             JOIN stream ON stream.session = turn.session
             WHERE turn.ended IS NULL AND turn.state = 'running' ORDER BY turn.num",
        )?;
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?.map(OwnerId::new)))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Tells whether somebody asked for the open turn of a session to be aborted.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn is_abort_requested(&self, session: &SessionId) -> Result<bool> {
        let num = self.read.session_num(session)?;
        match find_open_turn(self.read.conn, num)? {
            Some(turn) => is_abort_requested(self.read.conn, num, turn),
            None => Ok(false),
        }
    }

    /// Who holds the lease on a session, if somebody does.
    pub(crate) fn lease_holder(&self, session: &SessionId) -> Result<Option<OwnerId>> {
        let num = self.read.session_num(session)?;
        let owner: Option<String> = self
            .read
            .conn
            .prepare_cached("SELECT owner FROM stream WHERE session = ?1")?
            .query_row([num], |row| row.get(0))?;
        Ok(owner.map(OwnerId::new))
    }

    /// The sessions with a turn that has not ended.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_with_open(&self) -> Result<Vec<SessionId>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT session.id FROM turn JOIN session ON session.num = turn.session
             WHERE turn.ended IS NULL AND session.hidden = 0 ORDER BY turn.num",
        )?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        let wrong = |_| StoreError::Invalid("a session has an invalid id".to_owned());
        rows.map(|id| SessionId::try_from(id?).map_err(wrong)).collect()
    }
}
