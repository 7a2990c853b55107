//! The store as a whole: opened once per process, shared by reference.

use std::fs::File;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use turnstone_core::call_context::Context;
use turnstone_core::time::{EpochMillis, LogCursor};

use crate::blob::BlobDir;
use crate::commit_watch::CommitWatch;
use crate::connection::{self, ConnectionPurpose};
use crate::data_layout::{DataLayout, open_private_file};
use crate::error::{DatabaseOpenError, Result, StoreError};
use crate::idempotency::IdempotencyKeys;
use crate::lease_owner::SessionLeases;
use crate::lease_owner::{self, OwnerRegistration};
use crate::maintenance::DatabaseMaintenance;
use crate::migration::{self, SchemaCompatibility};
use crate::read::{LogTail, ReadTx};
use crate::rebuild;
use crate::schema::MIGRATIONS;
use crate::search::SearchIndex;
use crate::turn_recovery::{self, TurnRecoveryReport};
use crate::tx::Tx;
use crate::writer::{WriterHandle, WriterStats};
use crate::writer_job::PendingWrite;

/// The smallest page, and so the smallest file, SQLite knows.
const SMALLEST_PAGE: u64 = 512;

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
    mode: StoreAccess,
    readers: Mutex<Vec<Connection>>,
    recovered: TurnRecoveryReport,
}

/// Whether this process may write.
enum StoreAccess {
    Write { writer: WriterHandle, owner: OwnerRegistration },
    ReadOnly { reason: String },
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
    pub const fn search_index(&self) -> SearchIndex<'_> {
        SearchIndex { store: self }
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
    /// # Errors
    ///
    /// See [`DatabaseOpenError`]; each names the file and has a remedy.
    pub fn open(options: &Options) -> Result<Self, DatabaseOpenError> {
        let layout = options.layout.clone();
        layout.create()?;
        if !options.allow_network {
            crate::network_fs::reject_network_fs(layout.root())?;
        }
        let path = layout.database();
        let guard = acquire_open_lock(&layout)?;
        let blobs = BlobDir::new(layout.blobs());
        let watch = CommitWatch::new(layout.locks().join("wake"), options.safety_tick);
        if let SchemaCompatibility::Newer(version) = inspect_file(&path)? {
            let reason = format!("it was written by a newer version (schema {version})");
            let mode = StoreAccess::ReadOnly { reason };
            let (readers, recovered) = (Mutex::default(), TurnRecoveryReport::default());
            return Ok(Self { layout, blobs, watch, mode, readers, recovered });
        }
        open_private_file(&path).map_err(|e| unusable_file_error(&path, &e))?;
        let conn = connection::open(&path, ConnectionPurpose::Write)?;
        migration::upgrade(&conn, &layout, options.now, MIGRATIONS)?;
        check_after_poison(&conn, &layout)?;
        rebuild::finish_pending(&conn, &mut |_| {}).map_err(DatabaseOpenError::Rebuild)?;
        let housekeeping = || -> Result<OwnerRegistration> {
            crate::data_layout::sync_dir(layout.root())?;
            lease_owner::remove_dead_owner_files(&layout, options.now)?;
            blobs.remove_stale_temp_files()?;
            OwnerRegistration::register(&layout)
        };
        let owner = housekeeping().map_err(|e| DatabaseOpenError::Directory {
            path: layout.root().to_path_buf(),
            reason: e.to_string(),
        })?;
        drop(guard);
        let marker = poison_marker(&layout);
        let writer = WriterHandle::start(conn, blobs.clone(), path, marker, watch.clone())
            .map_err(|e| DatabaseOpenError::Directory {
                path: layout.root().to_path_buf(),
                reason: e.to_string(),
            })?;
        let mode = StoreAccess::Write { writer, owner };
        let (readers, recovered) = (Mutex::default(), TurnRecoveryReport::default());
        let mut store = Self { layout, blobs, watch, mode, readers, recovered };
        if options.recover_turns {
            let ctx = Context::system(options.now);
            store.recovered =
                turn_recovery::recover_turns(&store, &ctx).map_err(DatabaseOpenError::Recovery)?;
        }
        Ok(store)
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
        match &self.mode {
            StoreAccess::Write { writer, .. } => writer.submit(ctx, run),
            StoreAccess::ReadOnly { reason } => PendingWrite::failed(StoreError::ReadOnly {
                file: self.layout.database(),
                reason: reason.clone(),
            }),
        }
    }

    /// Runs maintenance on the writer's connection, outside of any transaction.
    pub(crate) fn submit_maintenance<T, F>(&self, run: F) -> PendingWrite<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        match &self.mode {
            StoreAccess::Write { writer, .. } => writer.submit_maintenance(run),
            StoreAccess::ReadOnly { reason } => PendingWrite::failed(StoreError::ReadOnly {
                file: self.layout.database(),
                reason: reason.clone(),
            }),
        }
    }

    /// Like [`Store::write`], but a repeat with the same idempotency key gets the first result.
    ///
    /// # Errors
    ///
    /// What the mutation answers; errors are not remembered.
    pub fn write_once<T, F>(&self, ctx: &Context, mut run: F) -> PendingWrite<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let key = ctx.idempotency_key.clone();
        self.write(ctx, move |tx| {
            let Some(key) = &key else { return run(tx) };
            if let Some(result) = crate::idempotency::find_result(tx, key)? {
                return Ok(serde_json::from_str(&result)?);
            }
            let value = run(tx)?;
            crate::idempotency::store_result(tx, key, &serde_json::to_string(&value)?)?;
            Ok(value)
        })
    }

    /// Reads from one consistent view, in which no turn of a dead process runs (R45).
    ///
    /// # Errors
    ///
    /// What `read` answers.
    pub fn read<T>(&self, ctx: &Context, read: impl FnOnce(&ReadTx<'_>) -> Result<T>) -> Result<T> {
        let mut conn = self.begin_read(ctx)?;
        if turn_recovery::has_dead_turns(self, ctx, &ReadTx { conn: &conn, blobs: &self.blobs }) {
            self.end_read(conn);
            turn_recovery::end_dead_turns(self, ctx);
            conn = self.begin_read(ctx)?;
        }
        self.finish_read(conn, read)
    }

    /// Reads what is stored, without recovery first: for recovery itself.
    pub(crate) fn read_without_recovery<T>(
        &self,
        ctx: &Context,
        read: impl FnOnce(&ReadTx<'_>) -> Result<T>,
    ) -> Result<T> {
        let conn = self.begin_read(ctx)?;
        self.finish_read(conn, read)
    }

    fn begin_read(&self, ctx: &Context) -> Result<Connection> {
        let conn = self.reader_connection()?;
        let begun = conn.execute_batch("BEGIN").map_err(StoreError::from);
        begun.map_err(|e| e.with_file(&self.layout.database()))?;
        tracing::trace!(actor = ctx.actor.as_str(), request = ctx.request, "read");
        Ok(conn)
    }

    fn finish_read<T>(
        &self,
        conn: Connection,
        read: impl FnOnce(&ReadTx<'_>) -> Result<T>,
    ) -> Result<T> {
        let result = read(&ReadTx { conn: &conn, blobs: &self.blobs });
        self.end_read(conn);
        result.map_err(|e| e.with_file(&self.layout.database()))
    }

    /// Ends a view; a connection that cannot is not used again.
    fn end_read(&self, conn: Connection) {
        if conn.execute_batch("COMMIT").is_ok() {
            self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }

    fn reader_connection(&self) -> Result<Connection> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(conn) = idle {
            return Ok(conn);
        }
        let path = self.layout.database();
        let opened = match &self.mode {
            StoreAccess::Write { .. } => connection::open(&path, ConnectionPurpose::Read),
            StoreAccess::ReadOnly { .. } => connection::open_read_only(&path),
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
        match &self.mode {
            StoreAccess::Write { .. } => None,
            StoreAccess::ReadOnly { reason } => Some(reason),
        }
    }

    /// Figures of the writer.
    #[must_use]
    pub fn writer_stats(&self) -> Option<&WriterStats> {
        match &self.mode {
            StoreAccess::Write { writer, .. } => Some(&writer.stats),
            StoreAccess::ReadOnly { .. } => None,
        }
    }

    pub(crate) fn owner(&self) -> Result<&OwnerRegistration> {
        match &self.mode {
            StoreAccess::Write { owner, .. } => Ok(owner),
            StoreAccess::ReadOnly { reason } => {
                Err(StoreError::ReadOnly { file: self.layout.database(), reason: reason.clone() })
            }
        }
    }

    /// Takes the open lock if no other process has the store open; nobody can open it until the
    /// lock is dropped.
    pub(crate) fn lock_exclusively(&self, now: EpochMillis) -> Result<File> {
        let own = self.leases().owner_id()?;
        let lock = acquire_open_lock(&self.layout)?;
        let by = lease_owner::other_live_owners(&self.layout, own, now)?;
        if by.is_empty() {
            return Ok(lock);
        }
        Err(StoreError::InUse { file: self.layout.database(), by })
    }
}

/// Looks at a file before anything is set on it: a foreign or newer one must stay as it is.
fn inspect_file(path: &std::path::Path) -> Result<SchemaCompatibility, DatabaseOpenError> {
    let found = match fs_err::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(SchemaCompatibility::Empty);
        }
        Err(e) => return Err(unusable_file_error(path, &e)),
    };
    if !found.is_file() {
        return Err(DatabaseOpenError::Foreign { path: path.to_path_buf() });
    }
    if found.len() == 0 {
        return Ok(SchemaCompatibility::Empty);
    }
    // SQLite would take so short a file for an empty one and write over it.
    if found.len() < SMALLEST_PAGE {
        let reason = "it is too short to be a database".to_owned();
        return Err(DatabaseOpenError::Corrupt { path: path.to_path_buf(), reason });
    }
    let looked = connection::open_read_only(path)
        .and_then(|conn| migration::check_schema_compatibility(&conn, path));
    match looked {
        // A power cut in the very first moments leaves a journal that only a writer may roll back.
        Err(DatabaseOpenError::ReadOnly { .. }) if is_interrupted_creation(path) => {
            Ok(SchemaCompatibility::Empty)
        }
        looked => looked,
    }
}

/// True for a file of at most two pages with a rollback journal next to it: one of ours, interrupted
/// before it was switched to write-ahead logging, which is the first thing done to it.
fn is_interrupted_creation(path: &std::path::Path) -> bool {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    let small = fs_err::metadata(path).is_ok_and(|m| m.len() <= 8192);
    small && std::path::Path::new(&journal).exists()
}

/// Why a file that should be ours cannot be opened for writing.
fn unusable_file_error(path: &std::path::Path, error: &std::io::Error) -> DatabaseOpenError {
    use std::io::ErrorKind as Kind;
    let (path, reason) = (path.to_path_buf(), error.to_string());
    if matches!(error.kind(), Kind::PermissionDenied | Kind::ReadOnlyFilesystem) {
        DatabaseOpenError::ReadOnly { path, reason }
    } else if matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded) {
        DatabaseOpenError::Full { path }
    } else {
        DatabaseOpenError::Directory { path, reason }
    }
}

/// One process at a time opens, upgrades and sweeps.
fn acquire_open_lock(layout: &DataLayout) -> Result<File, DatabaseOpenError> {
    let path = layout.locks().join("open");
    let fail = |e: std::io::Error| DatabaseOpenError::Directory {
        path: path.clone(),
        reason: e.to_string(),
    };
    let file = open_private_file(&path).map_err(fail)?;
    file.lock().map_err(fail)?;
    Ok(file)
}

fn poison_marker(layout: &DataLayout) -> std::path::PathBuf {
    layout.locks().join("poisoned")
}

/// After a failed write nobody knows what is on disk until it was checked (R22).
fn check_after_poison(conn: &Connection, layout: &DataLayout) -> Result<(), DatabaseOpenError> {
    let marker = poison_marker(layout);
    if !marker.exists() {
        return Ok(());
    }
    let path = layout.database();
    let verdict: String = conn
        .query_row("PRAGMA quick_check", [], |row| row.get(0))
        .map_err(|e| DatabaseOpenError::from_sqlite(&e, &path))?;
    if verdict != "ok" {
        return Err(DatabaseOpenError::Corrupt { path, reason: verdict });
    }
    fs_err::remove_file(&marker)
        .map_err(|e| DatabaseOpenError::Directory { path: marker, reason: e.to_string() })
}
