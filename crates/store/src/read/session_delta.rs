//! What an event of a session changed apart from its text: who answers, and where its head is.

use rusqlite::OptionalExtension;
use turnstone_core::id::MessageId;
use turnstone_core::model::{Session, SessionModel};
use turnstone_core::operation::{OperationKind, SessionHead};
use turnstone_core::time::{LogCursor, SessionSeq};

use super::feed::{FeedBody, FeedEvent};
use crate::error::Result;
use crate::payload;
use crate::read::session_at_boundary::HistoryQueries;
use crate::table_row_ids::SessionNum;

/// What is different since the event of the session before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionDelta {
    /// The agent that answers from now on.
    pub agent: Option<String>,
    /// The model that answers from now on.
    pub model: Option<SessionModel>,
    /// Where the session stands from now on.
    pub head: Option<HeadDelta>,
}

/// Where a session stands now and did not stand before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadDelta {
    /// Before its end.
    MovedTo(SessionHead),
    /// At its end again: what was behind the head is back.
    Tip,
    /// At its end, which is where the head was: what began with this message is hidden (R19).
    Branched(MessageId),
}

impl HistoryQueries<'_> {
    /// What an event that carries a session changed of it; nothing of the first one and of others.
    ///
    /// Does not depend on when it is read. Where compaction took events, the one that stands in for
    /// the first of them tells all they changed (R25).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`](crate::StoreError::NoSession) if there never was such a session.
    pub fn session_delta(&self, event: &FeedEvent) -> Result<SessionDelta> {
        let (FeedBody::Session(then), Some(place)) = (&event.body, &event.session) else {
            return Ok(SessionDelta::default());
        };
        let num = super::log::stream_num(&self.read, &place.id)?;
        let Some((before, cursor)) = self.previous_session(num, SessionSeq(place.seq.0))? else {
            return Ok(SessionDelta::default());
        };
        let now = &then.session;
        let agent = now.agent.clone().filter(|_| now.agent != before.agent);
        let model = now.model.as_ref();
        let model = model.filter(|model| before.model.as_ref().is_none_or(|it| !it.is_same(model)));
        let stood = self.read.feed().head_at(num, LogCursor(cursor))?.0;
        let head = match (&then.head, stood) {
            (now, stood) if *now == stood => None,
            (Some(head), _) => Some(HeadDelta::MovedTo(head.clone())),
            (None, Some(head)) if self.is_branched(num, LogCursor(event.cursor.0))? => {
                Some(HeadDelta::Branched(head.message))
            }
            (None, _) => Some(HeadDelta::Tip),
        };
        Ok(SessionDelta { agent, model: model.cloned(), head })
    }

    /// The session as the event of it before `seq` tells it, and that event's place in the log.
    fn previous_session(
        &self,
        session: SessionNum,
        seq: SessionSeq,
    ) -> Result<Option<(Session, i64)>> {
        let before: Option<(i64, i64)> = self
            .read
            .conn
            .prepare_cached(
                "SELECT seq, cursor FROM event
                 WHERE session = ?1 AND seq < ?2 AND kind IN (10, 11) ORDER BY seq DESC LIMIT 1",
            )?
            .query_row((session, seq.0), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((before, cursor)) = before else { return Ok(None) };
        // What compaction removed is contained in the next retained event.
        let (json, refs): (String, Option<String>) = self
            .read
            .conn
            .prepare_cached(
                "SELECT payload, refs FROM event
                 WHERE session = ?1 AND seq >= ?2 AND kind IN (10, 11) AND payload IS NOT NULL
                 ORDER BY seq LIMIT 1",
            )?
            .query_row((session, before), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let value =
            payload::restore_long_strings(self.read.conn, self.read.blobs, &json, refs.as_deref())?;
        Ok(Some((serde_json::from_value(value)?, cursor)))
    }

    /// True if what moved the head last, up to `cursor`, hid what was behind it.
    fn is_branched(&self, session: SessionNum, cursor: LogCursor) -> Result<bool> {
        let kind: Option<String> = self
            .read
            .conn
            .prepare_cached(
                "SELECT operation.kind FROM operation JOIN event ON event.cursor = operation.done
                 WHERE operation.session = ?1 AND operation.done <= ?2
                   AND event.payload ->> '$.head' <> 'stay'
                 ORDER BY operation.done DESC LIMIT 1",
            )?
            .query_row((session, cursor.0), |row| row.get(0))
            .optional()?;
        Ok(kind.is_some_and(|kind| kind == OperationKind::Branch.as_str()))
    }
}
