//! Shares: the link is an event, the secret stays in a table of its own.

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use serde_json::json;
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;

use crate::error::Result;
use crate::payload::PreparedPayload;
use crate::read::parse_stored;
use crate::table_row_ids::SessionNum;
use crate::tx::{EventDraft, Tx, WriteOutcome};

/// How a session is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareRecord {
    /// The hub's name of the share.
    pub id: String,
    /// What allows to change or end it; never part of an event.
    pub secret: String,
    /// The link.
    pub url: String,
}

/// Writes how sessions are shared.
#[derive(Clone, Copy)]
pub struct ShareMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl ShareMutations<'_> {
    /// Records that a session is shared. Its later events go to the outbox.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn put(&self, session: &SessionId, share: &ShareRecord) -> Result<WriteOutcome> {
        let num = self.tx.session_num(session)?;
        let found = self.find(num)?;
        if found.as_ref() == Some(share) {
            return Ok(WriteOutcome::No);
        }
        self.tx
            .conn
            .prepare_cached(
                "INSERT OR REPLACE INTO share_secret (session, secret) VALUES (?1, ?2)",
            )?
            .execute((num, &share.secret))?;
        let payload = PreparedPayload::new(&json!({ "id": share.id, "url": share.url }))?;
        let draft = EventDraft::new(Some(num), EventKind::ShareCreated, Some(num.0));
        self.tx.append(&draft.payload(payload))?;
        Ok(if found.is_some() { WriteOutcome::Updated } else { WriteOutcome::Created })
    }

    /// Records that a session is shared no longer; its secret and its outbox are gone.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn remove(&self, session: &SessionId) -> Result<WriteOutcome> {
        let num = self.tx.session_num(session)?;
        if self.find(num)?.is_none() {
            return Ok(WriteOutcome::No);
        }
        self.tx.append(&EventDraft::new(Some(num), EventKind::ShareRemoved, Some(num.0)))?;
        self.tx
            .conn
            .prepare_cached("DELETE FROM share_secret WHERE session = ?1")?
            .execute([num])?;
        Ok(WriteOutcome::Updated)
    }

    fn find(&self, session: SessionNum) -> Result<Option<ShareRecord>> {
        find_share(self.tx.conn, session)
    }

    /// Forgets outbox rows the hub has acknowledged: those of a session up to `num`.
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn acknowledge_outbox(&self, session: &SessionId, num: i64) -> Result<usize> {
        let session = self.tx.session_num(session)?;
        Ok(self.tx
            .conn
            .prepare_cached(
                "DELETE FROM outbox WHERE num IN
                   (SELECT num FROM outbox WHERE session = ?1 AND num <= ?2 ORDER BY num LIMIT 400)",
            )?
            .execute((session, num))?)
    }
}

/// The share of a deleted session: its hub still shows it, because only a later version can end it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrevokedShare {
    /// The deleted session.
    pub session: SessionId,
    /// How it is shared.
    #[serde(flatten)]
    pub share: ShareRecord,
}

/// Keeps how a session is shared before the session is deleted: without the secret no one could end the share.
pub(crate) fn keep_unrevoked_share(tx: &Tx<'_>, num: SessionNum, id: &str) -> Result<()> {
    let Some(share) = find_share(tx.conn, num)? else { return Ok(()) };
    let kept = UnrevokedShare { session: parse_stored(id.to_owned())?, share };
    tx.conn
        .prepare_cached("INSERT OR REPLACE INTO note (key, value) VALUES ('share:' || ?1, ?2)")?
        .execute((id, serde_json::to_string(&kept)?))?;
    tx.conn.prepare_cached("DELETE FROM share_secret WHERE session = ?1")?.execute([num])?;
    Ok(())
}

/// The share of a session with its secret.
pub(crate) fn find_share(
    conn: &rusqlite::Connection,
    session: SessionNum,
) -> Result<Option<ShareRecord>> {
    Ok(conn
        .prepare_cached(
            "SELECT share.id, coalesce(secret, ''), url FROM share
             LEFT JOIN share_secret USING (session) WHERE share.session = ?1",
        )?
        .query_row([session], |row| {
            Ok(ShareRecord { id: row.get(0)?, secret: row.get(1)?, url: row.get(2)? })
        })
        .optional()?)
}
