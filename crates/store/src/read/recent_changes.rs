//! What was touched lately, each entity once and whole, for readers that may have missed it.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::event::{EntityClass, EventKind};
use turnstone_core::time::{EpochMillis, LogCursor};

use super::feed::{FeedBody, FeedCache, FeedEvent, FeedRow};
use super::load::{PartLocation, load_part};
use crate::error::Result;
use crate::read::feed::FeedQueries;
use rusqlite::OptionalExtension;

const EVENTS_BACKWARDS: &str = "
SELECT cursor, event.session, stream.id, stream.deleted, event.seq, event.sync_seq, kind, entity,
       time, payload, refs, text_from, text_to, session.directory, project.id
FROM event LEFT JOIN stream ON stream.session = event.session
LEFT JOIN session ON session.num = event.session
LEFT JOIN project ON project.num = session.project
WHERE cursor <= ?1 AND time >= ?2 ORDER BY cursor DESC LIMIT ?3";

impl FeedQueries<'_> {
    /// The newest state of each thing touched since `since` and up to `upto`, looking at no more than
    /// `most` events: sessions, messages, parts with all their text, lists, requests, and what each
    /// session is doing. Never a delta. In the order in which they were last touched.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn latest_states_since(
        &self,
        upto: LogCursor,
        since: EpochMillis,
        most: usize,
    ) -> Result<Vec<FeedEvent>> {
        let mut statement = self.read.conn.prepare_cached(EVENTS_BACKWARDS)?;
        let mut rows = statement.query((upto.0, since.0, most as i64))?;
        let mut memo = FeedCache::default();
        let mut seen = BTreeSet::new();
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let entry = self.row(row)?;
            let Some(class) = resent_class(entry.kind) else { continue };
            if entry.id.is_none() || !seen.insert((class, dedup_key(&entry, class))) {
                continue;
            }
            if let Some(event) = self.current_event(entry, class, &mut memo)? {
                found.insert(event.cursor, event);
            }
        }
        Ok(found.into_values().collect())
    }

    fn current_event(
        &self,
        entry: FeedRow,
        class: EntityClass,
        memo: &mut FeedCache,
    ) -> Result<Option<FeedEvent>> {
        if class == EntityClass::Status {
            let Some(id) = entry.id.as_ref() else { return Ok(None) };
            let status = match self.read.sessions().find(id)? {
                Some(_) => self.read.sessions().status(id)?,
                None => return Ok(None),
            };
            return Ok(Some(self.event(entry, FeedBody::Status(status))));
        }
        if matches!(entry.kind, EventKind::PartUpdated | EventKind::PartDelta) {
            let part = self.current_part(&entry, memo)?;
            return Ok(part.map(|body| self.event(entry, body)));
        }
        let event = self.resolve_row(entry, memo)?;
        Ok((!matches!(event.body, FeedBody::Stub { .. })).then_some(event))
    }

    /// A part with the text it has by now, if it is still there.
    fn current_part(&self, entry: &FeedRow, memo: &mut FeedCache) -> Result<Option<FeedBody>> {
        let found = self
            .read
            .conn
            .prepare_cached(
                "SELECT num, message, session, image, text_len FROM part WHERE num = ?1",
            )?
            .query_row([entry.entity], PartLocation::from_row)
            .optional()?;
        let (Some(found), Some(session)) = (found, &entry.id) else { return Ok(None) };
        let message = super::sync_stream::message_id(
            &self.read,
            found.session,
            Some(found.message),
            &mut memo.messages,
        )?;
        let part = load_part(self.read.conn, self.read.blobs, (session, &message), found)?;
        Ok(Some(FeedBody::Part(Box::new(part))))
    }
}

/// Under which class an event is sent again; turns are sent as the status of their session.
const fn resent_class(kind: EventKind) -> Option<EntityClass> {
    match kind.class() {
        EntityClass::Turn | EntityClass::Status => Some(EntityClass::Status),
        class @ (EntityClass::Session
        | EntityClass::Message
        | EntityClass::Part
        | EntityClass::Todo
        | EntityClass::Request
        | EntityClass::Diff) => Some(class),
        EntityClass::Project
        | EntityClass::Approval
        | EntityClass::Input
        | EntityClass::Share
        | EntityClass::Change
        | EntityClass::Operation => None,
    }
}

fn dedup_key(entry: &FeedRow, class: EntityClass) -> i64 {
    if class == EntityClass::Status {
        entry.owner.map_or(entry.entity, |owner| owner.0)
    } else {
        entry.entity
    }
}
