//! A transaction as mutations see it: state is read and events are appended here.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use turnstone_core::event::{EntityClass, EventKind};
use turnstone_core::id::SessionId;
use turnstone_core::model::SCHEMA_VERSION;
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};

use crate::actor_name;
use crate::blob::{self, BlobDir};
use crate::checksum::ChecksummedEvent;
use crate::context::Context;
use crate::error::{Result, StoreError};
use crate::payload::PreparedPayload;
use crate::projection;

/// The limits of one transaction (R23).
const MAX_ROWS: u64 = 500;
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// A group takes no further member once it is this far.
const GROUP_FULL_ROWS: u64 = 400;
const GROUP_FULL_BYTES: u64 = 3 * 1024 * 1024;

/// What a write did to the thing it named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum WriteOutcome {
    /// It was not there before.
    Created,
    /// It was there and differed.
    Updated,
    /// It was there, the same: nothing was written.
    No,
}

/// Where an appended event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EventPosition {
    /// Its place in the log.
    pub cursor: LogCursor,
    /// Its place in the session's stream; absent for events of no session.
    pub seq: Option<SessionSeq>,
}

/// What the members of one group share.
pub(crate) struct CommitGroup {
    /// The newest cursor, counting what this group appended.
    pub(crate) cursor: Cell<i64>,
    /// The newest cursor before the group began: later events are not visible to anybody yet.
    pub(crate) committed_cursor: i64,
    /// Rows touched so far (R23).
    pub(crate) rows: Cell<u64>,
    /// Bytes added so far (R23).
    pub(crate) bytes: Cell<u64>,
    /// The most rows one member touched.
    pub(crate) largest: Cell<u64>,
    /// Actor numbers looked up in this group.
    pub(crate) actors: RefCell<HashMap<String, i64>>,
}

impl CommitGroup {
    /// Counts the rows a member touched, or says that the transaction is too large with it.
    pub(crate) fn count_rows(&self, changes: u64) -> Result<()> {
        let (rows, bytes) = (self.rows.get() + changes, self.bytes.get());
        if rows > MAX_ROWS || bytes > MAX_BYTES {
            return Err(StoreError::TooLarge { rows, bytes });
        }
        self.rows.set(rows);
        self.largest.set(self.largest.get().max(changes));
        Ok(())
    }

    /// True if the next member should wait for the next group: also if one as large as those before it
    /// would not fit, because then all of them would have to be run again.
    pub(crate) fn is_full(&self) -> bool {
        let rows = self.rows.get();
        rows >= GROUP_FULL_ROWS
            || rows + self.largest.get() > MAX_ROWS
            || self.bytes.get() >= GROUP_FULL_BYTES
    }
}

/// An event about to be appended.
pub(crate) struct EventDraft {
    pub(crate) session: Option<i64>,
    pub(crate) kind: EventKind,
    /// The entity's number; `None` for a new one, which takes the event's cursor.
    pub(crate) entity: Option<i64>,
    pub(crate) payload: Option<PreparedPayload>,
    pub(crate) text: Option<(i64, i64)>,
    /// Who may write it while a turn is open.
    pub(crate) permission: AppendPermission,
}

/// Where in its session's stream an event goes, and whether the session is shared.
#[derive(Clone, Copy)]
struct AssignedSeq {
    seq: i64,
    sync_seq: Option<i64>,
    shared: bool,
}

/// Who may append an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppendPermission {
    /// Decided by the kind: turn-owned rows need the lease while a turn is open.
    ByKind,
    /// Anybody: prompts put into the inbox, and recovery after a takeover.
    Unrestricted,
}

impl EventDraft {
    pub(crate) fn new(session: Option<i64>, kind: EventKind, entity: Option<i64>) -> Self {
        Self {
            session,
            kind,
            entity,
            payload: None,
            text: None,
            permission: AppendPermission::ByKind,
        }
    }

    pub(crate) fn payload(mut self, payload: PreparedPayload) -> Self {
        self.payload = Some(payload);
        self
    }

    pub(crate) fn text(mut self, from: i64, to: i64) -> Self {
        self.text = Some((from, to));
        self
    }

    pub(crate) fn unrestricted(mut self) -> Self {
        self.permission = AppendPermission::Unrestricted;
        self
    }
}

/// One mutation inside a group's transaction (R22). An error rolls back this mutation alone.
pub struct Tx<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) blobs: &'a BlobDir,
    pub(crate) ctx: &'a Context,
    pub(crate) group: &'a CommitGroup,
    /// The expected sequence number is compared once, by the first event of the call.
    expected: Cell<Option<SessionSeq>>,
    /// The number of who acts, once it was looked up.
    acting: Cell<Option<i64>>,
    last: Cell<Option<EventPosition>>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(
        conn: &'a Connection,
        blobs: &'a BlobDir,
        ctx: &'a Context,
        group: &'a CommitGroup,
    ) -> Self {
        let expected = Cell::new(ctx.expected_seq);
        let (acting, last) = (Cell::new(None), Cell::new(None));
        Self { conn, blobs, ctx, group, expected, acting, last }
    }

    /// The moment of the call.
    #[must_use]
    pub fn now(&self) -> EpochMillis {
        self.ctx.now
    }

    /// Appends an event and applies it to the projections.
    pub(crate) fn append(&self, draft: &EventDraft) -> Result<EventPosition> {
        let place = match draft.session {
            Some(session) => Some(self.assign_seqs(session, draft, 1)?),
            None => None,
        };
        self.append_with_seq(place, draft)
    }

    /// Appends events to one session for which the same holds; their places are assigned at once.
    pub(crate) fn append_batch(&self, session: i64, drafts: &[EventDraft]) -> Result<()> {
        let Some(first) = drafts.first() else { return Ok(()) };
        let terms = |draft: &EventDraft| {
            let (durable, owned) = (draft.kind.is_opencode_durable(), draft.kind.is_turn_owned());
            (draft.session, durable, owned, draft.permission == AppendPermission::ByKind)
        };
        if drafts.iter().any(|draft| terms(draft) != terms(first)) {
            return Err(StoreError::Internal("events on different terms".to_owned()));
        }
        let last = self.assign_seqs(session, first, drafts.len() as i64)?;
        for (draft, behind) in drafts.iter().zip((0..drafts.len() as i64).rev()) {
            let place = AssignedSeq {
                seq: last.seq - behind,
                sync_seq: last.sync_seq.map(|seq| seq - behind),
                shared: last.shared,
            };
            self.append_with_seq(Some(place), draft)?;
        }
        Ok(())
    }

    fn append_with_seq(
        &self,
        place: Option<AssignedSeq>,
        draft: &EventDraft,
    ) -> Result<EventPosition> {
        let cursor = self.group.cursor.get() + 1;
        let entity = draft.entity.unwrap_or(cursor);
        self.insert_event(cursor, place, entity, draft)?;
        self.group.cursor.set(cursor);
        if let Some(prepared) = &draft.payload {
            self.store_blobs(cursor, prepared)?;
        }
        let stored = projection::ProjectionEvent {
            cursor,
            session: draft.session,
            seq: place.map_or(0, |p| p.seq),
            kind: draft.kind,
            entity,
            actor: self.acting_actor_num()?,
            time: self.ctx.now.0,
            payload: draft.payload.as_ref().map(|p| p.json.as_str()),
            text: draft.text,
        };
        projection::apply_event(self.conn, &stored)?;
        // Sharing itself changes whether the session is shared.
        if draft.kind.class() == EntityClass::Share || place.is_some_and(|p| p.shared) {
            self.enqueue_outbox(draft, cursor)?;
        }
        if self.last.get().is_none() {
            self.record_call_start(cursor)?;
        }
        let appended =
            EventPosition { cursor: LogCursor(cursor), seq: place.map(|p| SessionSeq(p.seq)) };
        self.last.set(Some(appended));
        Ok(appended)
    }

    /// Where the newest event of this mutation stands; absent if it changed nothing.
    #[must_use]
    pub fn last_appended(&self) -> Option<EventPosition> {
        self.last.get()
    }

    /// Notes that a delta of this group now reaches further.
    pub(crate) fn set_last_appended(&self, appended: EventPosition) {
        self.last.set(Some(appended));
    }

    /// Assigns `seq` to so many events and says that of the last. In the same statement it compares
    /// what the caller relies on (R27, R43): the expected number, and for turn-owned rows the lease,
    /// or that no turn is open.
    fn assign_seqs(&self, session: i64, draft: &EventDraft, count: i64) -> Result<AssignedSeq> {
        let durable = draft.kind.is_opencode_durable();
        let guarded = draft.permission == AppendPermission::ByKind && draft.kind.is_turn_owned();
        let lease = self.ctx.lease.as_ref();
        let expected = self.expected.take();
        let row: Option<(i64, i64, Option<bool>)> = self
            .conn
            .prepare_cached(
                "UPDATE stream SET seq = seq + ?8, sync_seq = sync_seq + ?2
                 WHERE session = ?1 AND (?3 IS NULL OR seq = ?3)
                   AND (?4 = 0 OR (id = ?5 AND epoch = ?6 AND owner = ?7)
                        OR (id IS NOT ?5 AND NOT EXISTS
                              (SELECT 1 FROM turn WHERE turn.session = ?1 AND ended IS NULL)))
                 RETURNING seq, sync_seq, (SELECT shared FROM session WHERE num = ?1)",
            )?
            .query_row(
                (
                    session,
                    if durable { count } else { 0 },
                    expected.map(|seq| seq.0),
                    guarded,
                    lease.map(|l| l.session.as_str()),
                    lease.map(|l| l.epoch),
                    lease.map(|l| l.owner.as_str()),
                    count,
                ),
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        match row {
            Some((seq, sync, shared)) => {
                let shared = shared.unwrap_or(false);
                Ok(AssignedSeq { seq, sync_seq: durable.then_some(sync), shared })
            }
            None => Err(self.refusal_error(session, expected)?),
        }
    }

    fn refusal_error(&self, session: i64, expected: Option<SessionSeq>) -> Result<StoreError> {
        let id = self.session_id(session)?;
        let current: i64 = self
            .conn
            .prepare_cached("SELECT seq FROM stream WHERE session = ?1")?
            .query_row([session], |row| row.get(0))?;
        let leased = self.ctx.lease.as_ref().is_some_and(|lease| lease.session == id);
        Ok(match expected {
            Some(expected) if expected.0 != current => {
                StoreError::Stale { session: id, expected, current: SessionSeq(current) }
            }
            _ if leased => StoreError::Fenced(id),
            _ => StoreError::Busy(id),
        })
    }

    fn insert_event(
        &self,
        cursor: i64,
        place: Option<AssignedSeq>,
        entity: i64,
        draft: &EventDraft,
    ) -> Result<()> {
        let event = ChecksummedEvent {
            cursor,
            session: draft.session,
            seq: place.map(|p| p.seq),
            sync_seq: place.and_then(|p| p.sync_seq),
            kind: draft.kind.code(),
            entity,
            actor: self.acting_actor_num()?,
            time: self.ctx.now.0,
            version: i64::from(SCHEMA_VERSION),
            payload: draft.payload.as_ref().map(|p| p.json.as_str()),
            refs: draft.payload.as_ref().and_then(|p| p.refs.as_deref()),
            text: draft.text,
        };
        self.conn
            .prepare_cached(
                "INSERT INTO event (cursor, session, seq, sync_seq, kind, entity, actor, time,
                                    version, payload, refs, text_from, text_to, sum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(rusqlite::params![
                event.cursor,
                event.session,
                event.seq,
                event.sync_seq,
                event.kind,
                event.entity,
                event.actor,
                event.time,
                event.version,
                event.payload,
                event.refs,
                event.text.map(|t| t.0),
                event.text.map(|t| t.1),
                event.checksum(),
            ])?;
        Ok(())
    }

    fn store_blobs(&self, cursor: i64, prepared: &PreparedPayload) -> Result<()> {
        self.count_bytes(prepared.stored_bytes() + 64);
        for (hash, text) in &prepared.blobs {
            blob::put_blob(self.conn, self.blobs, hash, text.as_bytes())?;
            self.conn
                .prepare_cached("INSERT OR IGNORE INTO blob_use (hash, cursor) VALUES (?1, ?2)")?
                .execute((&hash.0[..], cursor))?;
        }
        Ok(())
    }

    /// A shared session's events wait in the outbox until the hub has them.
    fn enqueue_outbox(&self, draft: &EventDraft, cursor: i64) -> Result<()> {
        let Some(session) = draft.session else { return Ok(()) };
        self.conn
            .prepare_cached(
                "INSERT INTO outbox (session, cursor, time)
                 SELECT num, ?2, ?3 FROM session WHERE num = ?1 AND shared = 1",
            )?
            .execute((session, cursor, self.ctx.now.0))?;
        Ok(())
    }

    /// Counts bytes against the limit of the transaction.
    pub(crate) fn count_bytes(&self, bytes: u64) {
        self.group.bytes.set(self.group.bytes.get() + bytes);
    }

    /// The number of who acts, and by which program.
    pub(crate) fn acting_actor_num(&self) -> Result<i64> {
        if let Some(num) = self.acting.get() {
            return Ok(num);
        }
        let num = match &self.ctx.client {
            Some(client) => {
                self.intern_actor(&actor_name::join_actor_client(&self.ctx.actor, client))?
            }
            None => self.user_num()?,
        };
        self.acting.set(Some(num));
        Ok(num)
    }

    /// The number of who acts, by whichever program.
    pub(crate) fn user_num(&self) -> Result<i64> {
        self.intern_actor(self.ctx.actor.as_str())
    }

    fn intern_actor(&self, name: &str) -> Result<i64> {
        if let Some(num) = self.group.actors.borrow().get(name) {
            return Ok(*num);
        }
        self.conn
            .prepare_cached("INSERT INTO actor (name) VALUES (?1) ON CONFLICT (name) DO NOTHING")?
            .execute([name])?;
        let num = self
            .conn
            .prepare_cached("SELECT num FROM actor WHERE name = ?1")?
            .query_row([name], |row| row.get(0))?;
        self.group.actors.borrow_mut().insert(name.to_owned(), num);
        Ok(num)
    }

    /// The number of a live session.
    pub(crate) fn session_num(&self, id: &SessionId) -> Result<i64> {
        self.conn
            .prepare_cached("SELECT num FROM session WHERE id = ?1 AND hidden = 0")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::NoSession(id.clone()))
    }

    /// The id of a session by its number.
    pub(crate) fn session_id(&self, num: i64) -> Result<SessionId> {
        let text: String = self
            .conn
            .prepare_cached("SELECT id FROM stream WHERE session = ?1")?
            .query_row([num], |row| row.get(0))?;
        text.parse().map_err(|e| StoreError::Internal(format!("{e}")))
    }

    /// True if the newest image of an entity is exactly this payload.
    pub(crate) fn is_payload_unchanged(
        &self,
        image: i64,
        prepared: &PreparedPayload,
    ) -> Result<bool> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT 1 FROM event WHERE cursor = ?1 AND payload = ?2 AND refs IS ?3",
            )?
            .exists((image, &prepared.json, prepared.refs.as_deref()))?)
    }
}
