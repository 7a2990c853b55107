//! A session's numbered stream, resolved like the log: what replicas and histories are told.

use rusqlite::OptionalExtension;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::SessionStatus;
use turnstone_core::time::SessionSeq;

use super::feed::{FeedBody, FeedCache, FeedEvent, FeedSession};
use super::load::load_payload;
use super::reader::{ReadTx, parse_id};
use super::sync_stream::{SyncBody, SyncEvent};
use crate::error::Result;

impl ReadTx<'_> {
    /// The events of a session numbered after `after` (-1 for all), at most `limit`, resolved.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`](crate::StoreError::NoSession) if there never was such a session.
    pub fn feed_sync(
        &self,
        session: &SessionId,
        after: i64,
        limit: usize,
        memo: &mut FeedCache,
    ) -> Result<Vec<FeedEvent>> {
        let place: Option<(String, String)> = self
            .conn
            .prepare_cached(
                "SELECT directory, project.id FROM session
                 JOIN project ON project.num = session.project WHERE session.id = ?1",
            )?
            .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let place = match place {
            Some((directory, project)) => Some((directory, parse_id::<ProjectId>(project)?)),
            None => None,
        };
        let events = self.sync_after(session, after, limit)?;
        events
            .into_iter()
            .map(|event| self.resolve_sync_event(session, &place, event, memo))
            .collect()
    }

    fn resolve_sync_event(
        &self,
        session: &SessionId,
        place: &Option<(String, ProjectId)>,
        event: SyncEvent,
        memo: &mut FeedCache,
    ) -> Result<FeedEvent> {
        let (owner, seq, entity): (i64, i64, i64) = self
            .conn
            .prepare_cached("SELECT session, seq, entity FROM event WHERE cursor = ?1")?
            .query_row([event.cursor.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let body = match event.body {
            SyncBody::Session(image) => FeedBody::Session(Box::new(self.historical_session(
                (owner, seq, event.cursor.0),
                *image,
                memo,
            )?)),
            SyncBody::SessionDeleted => FeedBody::SessionDeleted(None),
            SyncBody::Message(message) => FeedBody::Message(message),
            SyncBody::MessageRemoved(message) => FeedBody::MessageRemoved(message),
            SyncBody::Part(part) => FeedBody::Part(part),
            SyncBody::PartRemoved { message, part } => FeedBody::PartRemoved { message, part },
        };
        let sync_seq = Some(event.sync_seq);
        let session = FeedSession {
            id: session.clone(),
            seq: SessionSeq(seq),
            sync_seq,
            location: place.clone(),
        };
        Ok(FeedEvent {
            cursor: event.cursor,
            time: event.time,
            kind: event.kind,
            is_first: event.cursor.0 == entity,
            session: Some(session),
            body,
        })
    }

    /// All sessions that live, oldest first, each with the number of its newest event.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_with_sync_seq(&self) -> Result<Vec<(SessionId, i64)>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT session.id, stream.sync_seq FROM session
             JOIN stream ON stream.session = session.num WHERE hidden = 0 ORDER BY session.num",
        )?;
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let parsed = |row: rusqlite::Result<(String, i64)>| {
            let (id, number) = row?;
            Ok((parse_id(id)?, number))
        };
        rows.map(parsed).collect()
    }

    /// What the sessions of a directory are doing; those that do nothing are left out (R45).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn active_statuses(&self, directory: &str) -> Result<Vec<(SessionId, SessionStatus)>> {
        let mut statement = self.conn.prepare_cached(
            "SELECT session.id, turn.status FROM turn JOIN session ON session.num = turn.session
             WHERE turn.ended IS NULL AND hidden = 0 AND directory = ?1 ORDER BY turn.num",
        )?;
        let mut rows = statement.query([directory])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: SessionId = parse_id(row.get(0)?)?;
            let status = match row.get::<_, Option<i64>>(1)? {
                None => SessionStatus::Busy,
                Some(at) => {
                    let mut value = load_payload(self.conn, self.blobs, at)?;
                    serde_json::from_value(value["status"].take())?
                }
            };
            found.push((id, status));
        }
        Ok(found)
    }
}
