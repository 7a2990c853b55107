//! The writer thread: many mutations, one fsync (R22).
//!
//! A group is what has queued up while the previous commit was on its way to disk; there is no
//! timer. Each mutation runs in its own savepoint; its answer is given after COMMIT returned.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rusqlite::Connection;

use crate::blob::BlobDir;
use crate::connection::{self, WAL_LIMIT};
use crate::context::Context;
use crate::error::{Result, StoreError, classify};
use crate::tx::{Group, Tx};
use crate::watch::Watch;

/// The limits of one transaction (R23).
const MAX_ROWS: u64 = 500;
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// A group takes no further member once it is this far.
const FULL_ROWS: u64 = 400;
const FULL_BYTES: u64 = 3 * 1024 * 1024;

/// The size of the write-ahead log is looked at after this many commits.
const LOOK_AT_WAL: u64 = 32;

/// What the writer is asked to do.
enum Job {
    /// A mutation, run in a group with others.
    Mutation(Box<dyn Work>),
    /// Upkeep, run between groups and outside of any transaction.
    Upkeep(Box<dyn Chore>),
}

/// What queued upkeep is to the writer.
trait Chore: Send {
    /// Does the work and answers; returns why the store must stop writing, if it must.
    fn run(self: Box<Self>, conn: &mut Connection, file: &Path) -> Option<String>;
    fn refuse(self: Box<Self>, error: StoreError);
}

struct Upkeep<T, F> {
    run: F,
    answer: SyncSender<Result<T>>,
}

impl<T, F> Chore for Upkeep<T, F>
where
    T: Send,
    F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send,
{
    fn run(self: Box<Self>, conn: &mut Connection, file: &Path) -> Option<String> {
        let done = (self.run)(conn);
        // After a failed write to the file nobody knows what is on disk, as after a commit.
        let code = done.as_ref().err().and_then(rusqlite::Error::sqlite_error_code);
        let broken = (code == Some(rusqlite::ErrorCode::SystemIoFailure))
            .then(|| "upkeep could not write to it".to_owned());
        drop(self.answer.send(done.map_err(|e| classify(&e, file))));
        broken
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        drop(self.answer.send(Err(error)));
    }
}

/// What a queued mutation is to the writer.
trait Work: Send {
    fn context(&self) -> &Context;
    fn run(&mut self, tx: &Tx<'_>) -> Result<()>;
    fn answer(self: Box<Self>, outcome: Result<()>);
}

struct Mutation<T, F> {
    ctx: Context,
    run: F,
    value: Option<T>,
    answer: SyncSender<Result<T>>,
}

impl<T, F> Work for Mutation<T, F>
where
    T: Send,
    F: FnMut(&Tx<'_>) -> Result<T> + Send,
{
    fn context(&self) -> &Context {
        &self.ctx
    }

    fn run(&mut self, tx: &Tx<'_>) -> Result<()> {
        self.value = Some((self.run)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<()>) {
        let lost = || StoreError::Internal("a mutation ended without a value".to_owned());
        let Self { value, answer, .. } = *self;
        let result = outcome.and_then(|()| value.ok_or_else(lost));
        // Nobody may be waiting any more; that is their choice.
        drop(answer.send(result));
    }
}

/// The promise of an answer.
#[must_use = "a write is acknowledged only by waiting for it"]
pub struct Ticket<T> {
    answer: Receiver<Result<T>>,
    file: PathBuf,
}

impl<T> Ticket<T> {
    /// A ticket that is answered already.
    pub(crate) fn refused(error: StoreError) -> Self {
        let (answer, wait) = sync_channel(1);
        drop(answer.send(Err(error)));
        Self { answer: wait, file: PathBuf::new() }
    }

    /// Waits until the commit that carries the mutation is on disk, or failed.
    ///
    /// # Errors
    ///
    /// Whatever the mutation or the commit answered; nothing of the mutation is stored then.
    pub fn wait(self) -> Result<T> {
        let answer = self.answer.recv().unwrap_or(Err(StoreError::Closed));
        answer.map_err(|e| e.in_file(&self.file))
    }
}

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
pub(crate) struct Writer {
    queue: Option<Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    file: PathBuf,
    pub(crate) stats: Arc<WriterStats>,
}

/// What the thread works with.
struct Bench {
    conn: Connection,
    blobs: BlobDir,
    file: PathBuf,
    watch: Watch,
    stats: Arc<WriterStats>,
    poison: Option<String>,
    marker: PathBuf,
}

impl Writer {
    pub(crate) fn start(
        conn: Connection,
        blobs: BlobDir,
        file: PathBuf,
        marker: PathBuf,
        watch: Watch,
    ) -> std::io::Result<Self> {
        let (queue, jobs) = channel::<Job>();
        let stats = Arc::new(WriterStats::default());
        let bench = Bench {
            conn,
            blobs,
            file: file.clone(),
            watch,
            stats: Arc::clone(&stats),
            poison: None,
            marker,
        };
        let thread = std::thread::Builder::new()
            .name("turnstone-writer".to_owned())
            .spawn(move || bench.serve(&jobs))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), file, stats })
    }

    pub(crate) fn submit<T, F>(&self, ctx: &Context, run: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (answer, wait) = sync_channel(1);
        let work = Mutation { ctx: ctx.clone(), run, value: None, answer };
        if let Some(queue) = &self.queue {
            // A closed queue drops the answer's sender, which the ticket reads as `Closed`.
            drop(queue.send(Job::Mutation(Box::new(work))));
        }
        Ticket { answer: wait, file: self.file.clone() }
    }

    /// Runs `run` on the writer's connection between groups, outside of any transaction.
    pub(crate) fn upkeep<T, F>(&self, run: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, wait) = sync_channel(1);
        if let Some(queue) = &self.queue {
            drop(queue.send(Job::Upkeep(Box::new(Upkeep { run, answer }))));
        }
        Ticket { answer: wait, file: self.file.clone() }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Bench {
    fn serve(mut self, jobs: &Receiver<Job>) {
        let mut carried: Option<Job> = None;
        while let Some(first) = carried.take().or_else(|| jobs.recv().ok()) {
            let poison = self.poison.clone();
            let poisoned =
                poison.map(|reason| StoreError::Poisoned { file: self.file.clone(), reason });
            match (first, poisoned) {
                (Job::Mutation(work), Some(error)) => work.answer(Err(error)),
                (Job::Upkeep(chore), Some(error)) => chore.refuse(error),
                (Job::Mutation(work), None) => carried = self.group(work, jobs),
                (Job::Upkeep(chore), None) => {
                    if let Some(reason) = chore.run(&mut self.conn, &self.file) {
                        self.poison(&reason);
                    }
                }
            }
        }
    }

    /// Runs one group; returns a job that did not fit and comes next.
    fn group(&mut self, first: Box<dyn Work>, jobs: &Receiver<Job>) -> Option<Job> {
        let group = match self.begin() {
            Ok(group) => group,
            Err(error) => {
                first.answer(Err(error));
                return None;
            }
        };
        let mut done: Vec<(Box<dyn Work>, Result<()>)> = Vec::new();
        let mut carried = None;
        let mut next = Some(first);
        while let Some(mut work) = next.take() {
            let outcome = self.member(work.as_mut(), &group);
            if self.conn.is_autocommit() {
                // SQLite gave the whole transaction up (full disk, I/O error): nobody is stored.
                let error = outcome.err().unwrap_or(StoreError::Closed);
                done.push((work, Ok(())));
                self.fail_all(done, &error);
                return None;
            }
            if matches!(outcome, Err(StoreError::TooLarge { .. })) && !done.is_empty() {
                carried = Some(Job::Mutation(work));
                break;
            }
            done.push((work, outcome));
            if group.rows.get() < FULL_ROWS && group.bytes.get() < FULL_BYTES {
                match jobs.try_recv() {
                    Ok(Job::Mutation(work)) => next = Some(work),
                    Ok(upkeep @ Job::Upkeep(_)) => carried = Some(upkeep),
                    Err(_) => {}
                }
            }
        }
        self.finish(done, &group);
        carried
    }

    fn begin(&self) -> Result<Group> {
        fail::fail_point!("store::before_begin");
        self.conn.execute_batch("BEGIN IMMEDIATE").map_err(|e| classify(&e, &self.file))?;
        let newest = self
            .conn
            .prepare_cached("SELECT coalesce(max(cursor), 0) FROM event")
            .and_then(|mut s| s.query_row([], |row| row.get::<_, i64>(0)));
        match newest {
            Ok(cursor) => Ok(Group {
                cursor: Cell::new(cursor),
                floor: cursor,
                rows: Cell::new(0),
                bytes: Cell::new(0),
                actors: RefCell::new(HashMap::new()),
            }),
            Err(error) => {
                self.roll_back();
                Err(classify(&error, &self.file))
            }
        }
    }

    /// Runs one mutation in its savepoint; on error only this one is undone.
    fn member(&self, work: &mut dyn Work, group: &Group) -> Result<()> {
        let (cursor, bytes) = (group.cursor.get(), group.bytes.get());
        // SQLite's counter is not rolled back with a savepoint, so each member counts for itself.
        let before = self.conn.total_changes();
        self.conn.prepare_cached("SAVEPOINT member")?.execute([])?;
        let ctx = work.context().clone();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
            work.run(&Tx::new(&self.conn, &self.blobs, &ctx, group))
        }))
        .unwrap_or_else(|_| Err(StoreError::Internal("a mutation panicked".to_owned())))
        .and_then(|()| {
            let rows = group.rows.get() + (self.conn.total_changes() - before);
            let bytes = group.bytes.get();
            if rows > MAX_ROWS || bytes > MAX_BYTES {
                return Err(StoreError::TooLarge { rows, bytes });
            }
            group.rows.set(rows);
            Ok(())
        });
        if self.conn.is_autocommit() {
            return outcome;
        }
        if outcome.is_err() {
            group.cursor.set(cursor);
            group.bytes.set(bytes);
            group.actors.borrow_mut().clear();
            self.conn.prepare_cached("ROLLBACK TO member")?.execute([])?;
        }
        self.conn.prepare_cached("RELEASE member")?.execute([])?;
        outcome
    }

    fn finish(&mut self, done: Vec<(Box<dyn Work>, Result<()>)>, group: &Group) {
        fail::fail_point!("store::before_commit");
        if let Err(error) = self.conn.execute_batch("COMMIT") {
            let answer = self.after_failed_commit(&error);
            self.fail_all(done, &answer);
            return;
        }
        fail::fail_point!("store::after_commit");
        let commits = self.stats.commits.fetch_add(1, Ordering::Relaxed) + 1;
        self.stats.mutations.fetch_add(done.len() as u64, Ordering::Relaxed);
        self.stats.most_rows.fetch_max(group.rows.get(), Ordering::Relaxed);
        self.stats.most_bytes.fetch_max(group.bytes.get(), Ordering::Relaxed);
        if group.cursor.get() > group.floor {
            self.watch.committed(group.cursor.get());
        }
        for (work, outcome) in done {
            work.answer(outcome);
        }
        fail::fail_point!("store::after_answer");
        if commits.is_multiple_of(LOOK_AT_WAL) {
            self.cut_wal();
        }
    }

    /// Cuts the write-ahead log back when it has outgrown its limit (R24); a reader may prevent it,
    /// then a later look succeeds.
    fn cut_wal(&mut self) {
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
        let answer = classify(error, &self.file);
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

    /// Stops all writing until the file was opened anew and checked.
    fn poison(&mut self, reason: &str) {
        self.poison = Some(reason.to_owned());
        // The next open checks the file when it finds the marker; without it, it still replays the
        // log SQLite left.
        drop(fs_err::write(&self.marker, reason.as_bytes()));
    }

    fn fail_all(&self, done: Vec<(Box<dyn Work>, Result<()>)>, error: &StoreError) {
        self.roll_back();
        for (work, _) in done {
            work.answer(Err(error.clone()));
        }
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            // If even this fails the next BEGIN fails and says so.
            drop(self.conn.execute_batch("ROLLBACK"));
        }
    }
}
