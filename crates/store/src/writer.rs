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

use crate::blob::BlobDir;
use crate::connection::{self, WAL_LIMIT};
use crate::context::Context;
use crate::error::{Result, StoreError, classify};
use crate::job::{Job, Mutation, Ticket, Upkeep, Work};
use crate::tx::{Group, Tx};
use crate::watch::Watch;

/// How often an idle writer looks for the next job before it goes to sleep: some ten microseconds,
/// about as long as a caller needs to come back with its next write.
const LINGER: u32 = 400;

/// The size of the write-ahead log is looked at after this many commits.
const LOOK_AT_WAL: u64 = 32;

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
    file: Arc<Path>,
    waiting: Arc<AtomicU64>,
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
    /// Actor numbers that are committed.
    actors: HashMap<String, i64>,
}

/// Whether a member's changes can be told from the others'.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    /// They cannot.
    No,
    /// They are in a savepoint.
    Savepoint,
}

/// A member that failed after it had changed something that only a rollback of all can undo.
struct Spoiled;

type Done = Vec<(Box<dyn Work>, Result<()>)>;

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
            actors: HashMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("turnstone-writer".to_owned())
            .spawn(move || bench.serve(&jobs))?;
        let (file, waiting) = (Arc::from(file), Arc::default());
        Ok(Self { queue: Some(queue), thread: Some(thread), file, waiting, stats })
    }

    pub(crate) fn submit<T, F>(&self, ctx: &Context, run: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (answer, wait) = sync_channel(1);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Arc::clone(&self.waiting);
        let work = Mutation { ctx: ctx.clone(), run, value: None, answer, waiting };
        if let Some(queue) = &self.queue {
            // A closed queue drops the answer's sender, which the ticket reads as `Closed`.
            drop(queue.send(Job::Mutation(Box::new(work))));
        }
        self.ticket(wait)
    }

    fn ticket<T>(&self, answer: Receiver<Result<T>>) -> Ticket<T> {
        Ticket { answer, file: Arc::clone(&self.file), waiting: Arc::clone(&self.waiting) }
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
        self.ticket(wait)
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
        while let Some(first) = carried.take().or_else(|| next_job(jobs)) {
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
        let mut done: Done = Vec::new();
        let mut carried = None;
        let mut next = Some(first);
        while let Some(mut work) = next.take() {
            let Ok(outcome) = self.member(work.as_mut(), &group, Apart::No) else {
                self.roll_back();
                self.carefully(done.into_iter().map(|(work, _)| work).chain([work]).collect());
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
                    Ok(Job::Mutation(work)) => next = Some(work),
                    Ok(upkeep @ Job::Upkeep(_)) => carried = Some(upkeep),
                    Err(_) => {}
                }
            }
        }
        self.finish(done, group);
        carried
    }

    /// Runs mutations of which one spoiled their group, each in a savepoint.
    fn carefully(&mut self, works: Vec<Box<dyn Work>>) {
        let mut queue = VecDeque::from(works);
        while let Some(first) = queue.pop_front() {
            let group = match self.begin() {
                Ok(group) => group,
                Err(error) => {
                    first.answer(Err(error));
                    continue;
                }
            };
            let mut done: Done = Vec::new();
            let mut next = Some(first);
            while let Some(mut work) = next.take() {
                let outcome = self
                    .member(work.as_mut(), &group, Apart::Savepoint)
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
                self.finish(done, group);
            }
        }
    }

    fn begin(&self) -> Result<Group> {
        fail::fail_point!("store::before_begin");
        self.run("BEGIN IMMEDIATE").map_err(|e| classify(&e, &self.file))?;
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
                largest: Cell::new(0),
                actors: RefCell::new(self.actors.clone()),
            }),
            Err(error) => {
                self.roll_back();
                Err(classify(&error, &self.file))
            }
        }
    }

    /// Runs one mutation. On error its changes are undone if they are apart; without changes there
    /// is nothing to undo; otherwise it has spoiled the group.
    fn member(
        &self,
        work: &mut dyn Work,
        group: &Group,
        apart: Apart,
    ) -> Result<Result<()>, Spoiled> {
        let (cursor, bytes) = (group.cursor.get(), group.bytes.get());
        // SQLite's counter is not rolled back with a savepoint, so each member counts for itself.
        let before = self.conn.total_changes();
        if apart == Apart::Savepoint
            && let Err(error) = self.run("SAVEPOINT member")
        {
            return Ok(Err(classify(&error, &self.file)));
        }
        let ran =
            std::panic::catch_unwind(AssertUnwindSafe(|| work.run(&self.conn, &self.blobs, group)));
        let changes = self.conn.total_changes() - before;
        let outcome = ran
            .unwrap_or_else(|_| Err(StoreError::Internal("a mutation panicked".to_owned())))
            .and_then(|()| group.admit(changes));
        if self.conn.is_autocommit() {
            return Ok(outcome);
        }
        if outcome.is_err() {
            if apart == Apart::No && changes > 0 {
                return Err(Spoiled);
            }
            group.cursor.set(cursor);
            group.bytes.set(bytes);
            group.actors.borrow_mut().clone_from(&self.actors);
        }
        if apart == Apart::Savepoint {
            let undone = if outcome.is_err() { self.run("ROLLBACK TO member") } else { Ok(()) };
            if let Err(error) = undone.and_then(|()| self.run("RELEASE member")) {
                return Ok(Err(classify(&error, &self.file)));
            }
        }
        Ok(outcome)
    }

    /// Runs a statement without values, prepared once.
    fn run(&self, sql: &'static str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn finish(&mut self, done: Done, group: Group) {
        fail::fail_point!("store::before_commit");
        if let Err(error) = self.run("COMMIT") {
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
        self.actors = group.actors.into_inner();
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

    fn fail_all(&self, done: Done, error: &StoreError) {
        self.roll_back();
        for (work, _) in done {
            work.answer(Err(error.clone()));
        }
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            // If even this fails the next BEGIN fails and says so.
            drop(self.run("ROLLBACK"));
        }
    }
}

/// The next job; waits for it, first awake, then asleep.
fn next_job(jobs: &Receiver<Job>) -> Option<Job> {
    for _ in 0..LINGER {
        match jobs.try_recv() {
            Ok(job) => return Some(job),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    jobs.recv().ok()
}
