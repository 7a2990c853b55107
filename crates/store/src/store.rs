//! The store as a whole: opened once per process, shared by reference.

use std::fs::File;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use turnstone_core::id::SessionId;
use turnstone_core::time::{Cursor, Millis};

use crate::blob::BlobDir;
use crate::connection::{self, Purpose};
use crate::context::{Context, Lease, OwnerId};
use crate::error::{OpenError, Result, StoreError};
use crate::job::Ticket;
use crate::layout::{Layout, private_file};
use crate::migrate::{self, Standing};
use crate::owner::{self, Owner, Takeover};
use crate::read::{Reader, Tail};
use crate::rebuild;
use crate::recover::{self, Recovered};
use crate::schema::MIGRATIONS;
use crate::tx::Tx;
use crate::watch::Watch;
use crate::writer::{Writer, WriterStats};

/// The smallest page, and so the smallest file, SQLite knows.
const SMALLEST_PAGE: u64 = 512;

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory.
    pub layout: Layout,
    /// The present moment.
    pub now: Millis,
    /// Look for other processes' commits once a second even without a wake (R26).
    pub safety_tick: bool,
    /// Open even on a network file system.
    pub allow_network: bool,
}

impl Options {
    /// The usual way to open the store in `layout`.
    #[must_use]
    pub const fn new(layout: Layout, now: Millis) -> Self {
        Self { layout, now, safety_tick: true, allow_network: false }
    }
}

/// The one database of this user.
pub struct Store {
    layout: Layout,
    blobs: BlobDir,
    watch: Watch,
    mode: Mode,
    readers: Mutex<Vec<Connection>>,
    recovered: Recovered,
}

/// Whether this process may write.
enum Mode {
    Write { writer: Writer, owner: Owner },
    ReadOnly { reason: String },
}

impl Store {
    /// Opens the store: makes or upgrades the file, checks its settings, recovers what a dead
    /// process left. A file written by a newer version is opened for reading only.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; each names the file and has a remedy.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        let layout = options.layout.clone();
        layout.create()?;
        if !options.allow_network {
            crate::place::refuse_network(layout.root())?;
        }
        let path = layout.database();
        let guard = open_lock(&layout)?;
        let blobs = BlobDir::new(layout.blobs());
        let watch = Watch::new(layout.locks().join("wake"), options.safety_tick);
        if let Standing::Newer(version) = look(&path)? {
            let reason = format!("it was written by a newer version (schema {version})");
            let mode = Mode::ReadOnly { reason };
            let (readers, recovered) = (Mutex::default(), Recovered::default());
            return Ok(Self { layout, blobs, watch, mode, readers, recovered });
        }
        private_file(&path).map_err(|e| unusable(&path, &e))?;
        let conn = connection::open(&path, Purpose::Write)?;
        migrate::upgrade(&conn, &layout, options.now, MIGRATIONS)?;
        check_after_poison(&conn, &layout)?;
        rebuild::finish(&conn, &mut |_| {}).map_err(OpenError::Rebuild)?;
        let housekeeping = || -> Result<Owner> {
            crate::layout::sync_dir(layout.root())?;
            owner::sweep(&layout, options.now)?;
            blobs.sweep()?;
            Owner::register(&layout)
        };
        let owner = housekeeping().map_err(|e| OpenError::Directory {
            path: layout.root().to_path_buf(),
            reason: e.to_string(),
        })?;
        drop(guard);
        let marker = poison_marker(&layout);
        let writer =
            Writer::start(conn, blobs.clone(), path, marker, watch.clone()).map_err(|e| {
                OpenError::Directory { path: layout.root().to_path_buf(), reason: e.to_string() }
            })?;
        let mode = Mode::Write { writer, owner };
        let (readers, recovered) = (Mutex::default(), Recovered::default());
        let mut store = Self { layout, blobs, watch, mode, readers, recovered };
        let ctx = Context::system(options.now);
        store.recovered = recover::recover(&store, &ctx).map_err(OpenError::Recovery)?;
        Ok(store)
    }

    /// What recovery ended when the store was opened.
    #[must_use]
    pub const fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Ends what processes that died since have left; run it now and then (R45).
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn recover(&self, ctx: &Context) -> Result<Recovered> {
        recover::recover(self, ctx)
    }

    /// Sends a mutation to the writer. It is durable when the ticket answers, not before (R22).
    ///
    /// The closure may run more than once; only its last run counts.
    pub fn write<T, F>(&self, ctx: &Context, run: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        match &self.mode {
            Mode::Write { writer, .. } => writer.submit(ctx, run),
            Mode::ReadOnly { reason } => Ticket::refused(StoreError::ReadOnly {
                file: self.layout.database(),
                reason: reason.clone(),
            }),
        }
    }

    /// Runs upkeep on the writer's connection, outside of any transaction.
    pub(crate) fn upkeep<T, F>(&self, run: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        match &self.mode {
            Mode::Write { writer, .. } => writer.upkeep(run),
            Mode::ReadOnly { reason } => Ticket::refused(StoreError::ReadOnly {
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
    pub fn write_once<T, F>(&self, ctx: &Context, mut run: F) -> Ticket<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let key = ctx.idempotency.clone();
        self.write(ctx, move |tx| {
            let Some(key) = &key else { return run(tx) };
            if let Some(result) = tx.remembered(key)? {
                return Ok(serde_json::from_str(&result)?);
            }
            let value = run(tx)?;
            tx.remember(key, &serde_json::to_string(&value)?)?;
            Ok(value)
        })
    }

    /// Reads from one consistent view, in which no turn of a dead process runs (R45).
    ///
    /// # Errors
    ///
    /// What `read` answers.
    pub fn read<T>(&self, ctx: &Context, read: impl FnOnce(&Reader<'_>) -> Result<T>) -> Result<T> {
        let mut conn = self.begin_read(ctx)?;
        if recover::meets_dead(self, ctx, &Reader { conn: &conn, blobs: &self.blobs }) {
            self.end_read(conn);
            recover::end_dead(self, ctx);
            conn = self.begin_read(ctx)?;
        }
        self.finish_read(conn, read)
    }

    /// Reads what is stored, whoever is dead: for recovery itself.
    pub(crate) fn read_stored<T>(
        &self,
        ctx: &Context,
        read: impl FnOnce(&Reader<'_>) -> Result<T>,
    ) -> Result<T> {
        let conn = self.begin_read(ctx)?;
        self.finish_read(conn, read)
    }

    fn begin_read(&self, ctx: &Context) -> Result<Connection> {
        let conn = self.reader()?;
        let begun = conn.execute_batch("BEGIN").map_err(StoreError::from);
        begun.map_err(|e| e.in_file(&self.layout.database()))?;
        tracing::trace!(actor = ctx.actor.as_str(), request = ctx.request, "read");
        Ok(conn)
    }

    fn finish_read<T>(
        &self,
        conn: Connection,
        read: impl FnOnce(&Reader<'_>) -> Result<T>,
    ) -> Result<T> {
        let result = read(&Reader { conn: &conn, blobs: &self.blobs });
        self.end_read(conn);
        result.map_err(|e| e.in_file(&self.layout.database()))
    }

    /// Ends a view; a connection that cannot is not used again.
    fn end_read(&self, conn: Connection) {
        if conn.execute_batch("COMMIT").is_ok() {
            self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }

    fn reader(&self) -> Result<Connection> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(conn) = idle {
            return Ok(conn);
        }
        let path = self.layout.database();
        let opened = match &self.mode {
            Mode::Write { .. } => connection::open(&path, Purpose::Read),
            Mode::ReadOnly { .. } => connection::open_read_only(&path),
        };
        opened.map_err(|e| StoreError::Database { file: path, reason: e.to_string() })
    }

    /// Follows the log after `cursor`.
    #[must_use]
    pub fn tail(&self, ctx: &Context, after: Cursor) -> Tail<'_> {
        Tail::new(self, ctx, after)
    }

    /// Wakes of new commits.
    #[must_use]
    pub const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Where the store keeps its things.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) const fn blobs(&self) -> &BlobDir {
        &self.blobs
    }

    /// Why the store is open for reading only, if it is.
    #[must_use]
    pub fn read_only(&self) -> Option<&str> {
        match &self.mode {
            Mode::Write { .. } => None,
            Mode::ReadOnly { reason } => Some(reason),
        }
    }

    /// Figures of the writer.
    #[must_use]
    pub fn stats(&self) -> Option<&WriterStats> {
        match &self.mode {
            Mode::Write { writer, .. } => Some(&writer.stats),
            Mode::ReadOnly { .. } => None,
        }
    }

    fn owner(&self) -> Result<&Owner> {
        match &self.mode {
            Mode::Write { owner, .. } => Ok(owner),
            Mode::ReadOnly { reason } => {
                Err(StoreError::ReadOnly { file: self.layout.database(), reason: reason.clone() })
            }
        }
    }

    /// Takes the open lock if no other process has the store open; nobody can open it until the
    /// lock is dropped.
    pub(crate) fn lock_alone(&self, now: Millis) -> Result<File> {
        let own = self.owner_id()?;
        let lock = open_lock(&self.layout)?;
        let by = owner::others(&self.layout, own, now)?;
        if by.is_empty() {
            return Ok(lock);
        }
        Err(StoreError::InUse { file: self.layout.database(), by })
    }

    /// This process as a holder of leases.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`].
    pub fn owner_id(&self) -> Result<&OwnerId> {
        Ok(&self.owner()?.id)
    }

    /// Takes the lease on a session (R27).
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] if a living process holds it.
    pub fn lease(&self, ctx: &Context, session: &SessionId, takeover: Takeover) -> Result<Lease> {
        let owner = self.owner_id()?.clone();
        let (layout, session) = (self.layout.clone(), session.clone());
        self.write(ctx, move |tx| tx.take_lease(&layout, &session, &owner, takeover)).wait()
    }

    /// Tells whether a process that lives holds the lease on a session, this one included.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn is_leased(&self, ctx: &Context, session: &SessionId) -> Result<bool> {
        match self.read(ctx, |r| r.holder(session))? {
            Some(owner) => owner::is_alive(&self.layout, &owner, ctx.now),
            None => Ok(false),
        }
    }

    /// Shows other processes that this one lives, where file locks cannot.
    ///
    /// # Errors
    ///
    /// If the owner file cannot be touched.
    pub fn beat(&self, now: Millis) -> Result<()> {
        self.owner()?.beat(now)
    }
}

/// Looks at a file before anything is set on it: a foreign or newer one must stay as it is.
fn look(path: &std::path::Path) -> Result<Standing, OpenError> {
    let found = match fs_err::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Standing::Empty),
        Err(e) => return Err(unusable(path, &e)),
    };
    if !found.is_file() {
        return Err(OpenError::Foreign { path: path.to_path_buf() });
    }
    if found.len() == 0 {
        return Ok(Standing::Empty);
    }
    // SQLite would take so short a file for an empty one and write over it.
    if found.len() < SMALLEST_PAGE {
        let reason = "it is too short to be a database".to_owned();
        return Err(OpenError::Corrupt { path: path.to_path_buf(), reason });
    }
    let looked = connection::open_read_only(path).and_then(|conn| migrate::standing(&conn, path));
    match looked {
        // A power cut in the very first moments leaves a journal that only a writer may roll back.
        Err(OpenError::ReadOnly { .. }) if is_unfinished(path) => Ok(Standing::Empty),
        looked => looked,
    }
}

/// True for a file of at most two pages with a rollback journal beside it: one of ours, cut off
/// before it was switched to write-ahead logging, which is the first thing done to it.
fn is_unfinished(path: &std::path::Path) -> bool {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    let small = fs_err::metadata(path).is_ok_and(|m| m.len() <= 8192);
    small && std::path::Path::new(&journal).exists()
}

/// Why a file that should be ours cannot be opened for writing.
fn unusable(path: &std::path::Path, error: &std::io::Error) -> OpenError {
    use std::io::ErrorKind as Kind;
    let (path, reason) = (path.to_path_buf(), error.to_string());
    if matches!(error.kind(), Kind::PermissionDenied | Kind::ReadOnlyFilesystem) {
        OpenError::ReadOnly { path, reason }
    } else if matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded) {
        OpenError::Full { path }
    } else {
        OpenError::Directory { path, reason }
    }
}

/// One process at a time opens, upgrades and sweeps.
fn open_lock(layout: &Layout) -> Result<File, OpenError> {
    let path = layout.locks().join("open");
    let fail =
        |e: std::io::Error| OpenError::Directory { path: path.clone(), reason: e.to_string() };
    let file = private_file(&path).map_err(fail)?;
    file.lock().map_err(fail)?;
    Ok(file)
}

fn poison_marker(layout: &Layout) -> std::path::PathBuf {
    layout.locks().join("poisoned")
}

/// After a failed write nobody knows what is on disk until it was checked (R22).
fn check_after_poison(conn: &Connection, layout: &Layout) -> Result<(), OpenError> {
    let marker = poison_marker(layout);
    if !marker.exists() {
        return Ok(());
    }
    let path = layout.database();
    let verdict: String = conn
        .query_row("PRAGMA quick_check", [], |row| row.get(0))
        .map_err(|e| OpenError::from_sqlite(&e, &path))?;
    if verdict != "ok" {
        return Err(OpenError::Corrupt { path, reason: verdict });
    }
    fs_err::remove_file(&marker)
        .map_err(|e| OpenError::Directory { path: marker, reason: e.to_string() })
}
