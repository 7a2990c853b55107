//! The writer thread: many mutations, one fsync (R22).
//!
//! A group is what has queued up while the previous commit was on its way to disk; there is no
//! timer. The answer of a mutation is given after COMMIT returned.
//!
//! Savepoints make SQLite copy every page a member touches. Most groups need none: members run
//! without, and one that fails before it changed anything leaves nothing to undo. Only when one
//! fails half way is the group rolled back and run again, each member in a savepoint of its own.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};

use rusqlite::Connection;
use turnstone_core::call_context::Context;

use crate::blob::BlobDir;
use crate::commit_watch::CommitWatch;
use crate::connection::{self, WAL_LIMIT};
use crate::data_layout::DataLayout;
use crate::database_open::{self, poison_marker};
use crate::error::{DatabaseOpenError, Result, StoreError, classify_sqlite_error};
use crate::tx::{CommitGroup, Tx};
use crate::writer_job::{MutationJob, PendingWrite, QueuedMaintenance, QueuedMutation, WriterJob};

/// How often an idle writer looks for the next job before it goes to sleep: some ten microseconds,
/// about as long as a caller needs to come back with its next write.
const IDLE_SPINS: u32 = 400;

/// The size of the write-ahead log is looked at after this many commits.
const WAL_CHECK_COMMITS: u64 = 32;

/// Figures of the writer, for benchmarks and tests.
#[derive(Debug, Default)]
pub struct WriterStats {
    pub(crate) commits: AtomicU64,
    pub(crate) mutations: AtomicU64,
    pub(crate) most_rows: AtomicU64,
    pub(crate) most_bytes: AtomicU64,
}

impl WriterStats {
    /// Transactions committed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Mutations that went into them.
    #[must_use]
    pub fn mutations(&self) -> u64 {
        self.mutations.load(Ordering::Relaxed)
    }

    /// The most rows one transaction touched.
    #[must_use]
    pub fn most_rows(&self) -> u64 {
        self.most_rows.load(Ordering::Relaxed)
    }

    /// The most bytes one transaction added.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes.load(Ordering::Relaxed)
    }
}

/// The sending side of the writer thread.
pub(crate) struct WriterHandle {
    queue: Option<Sender<WriterJob>>,
    thread: Option<std::thread::JoinHandle<()>>,
    file: Arc<Path>,
    waiting: Arc<AtomicU64>,
    pub(crate) stats: Arc<WriterStats>,
}

/// What the thread works with.
struct WriterThread {
    conn: Connection,
    blobs: BlobDir,
    file: PathBuf,
    watch: CommitWatch,
    stats: Arc<WriterStats>,
    poison: Option<WriterPoison>,
    layout: DataLayout,
    /// Actor numbers that are committed.
    actors: HashMap<String, i64>,
}

/// Why nothing is written.
#[derive(Clone)]
enum WriterPoison {
    /// A write to disk failed; the next job checks and reopens the database.
    FailedWrite(String),
    /// The check found damage: reopening does not help.
    Damage(String),
}

impl WriterPoison {
    fn to_error(&self, file: &Path) -> StoreError {
        let file = file.to_path_buf();
        match self.clone() {
            Self::FailedWrite(reason) => StoreError::Poisoned { file, reason },
            Self::Damage(reason) => StoreError::Corrupt { file, reason },
        }
    }
}

/// Whether a member's changes can be distinguished from the others'.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberIsolation {
    /// They cannot.
    Shared,
    /// They are in a savepoint.
    Savepoint,
}

/// A member that failed after it had changed something that only a rollback of all can undo.
struct GroupRollback;

type GroupResults = Vec<(Box<dyn MutationJob>, Result<()>)>;

impl WriterHandle {
    pub(crate) fn start(
        conn: Connection,
        blobs: BlobDir,
        layout: DataLayout,
        watch: CommitWatch,
    ) -> std::io::Result<Self> {
        let file = layout.database();
        let (queue, jobs) = channel::<WriterJob>();
        let stats = Arc::new(WriterStats::default());
        let bench = WriterThread {
            conn,
            blobs,
            file: file.clone(),
            watch,
            stats: Arc::clone(&stats),
            poison: None,
            layout,
            actors: HashMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("turnstone-writer".to_owned())
            .spawn(move || bench.run_jobs(&jobs))?;
        let (file, waiting) = (Arc::from(file), Arc::default());
        Ok(Self { queue: Some(queue), thread: Some(thread), file, waiting, stats })
    }

    pub(crate) fn submit<T, F>(&self, ctx: &Context, run: F) -> PendingWrite<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (answer, wait) = sync_channel(1);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Arc::clone(&self.waiting);
        let work = QueuedMutation { ctx: ctx.clone(), run, value: None, answer, waiting };
        if let Some(queue) = &self.queue {
            // A closed queue drops the answer's sender, which the ticket reads as `ChangeClosedPayload`.
            drop(queue.send(WriterJob::Mutation(Box::new(work))));
        }
        self.pending_write(wait)
    }

    fn pending_write<T>(&self, answer: Receiver<Result<T>>) -> PendingWrite<T> {
        PendingWrite { answer, file: Arc::clone(&self.file), waiting: Arc::clone(&self.waiting) }
    }

    /// Runs `run` on the writer's connection between groups, outside of any transaction.
    pub(crate) fn submit_maintenance<T, F>(&self, run: F) -> PendingWrite<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, wait) = sync_channel(1);
        if let Some(queue) = &self.queue {
            drop(queue.send(WriterJob::Maintenance(Box::new(QueuedMaintenance { run, answer }))));
        }
        self.pending_write(wait)
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl WriterThread {
    fn run_jobs(mut self, jobs: &Receiver<WriterJob>) {
        let mut carried: Option<WriterJob> = None;
        while let Some(first) = carried.take().or_else(|| next_job(jobs)) {
            self.try_reopen();
            let poisoned = self.poison.as_ref().map(|poison| poison.to_error(&self.file));
            match (first, poisoned) {
                (WriterJob::Mutation(work), Some(error)) => work.answer(Err(error)),
                (WriterJob::Maintenance(job), Some(error)) => job.refuse(error),
                (WriterJob::Mutation(work), None) => carried = self.run_group(work, jobs),
                (WriterJob::Maintenance(job), None) => {
                    if let Some(reason) = job.run(&mut self.conn, &self.file) {
                        self.poison(&reason);
                    }
                }
            }
        }
    }

    /// After a failed write: opens the database again, if the disk takes writes and the check finds no
    /// damage.
    fn try_reopen(&mut self) {
        if !matches!(self.poison, Some(WriterPoison::FailedWrite(_))) {
            return;
        }
        match database_open::reopen_after_failed_write(&self.layout) {
            Ok(conn) => {
                tracing::info!("{} was checked and reopened", self.file.display());
                self.conn = conn;
                self.actors.clear();
                self.poison = None;
            }
            Err(DatabaseOpenError::Corrupt { reason, .. }) => {
                self.poison = Some(WriterPoison::Damage(reason));
            }
            Err(error) => tracing::warn!("the database cannot be reopened yet: {error}"),
        }
    }

    /// Runs one group; returns a job that did not fit and comes next.
    fn run_group(
        &mut self,
        first: Box<dyn MutationJob>,
        jobs: &Receiver<WriterJob>,
    ) -> Option<WriterJob> {
        let group = match self.begin_group() {
            Ok(group) => group,
            Err(error) => {
                first.answer(Err(error));
                return None;
            }
        };
        let mut done: GroupResults = Vec::new();
        let mut carried = None;
        let mut next = Some(first);
        while let Some(mut work) = next.take() {
            let Ok(outcome) = self.run_member(work.as_mut(), &group, MemberIsolation::Shared)
            else {
                self.roll_back();
                self.run_with_savepoints(
                    done.into_iter().map(|(work, _)| work).chain([work]).collect(),
                );
                return carried;
            };
            if self.conn.is_autocommit() {
                // SQLite gave the whole transaction up (full disk, I/O error): nobody is stored.
                let error = outcome.err().unwrap_or(StoreError::Closed);
                done.push((work, Ok(())));
                self.fail_all(done, &error);
                return carried;
            }
            done.push((work, outcome));
            if !group.is_full() {
                match jobs.try_recv() {
                    Ok(WriterJob::Mutation(work)) => next = Some(work),
                    Ok(job @ WriterJob::Maintenance(_)) => carried = Some(job),
                    Err(_) => {}
                }
            }
        }
        self.commit_group(done, group);
        carried
    }

    /// Runs mutations of which one spoiled their group, each in a savepoint.
    fn run_with_savepoints(&mut self, works: Vec<Box<dyn MutationJob>>) {
        let mut queue = VecDeque::from(works);
        while let Some(first) = queue.pop_front() {
            let group = match self.begin_group() {
                Ok(group) => group,
                Err(error) => {
                    first.answer(Err(error));
                    continue;
                }
            };
            let mut done: GroupResults = Vec::new();
            let mut next = Some(first);
            while let Some(mut work) = next.take() {
                let outcome = self
                    .run_member(work.as_mut(), &group, MemberIsolation::Savepoint)
                    .unwrap_or(Err(StoreError::Closed));
                if self.conn.is_autocommit() {
                    let error = outcome.err().unwrap_or(StoreError::Closed);
                    done.push((work, Ok(())));
                    self.fail_all(std::mem::take(&mut done), &error);
                    break;
                }
                if matches!(outcome, Err(StoreError::TooLarge { .. })) && !done.is_empty() {
                    queue.push_front(work);
                    break;
                }
                done.push((work, outcome));
                next = if group.is_full() { None } else { queue.pop_front() };
            }
            if !done.is_empty() {
                self.commit_group(done, group);
            }
        }
    }

    fn begin_group(&self) -> Result<CommitGroup> {
        fail::fail_point!("store::before_begin");
        self.execute("BEGIN IMMEDIATE").map_err(|e| classify_sqlite_error(&e, &self.file))?;
        let newest = self
            .conn
            .prepare_cached("SELECT coalesce(max(cursor), 0) FROM event")
            .and_then(|mut s| s.query_row([], |row| row.get::<_, i64>(0)));
        match newest {
            Ok(cursor) => Ok(CommitGroup {
                cursor: Cell::new(cursor),
                committed_cursor: cursor,
                rows: Cell::new(0),
                bytes: Cell::new(0),
                largest: Cell::new(0),
                actors: RefCell::new(self.actors.clone()),
            }),
            Err(error) => {
                self.roll_back();
                Err(classify_sqlite_error(&error, &self.file))
            }
        }
    }

    /// Runs one mutation. On error its changes are undone if they are apart; without changes there
    /// is nothing to undo; otherwise it has spoiled the group.
    fn run_member(
        &self,
        work: &mut dyn MutationJob,
        group: &CommitGroup,
        apart: MemberIsolation,
    ) -> Result<Result<()>, GroupRollback> {
        let (cursor, bytes) = (group.cursor.get(), group.bytes.get());
        // SQLite's counter is not rolled back with a savepoint, so each member counts for itself.
        let before = self.conn.total_changes();
        if apart == MemberIsolation::Savepoint
            && let Err(error) = self.execute("SAVEPOINT member")
        {
            return Ok(Err(classify_sqlite_error(&error, &self.file)));
        }
        let ran =
            std::panic::catch_unwind(AssertUnwindSafe(|| work.run(&self.conn, &self.blobs, group)));
        let changes = self.conn.total_changes() - before;
        let outcome = ran
            .unwrap_or_else(|_| Err(StoreError::Internal("a mutation panicked".to_owned())))
            .and_then(|()| group.count_rows(changes));
        if self.conn.is_autocommit() {
            return Ok(outcome);
        }
        if outcome.is_err() {
            if apart == MemberIsolation::Shared && changes > 0 {
                return Err(GroupRollback);
            }
            group.cursor.set(cursor);
            group.bytes.set(bytes);
            group.actors.borrow_mut().clone_from(&self.actors);
        }
        if apart == MemberIsolation::Savepoint {
            let undone = if outcome.is_err() { self.execute("ROLLBACK TO member") } else { Ok(()) };
            if let Err(error) = undone.and_then(|()| self.execute("RELEASE member")) {
                return Ok(Err(classify_sqlite_error(&error, &self.file)));
            }
        }
        Ok(outcome)
    }

    /// Runs a statement without values, prepared once.
    fn execute(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn commit_group(&mut self, done: GroupResults, group: CommitGroup) {
        fail::fail_point!("store::before_commit");
        if let Err(error) = self.execute_commit() {
            let answer = self.after_failed_commit(&error);
            self.fail_all(done, &answer);
            return;
        }
        fail::fail_point!("store::after_commit");
        let commits = self.stats.commits.fetch_add(1, Ordering::Relaxed) + 1;
        self.stats.mutations.fetch_add(done.len() as u64, Ordering::Relaxed);
        self.stats.most_rows.fetch_max(group.rows.get(), Ordering::Relaxed);
        self.stats.most_bytes.fetch_max(group.bytes.get(), Ordering::Relaxed);
        if group.cursor.get() > group.committed_cursor {
            self.watch.notify_committed(group.cursor.get());
        }
        self.actors = group.actors.into_inner();
        for (work, outcome) in done {
            work.answer(outcome);
        }
        fail::fail_point!("store::after_answer");
        if commits.is_multiple_of(WAL_CHECK_COMMITS) {
            self.truncate_large_wal();
        }
    }

    fn execute_commit(&self) -> rusqlite::Result<()> {
        fail::fail_point!("store::failed_sync", |_| {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
            Err(rusqlite::Error::SqliteFailure(code, None))
        });
        self.execute("COMMIT")
    }

    /// Cuts the write-ahead log back when it has outgrown its limit (R24); a reader may prevent it,
    /// then a later look succeeds.
    fn truncate_large_wal(&mut self) {
        if connection::wal_len(&self.file) <= WAL_LIMIT as u64 {
            return;
        }
        if let Err(error) = connection::truncate_wal(&mut self.conn) {
            tracing::warn!(%error, "the write-ahead log could not be cut back");
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure) {
                self.poison(&error.to_string());
            }
        }
    }

    /// A full disk may pass; after any other failed commit nobody knows what is on disk.
    fn after_failed_commit(&mut self, error: &rusqlite::Error) -> StoreError {
        self.roll_back();
        let answer = classify_sqlite_error(error, &self.file);
        #[expect(clippy::wildcard_enum_match_arm, reason = "whatever may not pass by itself")]
        match answer {
            StoreError::Full { .. } | StoreError::Locked { .. } => answer,
            _ => {
                let reason = error.to_string();
                self.poison(&reason);
                StoreError::Poisoned { file: self.file.clone(), reason }
            }
        }
    }

    /// Stops all writing until the file has been reopened and checked.
    fn poison(&mut self, reason: &str) {
        self.poison = Some(WriterPoison::FailedWrite(reason.to_owned()));
        // The next open checks the file when it finds the marker; without it, it still replays the
        // log SQLite left.
        drop(fs_err::write(poison_marker(&self.layout), reason.as_bytes()));
    }

    fn fail_all(&self, done: GroupResults, error: &StoreError) {
        self.roll_back();
        for (work, _) in done {
            work.answer(Err(error.clone()));
        }
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            // If even this fails the next BEGIN fails and says so.
            drop(self.execute("ROLLBACK"));
        }
    }
}

/// The next job; waits for it, first awake, then asleep.
fn next_job(jobs: &Receiver<WriterJob>) -> Option<WriterJob> {
    for _ in 0..IDLE_SPINS {
        match jobs.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    jobs.recv().ok()
}
