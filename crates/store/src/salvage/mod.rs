//! Salvage: copies what can be read of a damaged store into a new one, and says what is lost.
//!
//! The damaged files are copied first and kept; the originals are only read. From the copy, the
//! tables that cannot be made anew are read in ranges of row numbers, halved around pages that
//! cannot be read, and every row is proved by its check sum or hash before it is taken. What is
//! missing in a stream becomes a stub, and the projections are made from the salvaged log alone, so
//! the new store is itself sound. A session is called complete only if nothing of it is missing.

mod companion;
mod event;
mod mend;
mod range;
mod source;
mod stream;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use turnstone_core::time::Millis;

use crate::blob::BlobDir;
use crate::connection::{self, Purpose};
use crate::context::OwnerId;
use crate::doctor::{Finding, Severity, doctor};
use crate::error::{Result, StoreError};
use crate::layout::{Layout, sync_dir};
use crate::migrate;
use crate::owner;
use crate::schema::MIGRATIONS;

/// What came out of a damaged store.
#[derive(Clone, Debug, Default)]
pub struct Salvaged {
    /// The new data directory; `--data` opens it.
    pub data: PathBuf,
    /// The copy of the damaged files.
    pub kept: PathBuf,
    /// Bytes of the damaged files that the disk did not give.
    pub unreadable_bytes: u64,
    /// What was read and lost, by table.
    pub tables: Vec<Tally>,
    /// Sessions of which nothing is missing.
    pub complete: Vec<String>,
    /// Sessions of which something is missing.
    pub damaged: Vec<DamagedSession>,
    /// Sessions of which too little is left to show them.
    pub lost: Vec<String>,
    /// Errors the doctor still finds in the new store; there should be none.
    pub remaining: Vec<Finding>,
}

/// What was read of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The table.
    pub table: &'static str,
    /// Rows read and proved.
    pub read: u64,
    /// Rows that were read but are not what was stored.
    pub damaged: u64,
    /// Row numbers at which nothing could be read; there may or may not have been a row.
    pub unreadable: u64,
}

/// A session of which something is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSession {
    /// The session.
    pub id: String,
    /// Events that are missing or had to be given up.
    pub events: u64,
    /// True if it is not certain where the stream ended.
    pub open_end: bool,
}

/// Copies what can be read of the store in `layout` into the new data directory `target`.
///
/// The store in `layout` is not changed. `target` must not exist or be empty; it holds the new
/// store and, in `damaged/`, the files as they were.
///
/// # Errors
///
/// [`StoreError::InUse`] while a process has the store open, [`StoreError::Invalid`] if the target
/// is not empty, [`StoreError::Corrupt`] if nothing could be read at all, or what writing the
/// target does not allow. The source is as it was in every case.
pub fn salvage(layout: &Layout, target: &Path, now: Millis) -> Result<Salvaged> {
    let _lock = lock_source(layout, now)?;
    let new = prepare(target)?;
    let mut done = Salvaged {
        data: target.to_path_buf(),
        ..Salvaged::default()
    };
    let source = source::keep(layout, &new, &mut done)?;
    let file = new.database();
    drop(crate::layout::private_file(&file)?);
    let out = connection::open(&file, Purpose::Write)?;
    migrate::upgrade(&out, &new, now, MIGRATIONS)?;
    let source = source.open(&out, &file)?;
    let mut work = Work {
        source: &source.conn,
        out: &out,
        from: BlobDir::new(layout.blobs()),
        to: BlobDir::new(new.blobs()),
        done,
        now,
        streams: BTreeMap::new(),
    };
    // The index is only for the way; the schema of the new file is that of any other.
    out.execute_batch("CREATE INDEX salvage_entity ON event (entity); BEGIN IMMEDIATE")?;
    work.run()?;
    out.execute_batch("COMMIT; DROP INDEX salvage_entity; PRAGMA wal_checkpoint(TRUNCATE)")?;
    let mut done = work.done;
    drop(out);
    source.close()?;
    sync_dir(new.root())?;
    let seen = doctor(&new, now);
    done.remaining = seen
        .findings
        .into_iter()
        .filter(|f| f.severity == Severity::Error)
        .collect();
    Ok(done)
}

/// Nobody may write while the files are copied. A place without lock files has no writers.
fn lock_source(layout: &Layout, now: Millis) -> Result<Option<std::fs::File>> {
    let Ok(file) = fs_err::File::open(layout.locks().join("open")) else {
        return Ok(None);
    };
    let file = file.into_parts().0;
    file.lock()?;
    let by = owner::others(layout, &OwnerId(String::new()), now)?;
    if by.is_empty() {
        return Ok(Some(file));
    }
    Err(StoreError::InUse {
        file: layout.database(),
        by,
    })
}

fn prepare(target: &Path) -> Result<Layout> {
    if target.exists() && fs_err::read_dir(target)?.next().is_some() {
        return Err(StoreError::Invalid(format!(
            "{} is not empty",
            target.display()
        )));
    }
    let layout = Layout::new(target);
    layout.create()?;
    Ok(layout)
}

/// What the steps work with.
struct Work<'a> {
    source: &'a Connection,
    out: &'a Connection,
    from: BlobDir,
    to: BlobDir,
    done: Salvaged,
    now: Millis,
    /// The live sessions, by number.
    streams: BTreeMap<i64, stream::Stream>,
}

impl Work<'_> {
    fn run(&mut self) -> Result<()> {
        event::actors(self)?;
        event::values(self)?;
        let read = event::events(self)?;
        if read == 0 {
            let file = self.done.kept.join("turnstone.db");
            let reason = "no event of a Turnstone store could be read".to_owned();
            return Err(StoreError::Corrupt { file, reason });
        }
        text::chunks(self)?;
        stream::streams(self)?;
        let without_text = text::check(self)?;
        mend::give_up(self, &without_text)?;
        mend::projects(self)?;
        let refused = mend::replay(self)?;
        mend::give_up(self, &refused)?;
        stream::lose_sessionless(self)?;
        stream::fill(self)?;
        companion::companions(self)?;
        mend::prune(self)?;
        stream::report(self);
        Ok(())
    }
}
