//! What the writer is asked to do, and the promise of an answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;
use turnstone_core::call_context::Context;

use crate::blob::BlobDir;
use crate::error::{Result, StoreError, classify_sqlite_error};
use crate::tx::{CommitGroup, Tx};

/// How often a lone caller looks for its answer before it goes to sleep.
const ANSWER_SPINS: u32 = 1000;

/// What the writer is asked to do.
pub(crate) enum WriterJob {
    /// A mutation, run in a group with others.
    Mutation(Box<dyn MutationJob>),
    /// Maintenance, run between groups and outside of any transaction.
    Maintenance(Box<dyn MaintenanceJob>),
}

/// Queued maintenance, as the writer sees it.
pub(crate) trait MaintenanceJob: Send {
    /// Does the work and answers; returns why the store must stop writing, if it must.
    fn run(self: Box<Self>, conn: &mut Connection, file: &Path) -> Option<String>;
    fn refuse(self: Box<Self>, error: StoreError);
}

pub(crate) struct QueuedMaintenance<T, F> {
    pub(crate) run: F,
    pub(crate) answer: SyncSender<Result<T>>,
}

impl<T, F> MaintenanceJob for QueuedMaintenance<T, F>
where
    T: Send,
    F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send,
{
    fn run(self: Box<Self>, conn: &mut Connection, file: &Path) -> Option<String> {
        let done = (self.run)(conn);
        // After a failed write to the file nobody knows what is on disk, as after a commit.
        let code = done.as_ref().err().and_then(rusqlite::Error::sqlite_error_code);
        let broken = (code == Some(rusqlite::ErrorCode::SystemIoFailure))
            .then(|| "maintenance could not write to it".to_owned());
        drop(self.answer.send(done.map_err(|e| classify_sqlite_error(&e, file))));
        broken
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        drop(self.answer.send(Err(error)));
    }
}

/// What a queued mutation is to the writer.
pub(crate) trait MutationJob: Send {
    fn run(&mut self, conn: &Connection, blobs: &BlobDir, group: &CommitGroup) -> Result<()>;
    fn answer(self: Box<Self>, outcome: Result<()>);
}

pub(crate) struct QueuedMutation<T, F> {
    pub(crate) ctx: Context,
    pub(crate) run: F,
    pub(crate) value: Option<T>,
    pub(crate) answer: SyncSender<Result<T>>,
    /// How many callers wait for the writer, this one among them.
    pub(crate) waiting: Arc<AtomicU64>,
}

impl<T, F> Drop for QueuedMutation<T, F> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T, F> MutationJob for QueuedMutation<T, F>
where
    T: Send,
    F: FnMut(&Tx<'_>) -> Result<T> + Send,
{
    fn run(&mut self, conn: &Connection, blobs: &BlobDir, group: &CommitGroup) -> Result<()> {
        self.value = Some((self.run)(&Tx::new(conn, blobs, &self.ctx, group))?);
        Ok(())
    }

    fn answer(mut self: Box<Self>, outcome: Result<()>) {
        let lost = || StoreError::Internal("a mutation ended without a value".to_owned());
        let result = outcome.and_then(|()| self.value.take().ok_or_else(lost));
        // Nobody may be waiting any more; that is their choice.
        drop(self.answer.send(result));
    }
}

/// The promise of an answer.
#[must_use = "a write is acknowledged only by waiting for it"]
pub struct PendingWrite<T> {
    pub(crate) answer: Receiver<Result<T>>,
    pub(crate) file: Arc<Path>,
    pub(crate) waiting: Arc<AtomicU64>,
}

impl<T> PendingWrite<T> {
    /// A ticket that is answered already.
    pub(crate) fn failed(error: StoreError) -> Self {
        let (answer, wait) = sync_channel(1);
        drop(answer.send(Err(error)));
        let file = Arc::from(Path::new(""));
        Self { answer: wait, file, waiting: Arc::default() }
    }

    /// Waits until the commit that carries the mutation is on disk, or failed.
    ///
    /// # Errors
    ///
    /// Whatever the mutation or the commit answered; nothing of the mutation is stored then.
    pub fn wait(self) -> Result<T> {
        let answer = self.spin_for_answer().or_else(|| self.answer.recv().ok());
        answer.unwrap_or(Err(StoreError::Closed)).map_err(|e| e.with_file(&self.file))
    }

    /// A lone caller stays awake for about as long as a commit takes: going to sleep and being woken
    /// would take as long again. With company the cores have better things to do.
    fn spin_for_answer(&self) -> Option<Result<T>> {
        for _ in 0..ANSWER_SPINS {
            match self.answer.try_recv() {
                Ok(answer) => return Some(answer),
                Err(_) if self.waiting.load(Ordering::Relaxed) > 1 => return None,
                Err(_) => std::thread::yield_now(),
            }
        }
        None
    }
}
