//! Queries on shared sessions and their outbox.

use crate::read::reader::ReadTx;
use turnstone_core::id::SessionId;
use turnstone_core::time::LogCursor;

use crate::error::Result;
use crate::mutation::{ShareRecord, UnrevokedShare, find_share};

/// Reads how sessions are shared and what waits to be sent.
#[derive(Clone, Copy)]
pub struct ShareQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl ShareQueries<'_> {
    /// How a session is shared, with its secret.
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn find(&self, id: &SessionId) -> Result<Option<ShareRecord>> {
        find_share(self.read.conn, self.read.session_num(id)?)
    }

    /// The shares of deleted sessions, which their hubs still show.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn list_unrevoked(&self) -> Result<Vec<UnrevokedShare>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT value FROM note WHERE key >= 'share:' AND key < 'share;' ORDER BY key",
        )?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        let values: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
        values.iter().map(|value| Ok(serde_json::from_str(value)?)).collect()
    }

    /// The outbox rows of a session after `num`: `(num, cursor)`, oldest first.
    ///
    /// # Errors
    ///
    /// `StoreError::NoSession`.
    pub fn outbox(
        &self,
        session: &SessionId,
        num: i64,
        limit: usize,
    ) -> Result<Vec<(i64, LogCursor)>> {
        let session = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(
            "SELECT num, cursor FROM outbox WHERE session = ?1 AND num > ?2 ORDER BY num LIMIT ?3",
        )?;
        let rows = statement.query_map((session, num, limit as i64), |row| {
            Ok((row.get(0)?, LogCursor(row.get(1)?)))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
