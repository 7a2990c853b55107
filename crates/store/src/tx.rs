//! A transaction as mutations see it: state is read and events are appended here.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension};
use turnstone_core::call_context::{Context, Lease};
use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};

use crate::actor_name;
use crate::blob::BlobDir;
use crate::consumer::ConsumerMutations;
use crate::error::{Result, StoreError};
use crate::event_append::AssignedSeq;
use crate::lease_owner::LeaseMutations;
use crate::mutation::ChangeSetMutations;
use crate::mutation::MessageMutations;
use crate::mutation::OperationMutations;
use crate::mutation::ProjectMutations;
use crate::mutation::PromptMutations;
use crate::mutation::RequestMutations;
use crate::mutation::SessionMutations;
use crate::mutation::ShareMutations;
use crate::mutation::SyncMutations;
use crate::mutation::TurnMutations;
use crate::mutation::UndoExpiryMutations;
use crate::payload::PreparedPayload;
use crate::table_row_ids::SessionNum;

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
    pub(crate) session: Option<SessionNum>,
    pub(crate) kind: EventKind,
    /// The entity's number; `None` for a new one, which takes the event's cursor.
    pub(crate) entity: Option<i64>,
    pub(crate) payload: Option<PreparedPayload>,
    pub(crate) text: Option<(i64, i64)>,
    /// Who may write it while a turn is open.
    pub(crate) permission: AppendPermission,
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
    pub(crate) fn new(session: Option<SessionNum>, kind: EventKind, entity: Option<i64>) -> Self {
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

    pub(crate) fn text(mut self, range: Range<i64>) -> Self {
        self.text = Some((range.start, range.end));
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
    pub(crate) expected: Cell<Option<SessionSeq>>,
    /// The number of who acts, once it was looked up.
    acting: Cell<Option<i64>>,
    pub(crate) last: Cell<Option<EventPosition>>,
}

impl<'a> Tx<'a> {
    /// Writes sessions.
    #[inline]
    #[must_use]
    pub const fn sessions(&self) -> SessionMutations<'_> {
        SessionMutations { tx: self }
    }

    /// Writes projects and their approved rules.
    #[inline]
    #[must_use]
    pub const fn projects(&self) -> ProjectMutations<'_> {
        ProjectMutations { tx: self }
    }

    /// Writes messages, parts and streamed text.
    #[inline]
    #[must_use]
    pub const fn messages(&self) -> MessageMutations<'_> {
        MessageMutations { tx: self }
    }

    /// Begins, moves and ends turns.
    #[inline]
    #[must_use]
    pub const fn turns(&self) -> TurnMutations<'_> {
        TurnMutations { tx: self }
    }

    /// Admits prompts to the inbox and promotes them.
    #[inline]
    #[must_use]
    pub const fn prompts(&self) -> PromptMutations<'_> {
        PromptMutations { tx: self }
    }

    /// Writes requests to the user and their answers.
    #[inline]
    #[must_use]
    pub const fn requests(&self) -> RequestMutations<'_> {
        RequestMutations { tx: self }
    }

    /// Opens and closes change sets.
    #[inline]
    #[must_use]
    pub const fn change_sets(&self) -> ChangeSetMutations<'_> {
        ChangeSetMutations { tx: self }
    }

    /// Plans and finishes operations: undo, redo, jump, fork and eviction.
    #[inline]
    #[must_use]
    pub const fn operations(&self) -> OperationMutations<'_> {
        OperationMutations { tx: self }
    }

    /// Records which undo data expired.
    #[inline]
    #[must_use]
    pub const fn undo_expiry(&self) -> UndoExpiryMutations<'_> {
        UndoExpiryMutations { tx: self }
    }

    /// Writes how sessions are shared.
    #[inline]
    #[must_use]
    pub const fn shares(&self) -> ShareMutations<'_> {
        ShareMutations { tx: self }
    }

    /// Applies numbered events that another store recorded.
    #[inline]
    #[must_use]
    pub const fn sync(&self) -> SyncMutations<'_> {
        SyncMutations { tx: self }
    }

    /// Moves the consumers of the log.
    #[inline]
    #[must_use]
    pub const fn consumers(&self) -> ConsumerMutations<'_> {
        ConsumerMutations { tx: self }
    }

    /// Takes and releases the lease of a session.
    #[inline]
    #[must_use]
    pub const fn leases(&self) -> LeaseMutations<'_> {
        LeaseMutations { tx: self }
    }

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

    /// Runs `work` in this transaction, under a lease.
    pub(crate) fn run_under_lease<T>(
        &self,
        lease: &Lease,
        work: impl FnOnce(&Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        let ctx = self.ctx.clone().with_lease(lease);
        let inner = Tx {
            conn: self.conn,
            blobs: self.blobs,
            ctx: &ctx,
            group: self.group,
            expected: Cell::new(self.expected.get()),
            acting: Cell::new(self.acting.get()),
            last: Cell::new(self.last.get()),
        };
        let result = work(&inner)?;
        self.expected.set(inner.expected.get());
        self.acting.set(inner.acting.get());
        self.last.set(inner.last.get());
        Ok(result)
    }

    /// The moment of the call.
    #[must_use]
    pub fn now(&self) -> EpochMillis {
        self.ctx.now
    }

    /// Appends an event and applies it to the projections.
    pub(crate) fn append(&self, draft: &EventDraft) -> Result<EventPosition> {
        let place = match draft.session {
            Some(session) => Some(crate::event_append::assign_seqs(self, session, draft, 1)?),
            None => None,
        };
        crate::event_append::append_with_seq(self, place, draft)
    }

    /// Appends events to one session for which the same holds; their places are assigned at once.
    pub(crate) fn append_batch(&self, session: SessionNum, drafts: &[EventDraft]) -> Result<()> {
        let Some(first) = drafts.first() else { return Ok(()) };
        let terms = |draft: &EventDraft| {
            let (durable, owned) = (draft.kind.is_opencode_durable(), draft.kind.is_turn_owned());
            (draft.session, durable, owned, draft.permission == AppendPermission::ByKind)
        };
        if drafts.iter().any(|draft| terms(draft) != terms(first)) {
            return Err(StoreError::Internal("events on different terms".to_owned()));
        }
        let last = crate::event_append::assign_seqs(self, session, first, drafts.len() as i64)?;
        for (draft, behind) in drafts.iter().zip((0..drafts.len() as i64).rev()) {
            let place = AssignedSeq {
                seq: last.seq - behind,
                sync_seq: last.sync_seq.map(|seq| seq - behind),
                shared: last.shared,
            };
            crate::event_append::append_with_seq(self, Some(place), draft)?;
        }
        Ok(())
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
    pub(crate) fn session_num(&self, id: &SessionId) -> Result<SessionNum> {
        self.conn
            .prepare_cached("SELECT num FROM session WHERE id = ?1 AND hidden = 0")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?
            .ok_or_else(|| StoreError::NoSession(id.clone()))
    }

    /// The id of a session by its number.
    pub(crate) fn session_id(&self, num: SessionNum) -> Result<SessionId> {
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
