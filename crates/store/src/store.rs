//! The store as a whole: opened once per process, shared by reference.

use std::fs::File;
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::Connection;
use turnstone_core::call_context::Context;
use turnstone_core::time::{EpochMillis, LogCursor};

use crate::blob::BlobDir;
use crate::commit_watch::CommitWatch;
use crate::connection::{self, ConnectionPurpose};
use crate::data_layout::DataLayout;
use crate::database_open::{self, OpenedDatabase};
use crate::error::{DatabaseOpenError, Result, StoreError};
use crate::full_disk::{self, ReadConnection};
use crate::idempotency::IdempotencyKeys;
use crate::lease_owner::SessionLeases;
use crate::lease_owner::{self, OwnerRegistration};
use crate::maintenance::DatabaseMaintenance;
use crate::read::{LogTail, ReadTx};
use crate::search::SessionSearch;
use crate::turn_recovery::{self, TurnRecoveryReport};
use crate::tx::Tx;
use crate::writer::{WriterHandle, WriterStats};
use crate::writer_job::PendingWrite;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory.
    pub layout: DataLayout,
    /// The present moment.
    pub now: EpochMillis,
    /// Look for other processes' commits once a second even without a wake (R26).
    pub safety_tick: bool,
    /// Open even on a network file system.
    pub allow_network: bool,
    /// End the turns of dead processes at once; without it the caller runs [`Store::recover_turns`].
    pub recover_turns: bool,
}

impl Options {
    /// The usual way to open the store in `layout`.
    #[must_use]
    pub const fn new(layout: DataLayout, now: EpochMillis) -> Self {
        Self { layout, now, safety_tick: true, allow_network: false, recover_turns: true }
    }
}

/// The one database of this user.
pub struct Store {
    layout: DataLayout,
    blobs: BlobDir,
    watch: CommitWatch,
    access: StoreAccess,
    readers: Mutex<Vec<Connection>>,
    recovered: TurnRecoveryReport,
}

/// Whether this process may write.
enum StoreAccess {
    Write(WriteAccess),
    /// The disk was full when the store was opened; the first access that finds room opens it.
    Full {
        now: EpochMillis,
        opened: OnceLock<WriteAccess>,
        /// Held while one thread tries to open it.
        opening: Mutex<()>,
    },
    ReadOnly {
        reason: String,
    },
}

/// What writing needs.
struct WriteAccess {
    writer: WriterHandle,
    owner: OwnerRegistration,
}

impl Store {
    /// Keeps the database small, sound and backed up.
    #[inline]
    #[must_use]
    pub const fn maintenance(&self) -> DatabaseMaintenance<'_> {
        DatabaseMaintenance { store: self }
    }

    /// Searches sessions, and keeps the index of the search up to date.
    #[inline]
    #[must_use]
    pub const fn session_search(&self) -> SessionSearch<'_> {
        SessionSearch { store: self }
    }

    /// Takes, releases and examines the leases of sessions for this process.
    #[inline]
    #[must_use]
    pub const fn leases(&self) -> SessionLeases<'_> {
        SessionLeases { store: self }
    }

    /// Finds and stores the answers of calls under their idempotency keys.
    #[inline]
    #[must_use]
    pub const fn idempotency(&self) -> IdempotencyKeys<'_> {
        IdempotencyKeys { store: self }
    }

    /// Opens the store: makes or upgrades the file, checks its settings, recovers what a dead
    /// process left. A file written by a newer version is opened for reading only.
    ///
    /// On a full disk a store that exists can be read. Writes fail with [`StoreError::Full`] until
    /// there is room.
    ///
    /// # Errors
    ///
    /// See [`DatabaseOpenError`]; each names the file and has a remedy.
    pub fn open(options: &Options) -> Result<Self, DatabaseOpenError> {
        let (layout, now) = (options.layout.clone(), options.now);
        layout.create()?;
        if !options.allow_network {
            crate::network_fs::reject_network_fs(layout.root())?;
        }
        let blobs = BlobDir::new(layout.blobs());
        let watch = CommitWatch::new(layout.locks().join("wake"), options.safety_tick);
        let opened = database_open::acquire_open_lock(&layout)
            .and_then(|lock| database_open::open_for_writing(&layout, &blobs, now, lock));
        let access = match opened {
            Ok(OpenedDatabase::Writable { conn, owner }) => {
                StoreAccess::Write(WriteAccess::start(conn, owner, &layout, &blobs, &watch)?)
            }
            Ok(OpenedDatabase::Newer(version)) => StoreAccess::ReadOnly {
                reason: format!("it was written by a newer version (schema {version})"),
            },
            Err(error) if error.is_full() && full_disk::is_readable(&layout, now) => {
                tracing::warn!("{error}: it can be read, not written");
                StoreAccess::Full { now, opened: OnceLock::new(), opening: Mutex::default() }
            }
            Err(error) => return Err(error),
        };
        let (readers, recovered) = (Mutex::default(), TurnRecoveryReport::default());
        let mut store = Self { layout, blobs, watch, access, readers, recovered };
        if options.recover_turns {
            let ctx = Context::system(now);
            store.recovered = match turn_recovery::recover_turns(&store, &ctx) {
                // What is stored can be read all the same; the next recovery tries again.
                Err(error @ StoreError::Full { .. }) => {
                    tracing::warn!("the turns of dead processes cannot be ended yet: {error}");
                    TurnRecoveryReport::default()
                }
                recovered => recovered.map_err(DatabaseOpenError::Recovery)?,
            };
        }
        Ok(store)
    }

    /// What writing needs, if this process has it already.
    fn current_access(&self) -> Option<&WriteAccess> {
        match &self.access {
            StoreAccess::Write(access) => Some(access),
            StoreAccess::Full { opened, .. } => opened.get(),
            StoreAccess::ReadOnly { .. } => None,
        }
    }

    /// What writing needs. A store that was opened on a full disk is opened for writing as soon as
    /// there is room.
    fn write_access(&self) -> Result<&WriteAccess> {
        if let Some(access) = self.current_access() {
            return Ok(access);
        }
        let file = self.layout.database();
        match &self.access {
            StoreAccess::ReadOnly { reason } => {
                Err(StoreError::ReadOnly { file, reason: reason.clone() })
            }
            StoreAccess::Write(_) | StoreAccess::Full { .. } => {
                self.open_for_writing()?.ok_or(StoreError::Full { file })
            }
        }
    }

    /// Tries to open for writing what was opened on a full disk.
    fn open_for_writing(&self) -> Result<Option<&WriteAccess>> {
        let StoreAccess::Full { now, opened, opening } = &self.access else { return Ok(None) };
        let _one_at_a_time = opening.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.get().is_some() {
            return Ok(opened.get());
        }
        // Another process opens it, or reads it without shared memory: the next write tries again.
        let Some(lock) = database_open::try_acquire_open_lock(&self.layout)? else {
            return Ok(None);
        };
        let found = database_open::open_for_writing(&self.layout, &self.blobs, *now, lock)?;
        let OpenedDatabase::Writable { conn, owner } = found else { return Ok(None) };
        let access = WriteAccess::start(conn, owner, &self.layout, &self.blobs, &self.watch)?;
        Ok(Some(opened.get_or_init(|| access)))
    }

    /// What recovery ended when the store was opened.
    #[must_use]
    pub const fn turn_recovery(&self) -> &TurnRecoveryReport {
        &self.recovered
    }

    /// Ends what processes that died since have left; run it now and then (R45).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn recover_turns(&self, ctx: &Context) -> Result<TurnRecoveryReport> {
        turn_recovery::recover_turns(self, ctx)
    }

    /// Sends a mutation to the writer. It is durable when the ticket answers, not before (R22).
    ///
    /// The closure may run more than once; only its last run counts.
    pub fn write<T, F>(&self, ctx: &Context, run: F) -> PendingWrite<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        match self.write_access() {
            Ok(access) => access.writer.submit(ctx, run),
            Err(error) => PendingWrite::failed(error),
        }
    }

    /// Runs maintenance on the writer's connection, outside of any transaction.
    pub(crate) fn submit_maintenance<T, F>(&self, run: F) -> PendingWrite<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        match self.write_access() {
            Ok(access) => access.writer.submit_maintenance(run),
            Err(error) => PendingWrite::failed(error),
        }
    }

    /// Reads from one consistent view, in which no turn of a dead process runs (R45).
    ///
    /// # Errors
    ///
    /// What `read` answers.
    pub fn read<T>(&self, ctx: &Context, read: impl FnOnce(&ReadTx<'_>) -> Result<T>) -> Result<T> {
        if self.current_access().is_none() && matches!(self.access, StoreAccess::Full { .. }) {
            // Before a view is open: without shared memory it would be in the way.
            drop(self.open_for_writing());
        }
        let mut reader = self.begin_read(ctx)?;
        let view = ReadTx { conn: &reader.conn, blobs: &self.blobs };
        if turn_recovery::has_dead_turns(self, ctx, &view) {
            self.end_read(reader);
            turn_recovery::end_dead_turns(self, ctx);
            reader = self.begin_read(ctx)?;
        }
        self.finish_read(reader, read)
    }

    /// Reads what is stored, without recovery first: for recovery itself.
    pub(crate) fn read_without_recovery<T>(
        &self,
        ctx: &Context,
        read: impl FnOnce(&ReadTx<'_>) -> Result<T>,
    ) -> Result<T> {
        let reader = self.begin_read(ctx)?;
        self.finish_read(reader, read)
    }

    fn begin_read(&self, ctx: &Context) -> Result<ReadConnection> {
        let reader = self.reader_connection(ctx.now)?;
        let begun = reader.conn.execute_batch("BEGIN").map_err(StoreError::from);
        begun.map_err(|e| e.with_file(&self.layout.database()))?;
        tracing::trace!(actor = ctx.actor.as_str(), request = ctx.request, "read");
        Ok(reader)
    }

    fn finish_read<T>(
        &self,
        reader: ReadConnection,
        read: impl FnOnce(&ReadTx<'_>) -> Result<T>,
    ) -> Result<T> {
        let result = read(&ReadTx { conn: &reader.conn, blobs: &self.blobs });
        self.end_read(reader);
        result.map_err(|e| e.with_file(&self.layout.database()))
    }

    /// Ends a view; a connection that cannot is not used again.
    fn end_read(&self, reader: ReadConnection) {
        let is_ended = reader.conn.execute_batch("COMMIT").is_ok();
        if let Some(conn) = reader.into_reusable().filter(|_| is_ended) {
            self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }

    fn reader_connection(&self, now: EpochMillis) -> Result<ReadConnection> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(conn) = idle {
            return Ok(ReadConnection::shared(conn));
        }
        let path = self.layout.database();
        let opened = match (&self.access, self.current_access()) {
            (StoreAccess::ReadOnly { .. }, _) => {
                connection::open_read_only(&path).map(ReadConnection::shared)
            }
            (_, Some(_)) => {
                connection::open(&path, ConnectionPurpose::Read).map(ReadConnection::shared)
            }
            (_, None) => full_disk::open_for_reading(&self.layout, now),
        };
        opened.map_err(|e| StoreError::Database { file: path, reason: e.to_string() })
    }

    /// Follows the log after `cursor`.
    #[must_use]
    pub fn tail_log(&self, ctx: &Context, after: LogCursor) -> LogTail<'_> {
        LogTail::new(self, ctx, after)
    }

    /// Wakes of new commits.
    #[must_use]
    pub const fn commit_watch(&self) -> &CommitWatch {
        &self.watch
    }

    /// Where the store keeps its things.
    #[must_use]
    pub const fn layout(&self) -> &DataLayout {
        &self.layout
    }

    pub(crate) const fn blobs(&self) -> &BlobDir {
        &self.blobs
    }

    /// Why the store is open for reading only, if it is.
    #[must_use]
    pub fn read_only_reason(&self) -> Option<&str> {
        match &self.access {
            StoreAccess::Write(_) | StoreAccess::Full { .. } => None,
            StoreAccess::ReadOnly { reason } => Some(reason),
        }
    }

    /// Figures of the writer.
    #[must_use]
    pub fn writer_stats(&self) -> Option<&WriterStats> {
        self.current_access().map(|access| &*access.writer.stats)
    }

    pub(crate) fn owner(&self) -> Result<&OwnerRegistration> {
        Ok(&self.write_access()?.owner)
    }

    /// This process as an owner of leases, if it can be one at the moment.
    pub(crate) fn current_owner(&self) -> Option<&OwnerRegistration> {
        self.current_access().map(|access| &access.owner)
    }

    /// Takes the open lock if no other process has the store open; nobody can open it until the
    /// lock is dropped.
    pub(crate) fn lock_exclusively(&self, now: EpochMillis) -> Result<File> {
        let own = self.leases().owner_id()?;
        let lock = database_open::acquire_open_lock(&self.layout)?;
        let by = lease_owner::describe_other_owners(&self.layout, own, now)?;
        if by.is_empty() {
            return Ok(lock);
        }
        Err(StoreError::InUse { file: self.layout.database(), by })
    }
}

impl WriteAccess {
    fn start(
        conn: Connection,
        owner: OwnerRegistration,
        layout: &DataLayout,
        blobs: &BlobDir,
        watch: &CommitWatch,
    ) -> Result<Self, DatabaseOpenError> {
        let writer = WriterHandle::start(conn, blobs.clone(), layout.clone(), watch.clone())
            .map_err(|e| DatabaseOpenError::from_io(&e, layout.root()))?;
        Ok(Self { writer, owner })
    }
}
