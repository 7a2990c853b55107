//! A session's numbered stream, resolved like the log: what replicas and histories receive.

use rusqlite::OptionalExtension;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::time::SessionSeq;

use super::feed::{FeedBody, FeedCache, FeedEvent, FeedSession};
use super::reader::parse_id;
use super::sync_stream::{SyncBody, SyncEvent};
use crate::error::Result;
use crate::read::feed::FeedQueries;
use crate::table_row_ids::SessionNum;

impl FeedQueries<'_> {
    /// The events of a session numbered after `after` (-1 for all), at most `limit`, resolved.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`](crate::StoreError::NoSession) if there never was such a session.
    pub fn sync_after(
        &self,
        session: &SessionId,
        after: i64,
        limit: usize,
        memo: &mut FeedCache,
    ) -> Result<Vec<FeedEvent>> {
        let place: Option<(String, String)> = self
            .read
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
        let events = self.read.sync().after(session, after, limit)?;
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
        let (owner, seq, entity): (SessionNum, i64, i64) = self
            .read
            .conn
            .prepare_cached("SELECT session, seq, entity FROM event WHERE cursor = ?1")?
            .query_row([event.cursor.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let body = match event.body {
            SyncBody::Session(image) => FeedBody::Session(Box::new(self.historical_session(
                (owner, SessionSeq(seq), event.cursor),
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
}
