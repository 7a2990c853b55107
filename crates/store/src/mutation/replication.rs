//! Events of another store, taken over with the numbers they have there (R25).
//!
//! A replica numbers what it takes over as the origin did, so every event taken over appends exactly one,
//! even one that changes nothing.

use rusqlite::OptionalExtension;
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::model::Session;
use turnstone_core::time::LogCursor;

use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::read::{SyncBody, find_message, find_part, load_payload, usage_from_row};
use crate::tx::{EventDraft, Tx, WriteOutcome};

/// What became of an event of another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ReplicationOutcome {
    /// It was taken over.
    Now,
    /// Its number was taken before.
    Before,
}

/// Applies numbered events that another store recorded.
#[derive(Clone, Copy)]
pub struct SyncMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl SyncMutations<'_> {
    /// Takes over the event numbered `number` of a session; one whose number is taken changes nothing.
    ///
    /// A deletion is not taken over here: it is more than one event, see
    /// [`Store::delete_session`](crate::Store::delete_session).
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if numbers are left out, or if the event does not fit what is there.
    pub fn replicate(
        &self,
        session: &SessionId,
        number: i64,
        body: &SyncBody,
    ) -> Result<ReplicationOutcome> {
        let latest = self.latest_seq(session)?.unwrap_or(-1);
        if number <= latest {
            return Ok(ReplicationOutcome::Before);
        }
        if number != latest + 1 {
            let next = latest + 1;
            let why = format!("{session} goes on with number {next}, not with {number}");
            return Err(StoreError::Invalid(why));
        }
        match body {
            SyncBody::Session(image) => self.replicate_session(number, image)?,
            SyncBody::Message(message) => {
                if self.tx.messages().put(message)? == WriteOutcome::No {
                    let found = find_message(self.tx.conn, &message.id)?;
                    let found = found.map(|found| (found.num.0, LogCursor(found.image)));
                    self.reappend_image(session, EventKind::MessageUpdated, found)?;
                }
            }
            SyncBody::Part(part) => {
                if self.tx.messages().put_part(part)? == WriteOutcome::No {
                    let found = find_part(self.tx.conn, &part.id)?;
                    let found = found.map(|found| (found.num.0, LogCursor(found.image)));
                    self.reappend_image(session, EventKind::PartUpdated, found)?;
                }
            }
            SyncBody::MessageRemoved(message) => self.tx.messages().remove(session, message)?,
            SyncBody::PartRemoved { part, .. } => self.tx.messages().remove_part(session, part)?,
            SyncBody::SessionDeleted => {
                return Err(StoreError::Invalid("a deletion is no single event".to_owned()));
            }
        }
        Ok(ReplicationOutcome::Now)
    }

    /// The number of the newest event of a session that lives; none if there is no such session.
    pub(crate) fn latest_seq(&self, session: &SessionId) -> Result<Option<i64>> {
        let row: Option<(i64, bool)> = self
            .tx
            .conn
            .prepare_cached("SELECT sync_seq, deleted FROM stream WHERE id = ?1")?
            .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match row {
            Some((_, true)) => Err(StoreError::Deleted(session.clone())),
            Some((number, false)) => Ok(Some(number)),
            None => Ok(None),
        }
    }

    fn replicate_session(&self, number: i64, image: &Session) -> Result<()> {
        if number == 0 {
            self.tx.sessions().create(image)?;
            return Ok(());
        }
        let mut image = image.clone();
        let num = self.tx.session_num(&image.id)?;
        // What the origin counted covers the steps that were taken over so far.
        if let Some(base) = &mut image.usage_base {
            base.counted = self
                .tx
                .conn
                .prepare_cached(
                    "SELECT cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read,
                            tokens_cache_write FROM session WHERE num = ?1",
                )?
                .query_row([num], usage_from_row::<0>)?;
        }
        if self.tx.sessions().put(&image)? == WriteOutcome::No {
            let now: i64 = self
                .tx
                .conn
                .prepare_cached("SELECT image FROM session WHERE num = ?1")?
                .query_row([num], |row| row.get(0))?;
            self.reappend_image(
                &image.id,
                EventKind::SessionUpdated,
                Some((num.0, LogCursor(now))),
            )?;
        }
        Ok(())
    }

    /// Appends the newest image of a thing once more: `(number, image)`.
    fn reappend_image(
        &self,
        session: &SessionId,
        kind: EventKind,
        found: Option<(i64, LogCursor)>,
    ) -> Result<()> {
        let owner = self.tx.session_num(session)?;
        let Some((num, image)) = found else {
            return Err(StoreError::Internal(format!("{kind} of nothing")));
        };
        let value = load_payload(self.tx.conn, self.tx.blobs, image.0)?;
        let draft =
            EventDraft::new(Some(owner), kind, Some(num)).payload(PreparedPayload::new(&value)?);
        self.tx.append(&draft)?;
        Ok(())
    }
}
