//! What the next stretch of the log means for the index.
//!
//! Only the current state of a touched thing matters, so each is looked at once. Planning reads,
//! parses and tokenises outside the writer's transaction; `index` applies the steps if nobody else
//! did meanwhile. A thing that changes in between has an event after this stretch.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;
use turnstone_core::event::EventKind;
use turnstone_core::model::PartBody;
use turnstone_core::time::LogCursor;

use super::searchable_text::{self, SearchKind};
use super::tokenizer::camel_words;
use crate::blob::{BlobDir, BlobHash};
use crate::error::{Result, StoreError};
use crate::read::{decode_changes, load_part_text, load_payload};
use crate::table_row_ids::{ChangeNum, DocumentNum, MessageNum, PartNum, SessionNum};

/// Events looked at in one go.
pub(super) const WINDOW_EVENTS: i64 = 4000;
/// The words inside identifiers take this much of a document, at most.
const MAX_CAMEL_BYTES: usize = 64 * 1024;
/// Bytes of a page of the index, as set in the schema.
pub(super) const PAGE: u64 = 16_000;
/// The index of a text is at most this many times as long (2.3 for short words that are all different).
const GROWTH: u64 = 3;

/// Where the consumer stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SearchPosition {
    /// Everything up to this event is in the index.
    pub(super) cursor: i64,
    /// The index is being emptied and may not be read.
    pub(super) resync: bool,
}

/// Reads where the consumer stands; before its first batch it stands at the beginning.
pub(super) fn load_position(conn: &Connection) -> Result<SearchPosition> {
    let row = conn
        .prepare_cached("SELECT cursor, resync FROM consumer WHERE name = 'search'")?
        .query_row([], |row| Ok(SearchPosition { cursor: row.get(0)?, resync: row.get(1)? }))
        .optional()?;
    Ok(row.unwrap_or_default())
}

/// How far a drain has looked, ahead of the stored cursor: there was nothing to index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IndexProgress {
    /// The stored cursor this is relative to.
    pub(super) stored: i64,
    /// Nothing up to this event is missing in the index.
    pub(super) reached: i64,
}

impl IndexProgress {
    /// The same, with the cursor at `stored`: what was relative to another one is void.
    pub(super) fn rebased_to(self, stored: i64) -> Self {
        let reached = if stored == self.stored { self.reached.max(stored) } else { stored };
        Self { stored, reached }
    }
}

/// What to do next.
pub(super) enum NextIndexAction {
    /// The index holds everything up to where it should.
    Done(IndexProgress),
    /// The index must be emptied first.
    ClearIndex,
    /// Apply this.
    Batch(IndexBatch),
}

/// A stretch of the log, as steps on the index.
pub(super) struct IndexBatch {
    /// Where the consumer stood.
    pub(super) stored: i64,
    /// Where it stands once all steps are applied.
    pub(super) to: i64,
    /// What to do, in order of the log.
    pub(super) steps: Vec<IndexStep>,
}

/// One change of the index.
pub(super) struct IndexStep {
    /// Where the consumer stands once this step and those before it are applied.
    pub(super) done: i64,
    /// The change.
    pub(super) action: IndexAction,
}

/// A change of the index.
pub(super) enum IndexAction {
    /// Index this document, instead of an older one of the same number.
    Put(Box<SearchDocument>),
    /// The image changed, what is searched of it did not.
    UpdateImage {
        /// The document.
        num: DocumentNum,
        /// The new image.
        image: i64,
    },
    /// Remove the document of this number.
    Drop(DocumentNum),
}

/// A document of the index: one part, the paths of one change set, or the title of one session.
pub(super) struct SearchDocument {
    pub(super) num: DocumentNum,
    pub(super) session: SessionNum,
    pub(super) message: Option<MessageNum>,
    pub(super) kind: SearchKind,
    pub(super) image: i64,
    pub(super) digest: i64,
    pub(super) body: String,
    pub(super) camel: String,
    /// An older one is removed first.
    pub(super) replaces: bool,
}

/// What a number of steps costs, estimated from above.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IndexCost {
    rows: u64,
    bytes: u64,
}

impl IndexCost {
    /// This and one more step.
    pub(super) fn plus(self, action: &IndexAction) -> Self {
        let (rows, bytes) = match action {
            IndexAction::Put(doc) => {
                (if doc.replaces { 8 } else { 3 }, doc.body.len() + doc.camel.len())
            }
            IndexAction::UpdateImage { .. } => (1, 0),
            IndexAction::Drop(_) => (6, 0),
        };
        Self { rows: self.rows + rows, bytes: self.bytes + bytes as u64 }
    }

    /// Rows touched: a page of the index is one row, its entry in the page list another.
    pub(super) const fn rows(self) -> u64 {
        self.rows + 2 * (self.bytes_added() / PAGE + 1)
    }

    /// Bytes added.
    pub(super) const fn bytes_added(self) -> u64 {
        self.bytes * GROWTH
    }
}

/// Looks at the log after what is indexed, up to `upto`, as far as `room` rows go.
pub(super) fn plan_next(
    conn: &Connection,
    blobs: &BlobDir,
    progress: IndexProgress,
    upto: i64,
    room: u64,
) -> Result<NextIndexAction> {
    let SearchPosition { cursor: stored, resync } = load_position(conn)?;
    if resync {
        return Ok(NextIndexAction::ClearIndex);
    }
    let progress = progress.rebased_to(stored);
    let from = progress.reached;
    if from >= upto {
        return Ok(NextIndexAction::Done(progress));
    }
    let to = upto.min(from.saturating_add(WINDOW_EVENTS));
    let mut plan = IndexPlanner {
        conn,
        blobs,
        steps: Vec::new(),
        cost: IndexCost::default(),
        room,
        seen: HashSet::new(),
    };
    let to = plan.plan_events(LogCursor(from), LogCursor(to))?;
    Ok(NextIndexAction::Batch(IndexBatch { stored, to, steps: plan.steps }))
}

struct IndexPlanner<'a> {
    conn: &'a Connection,
    blobs: &'a BlobDir,
    steps: Vec<IndexStep>,
    cost: IndexCost,
    room: u64,
    seen: HashSet<DocumentNum>,
}

/// What the index knows of a document.
type IndexedImage = (Option<i64>, Option<i64>);

impl IndexPlanner<'_> {
    /// Plans the events after `from` up to `to`; returns where the plan ends.
    fn plan_events(&mut self, LogCursor(from): LogCursor, LogCursor(to): LogCursor) -> Result<i64> {
        let mut statement = self.conn.prepare_cached(
            "SELECT cursor, kind, entity, session FROM event WHERE cursor > ?1 AND cursor <= ?2
             ORDER BY cursor",
        )?;
        let mut rows = statement.query((from, to))?;
        while let Some(row) = rows.next()? {
            let cursor: i64 = row.get(0)?;
            if self.is_full() {
                return Ok(cursor - 1);
            }
            let Some(kind) = EventKind::from_code(row.get(1)?) else {
                continue;
            };
            let entity: i64 = row.get(2)?;
            let whole = if matches!(kind, EventKind::PartUpdated | EventKind::PartRemoved) {
                self.plan_part(cursor, PartNum(entity))?;
                true
            } else if matches!(kind, EventKind::SessionCreated | EventKind::SessionUpdated) {
                self.plan_title(cursor, SessionNum(entity))?;
                true
            } else if kind == EventKind::ChangeClosed {
                self.plan_change_set(cursor, ChangeNum(entity))?;
                true
            } else if kind == EventKind::MessageRemoved {
                self.plan_drop_all(cursor, row.get(3)?, Some(MessageNum(entity)))?
            } else {
                kind != EventKind::SessionDeleted
                    || self.plan_drop_all(cursor, SessionNum(entity), None)?
            };
            if !whole {
                return Ok(cursor - 1);
            }
        }
        Ok(to)
    }

    fn is_full(&self) -> bool {
        self.cost.rows() >= self.room
    }

    fn push(&mut self, done: i64, action: IndexAction) {
        self.cost = self.cost.plus(&action);
        self.steps.push(IndexStep { done, action });
    }

    /// Drops what the index has of a session, or of one of its messages; false if there is more.
    fn plan_drop_all(
        &mut self,
        cursor: i64,
        session: SessionNum,
        message: Option<MessageNum>,
    ) -> Result<bool> {
        let mut statement = self.conn.prepare_cached(match message {
            Some(_) => "SELECT num FROM search_doc WHERE session = ?1 AND message = ?2",
            None => "SELECT num FROM search_doc WHERE session = ?1 AND ?2 IS NULL",
        })?;
        let mut rows = statement.query((session, message))?;
        while let Some(row) = rows.next()? {
            if self.is_full() {
                return Ok(false);
            }
            let num = row.get(0)?;
            if self.seen.insert(num) {
                self.push(cursor - 1, IndexAction::Drop(num));
            }
        }
        Ok(true)
    }

    fn plan_title(&mut self, cursor: i64, session: SessionNum) -> Result<()> {
        let num = DocumentNum(session.0);
        if !self.seen.insert(num) {
            return Ok(());
        }
        let row: Option<(String, i64, IndexedImage)> = self
            .conn
            .prepare_cached(
                "SELECT session.title, session.image, doc.image, doc.digest FROM session
                 LEFT JOIN search_doc AS doc ON doc.num = session.num
                 WHERE session.num = ?1 AND session.hidden = 0",
            )?
            .query_row([session], |row| Ok((row.get(0)?, row.get(1)?, (row.get(2)?, row.get(3)?))))
            .optional()?;
        let Some((title, image, known)) = row else {
            return self.plan_drop(cursor, num);
        };
        if known.0 == Some(image) {
            return Ok(());
        }
        let text = searchable_text::searchable_title(&title);
        let text = (!text.is_empty()).then_some((SearchKind::Title, text));
        self.plan_put(LogCursor(cursor), (num, session, None, image), text, known)
    }

    fn plan_part(&mut self, cursor: i64, part: PartNum) -> Result<()> {
        let num = DocumentNum(part.0);
        if !self.seen.insert(num) {
            return Ok(());
        }
        let row: Option<(SearchPartRow, IndexedImage)> = self
            .conn
            .prepare_cached(
                "SELECT part.session, part.message, part.type, part.open, part.image, part.text_len,
                        doc.image, doc.digest
                 FROM part JOIN session ON session.num = part.session AND session.hidden = 0
                 LEFT JOIN search_doc AS doc ON doc.num = part.num WHERE part.num = ?1",
            )?
            .query_row([part], |row| Ok((SearchPartRow::read(row)?, (row.get(6)?, row.get(7)?))))
            .optional()?;
        match row {
            Some((row, known)) if row.sealed && known.0 == Some(row.image) => Ok(()),
            Some((row, known)) if row.sealed => {
                let text = skip_unreadable(part.0, self.load_body(part, &row))?
                    .as_ref()
                    .and_then(searchable_text::searchable_text);
                self.plan_put(
                    LogCursor(cursor),
                    (num, row.session, Some(row.message), row.image),
                    text,
                    known,
                )
            }
            Some((_, (Some(_), _))) | None => self.plan_drop(cursor, num),
            Some(_) => Ok(()),
        }
    }

    /// The paths that a call changed; they change no more once it is over.
    fn plan_change_set(&mut self, cursor: i64, change: ChangeNum) -> Result<()> {
        let num = DocumentNum(change.0);
        if !self.seen.insert(num) {
            return Ok(());
        }
        let row: Option<(SessionNum, i64, IndexedImage)> = self
            .conn
            .prepare_cached(
                "SELECT change.session, change.closed, doc.image, doc.digest FROM change
                 JOIN session ON session.num = change.session AND session.hidden = 0
                 LEFT JOIN search_doc AS doc ON doc.num = change.num
                 WHERE change.num = ?1 AND change.closed IS NOT NULL",
            )?
            .query_row([change], |row| Ok((row.get(0)?, row.get(1)?, (row.get(2)?, row.get(3)?))))
            .optional()?;
        let Some((session, closed, known)) = row else { return self.plan_drop(cursor, num) };
        let paths = load_changed_paths(self.conn, self.blobs, LogCursor(closed));
        let paths = skip_unreadable(change.0, paths)?.unwrap_or_default();
        let text = (!paths.is_empty()).then_some((SearchKind::Path, paths));
        // No message: the change set stays where it is when its message is hidden and shown again.
        self.plan_put(LogCursor(cursor), (num, session, None, closed), text, known)
    }

    fn load_body(&self, part: PartNum, row: &SearchPartRow) -> Result<PartBody> {
        load_part_body(self.conn, self.blobs, part, LogCursor(row.image), row.text_len)
    }

    fn plan_put(
        &mut self,
        LogCursor(cursor): LogCursor,
        (num, session, message, image): (DocumentNum, SessionNum, Option<MessageNum>, i64),
        text: Option<(SearchKind, String)>,
        known: IndexedImage,
    ) -> Result<()> {
        let Some((kind, body)) = text else {
            return if known.0.is_some() { self.plan_drop(cursor, num) } else { Ok(()) };
        };
        let digest = digest(&body);
        if known.1 == Some(digest) {
            self.push(cursor, IndexAction::UpdateImage { num, image });
            return Ok(());
        }
        let camel = camel_words(&body, MAX_CAMEL_BYTES);
        let replaces = known.0.is_some();
        let doc =
            SearchDocument { num, session, message, kind, image, digest, body, camel, replaces };
        self.push(cursor, IndexAction::Put(Box::new(doc)));
        Ok(())
    }

    fn plan_drop(&mut self, cursor: i64, num: DocumentNum) -> Result<()> {
        if self.conn.prepare_cached("SELECT 1 FROM search_doc WHERE num = ?1")?.exists([num])? {
            self.push(cursor, IndexAction::Drop(num));
        }
        Ok(())
    }
}

struct SearchPartRow {
    session: SessionNum,
    message: MessageNum,
    sealed: bool,
    image: i64,
    text_len: Option<i64>,
}

impl SearchPartRow {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let kind: String = row.get(2)?;
        let open: bool = row.get(3)?;
        Ok(Self {
            session: row.get(0)?,
            message: row.get(1)?,
            sealed: !open && searchable_text::is_searchable(&kind),
            image: row.get(4)?,
            text_len: row.get(5)?,
        })
    }
}

/// The body of a part, text included.
pub(super) fn load_part_body(
    conn: &Connection,
    blobs: &BlobDir,
    part: PartNum,
    LogCursor(image): LogCursor,
    text_len: Option<i64>,
) -> Result<PartBody> {
    let mut data = load_payload(conn, blobs, image)?["data"].take();
    if let Some(len) = text_len {
        data["text"] = Value::String(load_part_text(conn, part, len)?);
    }
    Ok(PartBody::parse_lenient(data)?)
}

/// The paths of the files that a call changed, as they are searched: one per line.
pub(super) fn load_changed_paths(
    conn: &Connection,
    blobs: &BlobDir,
    LogCursor(closed): LogCursor,
) -> Result<String> {
    let changes = decode_changes(load_payload(conn, blobs, closed)?)?;
    let files = changes.iter().filter(|change| !change.is_directory_only());
    let paths: Vec<String> = files.map(|change| change.path.to_string()).collect();
    Ok(searchable_text::searchable_title(&paths.join("\n")))
}

/// A part that cannot be read is not searched; it must not stop the rest from being so.
pub(super) fn skip_unreadable<T>(num: i64, body: Result<T>) -> Result<Option<T>> {
    match body {
        Ok(body) => Ok(Some(body)),
        Err(error @ (StoreError::Corrupt { .. } | StoreError::Internal(_) | StoreError::Io(_))) => {
            tracing::warn!(num, %error, "a part that cannot be read is not searched");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Tells a changed text from the same one.
fn digest(text: &str) -> i64 {
    let BlobHash(hash) = BlobHash::of(text.as_bytes());
    hash.iter().take(8).fold(0, |sum, byte| (sum << 8) | i64::from(*byte))
}
