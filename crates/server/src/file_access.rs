//! Files that turns lock and read: how many locks there may be, who waits for one, and how many bytes of
//! files are in memory.
//!
//! A lock costs a descriptor, so a server has a number of them. Who waits for one holds no thread, and
//! goes with its client. The bytes of a file count until the client has taken the answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use turnstone_core::id::SessionId;
use turnstone_engine::{FileError, FileLock};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::settings::RequestLimits;

/// What one permit of the budget for bytes stands for.
const BYTES_PER_PERMIT: usize = 1_024;
/// The pause after the first attempt to lock.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
/// The longest pause between two attempts: a lock of another process ends without a sign.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The locks and the reads of a server.
#[derive(Debug)]
pub(crate) struct FileAccess {
    locks: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    freed: Arc<Notify>,
    read_bytes: Arc<Semaphore>,
    max_read_permits: u32,
    patience: Duration,
}

/// The right to write some files.
#[derive(Debug)]
pub(crate) struct HeldFileLock {
    // It goes before its place: who is woken finds the files free.
    pub(crate) lock: FileLock,
    pub(crate) place: FileLockPlace,
}

/// The place of a lock among those of the server; its end wakes who waits.
#[derive(Debug)]
pub(crate) struct FileLockPlace {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Drop for FileLockPlace {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.freed.notify_waiters();
    }
}

/// Bytes of files that count against the budget of the server.
#[derive(Debug)]
pub(crate) struct ReadReservation {
    permit: OwnedSemaphorePermit,
}

/// Bytes and their reservation, which ends when the last copy of them is gone.
struct ReservedBytes {
    bytes: Vec<u8>,
    _reservation: ReadReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for FileAccess {
    fn default() -> Self {
        Self::new(&RequestLimits::default())
    }
}

impl FileAccess {
    pub(crate) fn new(limits: &RequestLimits) -> Self {
        let permits = u32::try_from(limits.file_read_bytes / BYTES_PER_PERMIT).unwrap_or(u32::MAX);
        let max_read_permits =
            permits.max(1).min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        Self {
            locks: Arc::new(Semaphore::new(limits.file_locks)),
            waiting: Arc::new(Semaphore::new(limits.file_waiting)),
            freed: Arc::default(),
            read_bytes: Arc::new(Semaphore::new(max_read_permits as usize)),
            max_read_permits,
            patience: Duration::from_millis(limits.file_wait_ms),
        }
    }

    /// Lets nobody wait any longer: the server stops.
    pub(crate) fn close(&self) {
        self.waiting.close();
        self.freed.notify_waiters();
    }

    fn reserve_place(&self, files: usize) -> Result<FileLockPlace, ApiError> {
        let count = u32::try_from(files).unwrap_or(u32::MAX);
        let permit = self.locks.clone().try_acquire_many_owned(count);
        let permit =
            permit.map_err(|_| lock_limit("too many files are locked; try again later"))?;
        Ok(FileLockPlace { permit: Some(permit), freed: self.freed.clone() })
    }

    /// Room for the bytes of a file and of the answer with it; waits until others are collected.
    ///
    /// # Errors
    ///
    /// 503 `FileReadBusyError`.
    pub(crate) async fn reserve_read(&self, bytes: u64) -> Result<ReadReservation, ApiError> {
        let acquire = self.read_bytes.clone().acquire_many_owned(self.read_permits(bytes));
        match tokio::time::timeout(self.patience, acquire).await {
            Ok(Ok(permit)) => Ok(ReadReservation { permit }),
            Ok(Err(_)) | Err(_) => Err(read_busy()),
        }
    }

    /// A file that is too large for the budget is read alone.
    fn read_permits(&self, bytes: u64) -> u32 {
        let permits = bytes.div_ceil(BYTES_PER_PERMIT as u64);
        u32::try_from(permits).unwrap_or(u32::MAX).min(self.max_read_permits)
    }

    /// Changes a reservation to another size.
    fn resize(&self, held: &mut ReadReservation, bytes: u64) -> Result<(), ApiError> {
        let (wanted, has) = (self.read_permits(bytes) as usize, held.permit.num_permits());
        if wanted < has {
            drop(held.permit.split(has - wanted));
        } else if wanted > has {
            let more = u32::try_from(wanted - has).unwrap_or(u32::MAX);
            let more = self.read_bytes.clone().try_acquire_many_owned(more);
            held.permit.merge(more.map_err(|_| read_busy())?);
        }
        Ok(())
    }

    /// Writes an answer with a file as JSON; its bytes count until they are gone.
    ///
    /// # Errors
    ///
    /// 503 `FileReadBusyError` if the answer is longer than was reserved and there is no room.
    pub(crate) fn encode(
        &self,
        mut held: ReadReservation,
        value: impl serde::Serialize,
    ) -> Result<Bytes, ApiError> {
        let mut length = CountedBytes(0);
        let unexpected = |error: serde_json::Error| ApiError::unexpected(&error);
        serde_json::to_writer(&mut length, &value).map_err(unexpected)?;
        // Both are in memory while one is made of the other; an escaped text can be six times as long.
        let source = held.permit.num_permits() as u64 * BYTES_PER_PERMIT as u64 / 2;
        if length.0 > source {
            self.resize(&mut held, source + length.0)?;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length.0).unwrap_or(0));
        serde_json::to_writer(&mut bytes, &value).map_err(unexpected)?;
        drop(value);
        self.resize(&mut held, length.0)?;
        Ok(Bytes::from_owner(ReservedBytes { bytes, _reservation: held }))
    }
}

/// Counts what is written to it.
struct CountedBytes(u64);

impl std::io::Write for CountedBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Locks the files that a session means by `paths`; waits while others have one of them.
///
/// # Errors
///
/// [`FileError::Locked`] after the patience of the server, as 409; 503 `FileLockLimitError` if the server
/// has too many locks, or too many requests wait for one.
pub(crate) async fn lock_files(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    paths: &[PathBuf],
) -> Result<Result<HeldFileLock, FileError>, ApiError> {
    let path = match try_lock_files(app, ctx, session, paths).await? {
        Err(FileError::Locked { path }) => path,
        done => return Ok(done),
    };
    let access = &app.in_flight().files;
    let _place_in_line = access.waiting.clone().try_acquire_owned().map_err(|_| {
        lock_limit("too many requests wait for files that are locked; try again later")
    })?;
    let waiting = wait_for_files(app, ctx, session, paths);
    let locked = tokio::time::timeout(access.patience, waiting).await;
    locked.unwrap_or(Ok(Err(FileError::Locked { path })))
}

/// Locks files as soon as nobody else has one of them.
async fn wait_for_files(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    paths: &[PathBuf],
) -> Result<Result<HeldFileLock, FileError>, ApiError> {
    let access = &app.in_flight().files;
    let mut pause = FIRST_PAUSE;
    loop {
        let freed = access.freed.notified();
        match try_lock_files(app, ctx, session, paths).await? {
            Err(FileError::Locked { .. }) => {}
            done => return Ok(done),
        }
        drop(tokio::time::timeout(pause, freed).await);
        pause = (pause * 2).min(MAX_PAUSE);
        if access.waiting.is_closed() {
            return Err(lock_limit("the server is stopping"));
        }
    }
}

async fn try_lock_files(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    paths: &[PathBuf],
) -> Result<Result<HeldFileLock, FileError>, ApiError> {
    let place = app.in_flight().files.reserve_place(paths.len())?;
    let (ctx, session, paths) = (ctx.clone(), session.clone(), paths.to_vec());
    app.run_blocking(move |app| {
        let locked = app.engine().tool_calls().try_lock_files(&ctx, &session, &paths);
        Ok(match locked {
            Ok(lock) => Ok(HeldFileLock { lock, place }),
            Err(error) => {
                // Nothing became free: nobody is to be woken.
                drop(place.forget_waiters());
                Err(error)
            }
        })
    })
    .await
}

impl FileLockPlace {
    /// Takes the permit out without waking anybody.
    fn forget_waiters(mut self) -> Option<OwnedSemaphorePermit> {
        self.freed = Arc::default();
        self.permit.take()
    }
}

fn lock_limit(words: &str) -> ApiError {
    ApiError::tagged(StatusCode::SERVICE_UNAVAILABLE, "FileLockLimitError", words)
}

fn read_busy() -> ApiError {
    let words = "Too many bytes of files are being read at the same time. Try again later.";
    ApiError::tagged(StatusCode::SERVICE_UNAVAILABLE, "FileReadBusyError", words)
}
