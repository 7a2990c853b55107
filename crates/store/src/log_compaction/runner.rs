//! Goes through the streams and carries out what was planned, a small transaction at a time.

use std::sync::Arc;

use super::apply_action::LogActionOutcome;
use super::planner::{LogCompactionAction, LogCompactionPlanner, LogCompactionScope};

use turnstone_core::call_context::Context;
use turnstone_core::time::{LogCursor, SessionSeq};

use crate::error::Result;
use crate::maintenance::MaintenanceBudget;
use crate::store::Store;
use crate::table_row_ids::SessionNum;

/// Actions that touch more rows than this go into separate transactions.
const ROWS: i64 = 420;
/// How many streams are looked up, and how many are marked, at once.
const STREAMS: usize = 100;

/// What compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogCompactionReport {
    /// Events that are stubs now.
    pub(crate) events: u64,
    /// Bytes of payloads, values and text that are gone.
    pub(crate) bytes: u64,
    /// True if every stream was looked at; false if the budget ended before.
    pub(crate) finished: bool,
}

/// A stream that has events nobody looked at: `(session, compacted_seq, scanned_seq)`.
type CompactableStream = (SessionNum, i64, i64);

const CANDIDATES: &str = "
SELECT session, compacted_seq, scanned_seq FROM stream
WHERE session > ?1 AND seq > scanned_seq AND deleted = 0
  AND (SELECT cursor FROM event
       WHERE event.session = stream.session AND event.seq > scanned_seq
       ORDER BY event.seq LIMIT 1) <= ?2
ORDER BY session LIMIT ?3";

struct LogCompactionRun<'a> {
    store: &'a Store,
    ctx: &'a Context,
    limit: i64,
    budget: &'a mut MaintenanceBudget,
    done: LogCompactionReport,
    marks: Vec<CompactableStream>,
}

/// Compacts all streams up to the cursor `limit`, as far as the budget allows.
pub(crate) fn compact_log(
    store: &Store,
    ctx: &Context,
    limit: i64,
    budget: &mut MaintenanceBudget,
) -> Result<LogCompactionReport> {
    let mut run = LogCompactionRun {
        store,
        ctx,
        limit,
        budget,
        done: LogCompactionReport::default(),
        marks: Vec::new(),
    };
    run.done.finished = run.run_all()?;
    run.flush_marks()?;
    Ok(run.done)
}

impl LogCompactionRun<'_> {
    fn run_all(&mut self) -> Result<bool> {
        if self.compact_scope(LogCompactionScope::Global, 0)?.is_none() {
            return Ok(false);
        }
        let mut after = SessionNum(0);
        loop {
            let streams = self.load_candidates(after)?;
            let Some(last) = streams.last() else {
                return Ok(true);
            };
            after = last.0;
            for (session, settled, scanned) in streams {
                let Some(seen) =
                    self.compact_scope(LogCompactionScope::Stream(session), settled)?
                else {
                    return Ok(false);
                };
                let settled = seen.boundary.unwrap_or(settled);
                self.marks.push((session, settled, seen.last.unwrap_or(scanned)));
                if self.marks.len() >= STREAMS {
                    self.flush_marks()?;
                }
            }
        }
    }

    fn load_candidates(&self, after: SessionNum) -> Result<Vec<CompactableStream>> {
        self.store.read(self.ctx, |r| {
            let mut statement = r.conn.prepare_cached(CANDIDATES)?;
            let rows = statement.query_map((after, self.limit, STREAMS as i64), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Compacts one scope after `at`; nothing if the budget ended before.
    fn compact_scope(
        &mut self,
        scope: LogCompactionScope,
        at: i64,
    ) -> Result<Option<ScanProgress>> {
        let mut planner = LogCompactionPlanner::new(scope, LogCursor(self.limit), at);
        let mut seen = ScanProgress::default();
        loop {
            if !self.budget.has_steps_left() {
                return Ok(None);
            }
            let page = self.store.read(self.ctx, |r| planner.next_page(r.conn))?;
            if !self.execute_actions(page.actions)? {
                return Ok(None);
            }
            seen.boundary = page.boundary.or(seen.boundary);
            seen.last = page.last.or(seen.last);
            if page.last.is_none() {
                return Ok(Some(seen));
            }
        }
    }

    /// Carries actions out in order; false if the budget ended before.
    fn execute_actions(&mut self, actions: Vec<LogCompactionAction>) -> Result<bool> {
        let mut waiting = actions.into_iter().peekable();
        while waiting.peek().is_some() {
            let mut batch = Vec::new();
            let mut rows = 0;
            while let Some(action) =
                waiting.next_if(|a| batch.is_empty() || rows + a.max_rows() <= ROWS)
            {
                rows += action.max_rows();
                batch.push(action);
            }
            let mut batch = Arc::new(batch);
            while !batch.is_empty() {
                if !self.budget.take_step() {
                    return Ok(false);
                }
                batch = Arc::new(self.run_transaction(&batch)?);
            }
        }
        Ok(true)
    }

    /// One transaction; returns the actions that are not finished.
    fn run_transaction(
        &mut self,
        batch: &Arc<Vec<LogCompactionAction>>,
    ) -> Result<Vec<LogCompactionAction>> {
        let actions = Arc::clone(batch);
        let ticket = self.store.write(self.ctx, move |tx| {
            actions
                .iter()
                .map(|action| super::apply_action::apply_compaction(tx, action))
                .collect::<Result<Vec<LogActionOutcome>>>()
        });
        let forgot = ticket.wait()?;
        let mut again = Vec::new();
        for (action, forgot) in batch.iter().zip(forgot) {
            self.done.events += forgot.events;
            self.done.bytes += forgot.bytes;
            if forgot.must_repeat {
                again.push(*action);
            }
        }
        Ok(again)
    }

    fn flush_marks(&mut self) -> Result<()> {
        let marks = std::mem::take(&mut self.marks);
        if marks.is_empty() {
            return Ok(());
        }
        let ticket = self.store.write(self.ctx, move |tx| {
            marks.iter().try_for_each(|(session, settled, scanned)| {
                super::apply_action::mark_compacted(
                    tx,
                    *session,
                    SessionSeq(*settled),
                    SessionSeq(*scanned),
                )
            })
        });
        ticket.wait()
    }
}

/// How far a scope was looked at.
#[derive(Clone, Copy, Debug, Default)]
struct ScanProgress {
    boundary: Option<i64>,
    last: Option<i64>,
}
