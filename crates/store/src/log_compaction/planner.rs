//! Decides what to forget: reads a page of a stream and turns the rule's answers into actions.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow};
use turnstone_core::event::{EntityClass, EventKind};
use turnstone_core::retention::{EventRetention, RetentionEvent, is_boundary};
use turnstone_core::time::LogCursor;

use crate::error::{Result, StoreError};
use crate::table_row_ids::{PartNum, SessionNum};

/// How many events are looked at before what was decided is written.
pub(super) const PAGE: usize = 400;

/// Which events belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogCompactionScope {
    /// Those of a session, by their sequence number.
    Stream(SessionNum),
    /// Those of no session, by their cursor.
    Global,
}

/// What is to be done to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogCompactionAction {
    /// The event at `cursor` becomes a stub.
    Stub { cursor: i64, uses: i64, bytes: i64 },
    /// The deltas of `part` from `first` to `last` become one stub.
    Merge { session: SessionNum, part: PartNum, first: i64, last: i64, rows: i64 },
    /// The streamed text of `part` goes if no event refers to it any more.
    DropText { session: SessionNum, part: PartNum },
}

/// An event as compaction sees it.
#[derive(Clone, Copy, Debug)]
struct LogCompactionRow {
    cursor: i64,
    at: i64,
    kind: EventKind,
    entity: i64,
    stub: bool,
    uses: i64,
    bytes: i64,
    boundary: bool,
}

impl LogCompactionRow {
    fn from_row(row: &SqlRow<'_>) -> Result<Self> {
        let code: i64 = row.get(2)?;
        let kind = EventKind::from_code(code)
            .ok_or_else(|| StoreError::Internal(format!("event kind {code}")))?;
        let first_type: Option<String> = row.get(7)?;
        Ok(Self {
            cursor: row.get(0)?,
            at: row.get(1)?,
            kind,
            entity: row.get(3)?,
            stub: row.get::<_, bool>(4)? && !kind.has_no_payload(),
            uses: row.get(5)?,
            bytes: row.get(6)?,
            boundary: is_boundary(kind, first_type.as_deref()),
        })
    }

    const fn stub_action(&self) -> LogCompactionAction {
        LogCompactionAction::Stub { cursor: self.cursor, uses: self.uses, bytes: self.bytes }
    }
}

const STREAM: &str = "
SELECT cursor, seq, kind, entity, payload IS NULL AND text_to IS NULL,
       (SELECT count(*) FROM blob_use WHERE blob_use.cursor = event.cursor),
       coalesce(octet_length(payload), 0) + coalesce(octet_length(refs), 0),
       CASE WHEN cursor = entity THEN payload ->> '$.data.type' END
FROM event WHERE session = ?1 AND seq > ?2 AND cursor <= ?3 ORDER BY seq LIMIT ?4";

const GLOBAL: &str = "
SELECT cursor, cursor, kind, entity, payload IS NULL AND text_to IS NULL,
       (SELECT count(*) FROM blob_use WHERE blob_use.cursor = event.cursor),
       coalesce(octet_length(payload), 0) + coalesce(octet_length(refs), 0), NULL
FROM event WHERE session IS NULL AND cursor > ?2 AND cursor <= ?3 AND ?1 IS NULL
ORDER BY cursor LIMIT ?4";

/// What a page came to.
#[derive(Debug, Default)]
pub(super) struct LogCompactionPage {
    /// What to do, in this order.
    pub(super) actions: Vec<LogCompactionAction>,
    /// The last place looked at; absent if there was nothing to look at.
    pub(super) last: Option<i64>,
    /// The last boundary among them: everything up to it is settled.
    pub(super) boundary: Option<i64>,
}

/// Reads a scope page by page.
pub(super) struct LogCompactionPlanner {
    scope: LogCompactionScope,
    /// Nothing after this cursor is looked at.
    limit: i64,
    at: i64,
    retention: EventRetention,
    /// Parts of the present segment that have lost events; their text may be superfluous.
    thinned: BTreeSet<PartNum>,
}

impl LogCompactionPlanner {
    /// Begins after `at`, which is a boundary or the beginning.
    pub(super) fn new(scope: LogCompactionScope, limit: LogCursor, at: i64) -> Self {
        let (retention, thinned) = (EventRetention::new(), BTreeSet::new());
        Self { scope, limit: limit.0, at, retention, thinned }
    }

    /// Reads the next page and decides about it.
    pub(super) fn next_page(&mut self, conn: &Connection) -> Result<LogCompactionPage> {
        let rows = self.read_rows(conn)?;
        let mut page = LogCompactionPage {
            last: rows.last().map(|row| row.at),
            ..LogCompactionPage::default()
        };
        let mut gone: Vec<bool> = rows.iter().map(|row| row.stub).collect();
        let mut earlier = Vec::new();
        let mut texts = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if row.stub {
                self.note_thinned_part(row);
                continue;
            }
            let entry = RetentionEvent {
                at: row.at,
                kind: row.kind,
                entity: row.entity,
                boundary: row.boundary,
            };
            for at in self.retention.push(&entry) {
                self.note_thinned_part(row);
                match rows[..index].binary_search_by_key(&at, |row| row.at) {
                    Ok(found) => gone[found] = true,
                    Err(_) => earlier.push(at),
                }
            }
            if row.boundary {
                page.boundary = Some(row.at);
                texts.extend(std::mem::take(&mut self.thinned));
            }
        }
        for at in earlier {
            page.actions.extend(self.stub_earlier(conn, at)?);
        }
        self.plan_rows(&rows, &gone, &mut page.actions);
        if page.last.is_none() {
            texts.extend(std::mem::take(&mut self.thinned));
        }
        for part in texts {
            page.actions.extend(self.plan_drop_text(conn, part)?);
        }
        self.at = page.last.unwrap_or(self.at);
        Ok(page)
    }

    fn note_thinned_part(&mut self, row: &LogCompactionRow) {
        if row.kind.class() == EntityClass::Part {
            self.thinned.insert(PartNum(row.entity));
        }
    }

    fn read_rows(&self, conn: &Connection) -> Result<Vec<LogCompactionRow>> {
        let (sql, session) = match self.scope {
            LogCompactionScope::Stream(session) => (STREAM, Some(session)),
            LogCompactionScope::Global => (GLOBAL, None),
        };
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query((session, self.at, self.limit, PAGE as i64))?;
        let mut page = Vec::new();
        while let Some(row) = rows.next()? {
            page.push(LogCompactionRow::from_row(row)?);
        }
        Ok(page)
    }

    /// An event of an earlier page turned out to be superfluous.
    fn stub_earlier(&self, conn: &Connection, at: i64) -> Result<Option<LogCompactionAction>> {
        let (sql, session) = match self.scope {
            LogCompactionScope::Stream(session) => (STREAM, Some(session)),
            LogCompactionScope::Global => (GLOBAL, None),
        };
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query((session, at - 1, self.limit, 1_i64))?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let row = LogCompactionRow::from_row(row)?;
        // Another process may have been faster.
        if row.at != at || row.stub {
            return Ok(None);
        }
        Ok(Some(match (self.scope, row.kind) {
            (LogCompactionScope::Stream(session), EventKind::PartDelta) => {
                LogCompactionAction::Merge {
                    session,
                    part: PartNum(row.entity),
                    first: at,
                    last: at,
                    rows: 1,
                }
            }
            _ => row.stub_action(),
        }))
    }

    /// Runs of deltas become one stub each, other events one by one.
    fn plan_rows(
        &self,
        rows: &[LogCompactionRow],
        gone: &[bool],
        actions: &mut Vec<LogCompactionAction>,
    ) {
        let mut index = 0;
        while index < rows.len() {
            let run = self.run_len(rows, gone, index);
            if gone[index] {
                actions.extend(self.plan_run(&rows[index..index + run]));
            }
            index += run;
        }
    }

    /// What to do about rows that go together; nothing if it was done before.
    fn plan_run(&self, run: &[LogCompactionRow]) -> Option<LogCompactionAction> {
        let (first, last) = (run.first()?, run.last()?);
        if let (LogCompactionScope::Stream(session), EventKind::PartDelta) =
            (self.scope, first.kind)
        {
            let (part, rows) = (PartNum(first.entity), run.len() as i64);
            let (first_at, last_at) = (first.at, last.at);
            let merge =
                LogCompactionAction::Merge { session, part, first: first_at, last: last_at, rows };
            return (rows > 1 || !first.stub).then_some(merge);
        }
        // A stub that still uses values: the run that made it was cut off.
        (!first.stub || first.uses > 0).then_some(first.stub_action())
    }

    /// How many rows from `index` on are deltas of one part that go together; at least one.
    fn run_len(&self, rows: &[LogCompactionRow], gone: &[bool], index: usize) -> usize {
        let first = &rows[index];
        let alike = |(row, gone): (&LogCompactionRow, &bool)| {
            *gone && row.kind == EventKind::PartDelta && row.entity == first.entity
        };
        rows[index..].iter().zip(&gone[index..]).take_while(|pair| alike(*pair)).count().max(1)
    }

    /// A part that lost events and does not show its streamed text may not need it any more.
    fn plan_drop_text(
        &self,
        conn: &Connection,
        part: PartNum,
    ) -> Result<Option<LogCompactionAction>> {
        let LogCompactionScope::Stream(session) = self.scope else {
            return Ok(None);
        };
        let found: Option<i64> = conn
            .prepare_cached(
                "SELECT 1 FROM chunk WHERE part = ?1
                 AND NOT EXISTS (SELECT 1 FROM part WHERE num = ?1 AND text_len IS NOT NULL)
                 LIMIT 1",
            )?
            .query_row([part], |row| row.get(0))
            .optional()?;
        Ok(found.map(|_| LogCompactionAction::DropText { session, part }))
    }
}
