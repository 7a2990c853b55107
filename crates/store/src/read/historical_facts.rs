//! Single facts of the past, without rebuilding the whole session.

use turnstone_core::event::EventKind;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::Todo;
use turnstone_core::permission::PermissionRule;
use turnstone_core::time::LogCursor;

use rusqlite::OptionalExtension;
use serde_json::Value;

use super::load::load_payload;
use crate::error::Result;
use crate::read::session_at_boundary::HistoryQueries;

impl HistoryQueries<'_> {
    /// The to-do list of a session at a place in the log; exact at boundaries (R25).
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn todos_at(&self, session: &SessionId, at: LogCursor) -> Result<Vec<Todo>> {
        let num = self.read.session_num(session)?;
        let image: Option<i64> = self
            .read
            .conn
            .prepare_cached(
                "SELECT cursor FROM event
                 WHERE session = ?1 AND cursor <= ?2 AND kind = ?3 AND payload IS NOT NULL
                 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row((num, at.0, EventKind::TodoUpdated.code()), |row| row.get(0))
            .optional()?;
        let Some(image) = image else {
            return Ok(Vec::new());
        };
        let mut value = load_payload(self.read.conn, self.read.blobs, image)?;
        Ok(serde_json::from_value(value["todos"].take())?)
    }

    /// The rules of a project that stand and were granted between two places in the log, in answer
    /// to requests of these sessions.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn rules_granted_between(
        &self,
        project: &ProjectId,
        sessions: &[SessionId],
        (from, to): (LogCursor, LogCursor),
    ) -> Result<Vec<PermissionRule>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT permission, pattern, action, granted FROM approval
             WHERE project = (SELECT num FROM project WHERE id = ?1)
               AND granted > ?2 AND granted < ?3 ORDER BY granted",
        )?;
        let mut rows = statement.query((project.as_str(), from.0, to.0))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let granted = load_payload(self.read.conn, self.read.blobs, row.get(3)?)?;
            let by = granted.get("session").and_then(Value::as_str);
            if by.is_none_or(|by| !sessions.iter().any(|session| session.as_str() == by)) {
                continue;
            }
            let (permission, pattern): (String, String) = (row.get(0)?, row.get(1)?);
            let action = serde_json::from_value(Value::String(row.get(2)?))?;
            found.push(PermissionRule::new(&permission, &pattern, action));
        }
        Ok(found)
    }
}
