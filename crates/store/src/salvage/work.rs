//! The work: from the damaged files to a new store, step by step.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use turnstone_core::time::Millis;

use super::outcome::Salvaged;
use super::{companion, event, mend, source, stream, text};
use crate::blob::BlobDir;
use crate::connection::{self, Purpose};
use crate::context::OwnerId;
use crate::doctor::{Severity, doctor};
use crate::error::{Result, StoreError};
use crate::layout::{Layout, sync_dir};
use crate::migrate;
use crate::owner;
use crate::schema::MIGRATIONS;

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
    let mut done = Salvaged { data: target.to_path_buf(), ..Salvaged::default() };
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
    done.remaining = seen.findings.into_iter().filter(|f| f.severity == Severity::Error).collect();
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
    Err(StoreError::InUse { file: layout.database(), by })
}

fn prepare(target: &Path) -> Result<Layout> {
    if target.exists() && fs_err::read_dir(target)?.next().is_some() {
        return Err(StoreError::Invalid(format!("{} is not empty", target.display())));
    }
    let layout = Layout::new(target);
    layout.create()?;
    Ok(layout)
}

/// What the steps work with.
pub(super) struct Work<'a> {
    pub(super) source: &'a Connection,
    pub(super) out: &'a Connection,
    pub(super) from: BlobDir,
    pub(super) to: BlobDir,
    pub(super) done: Salvaged,
    pub(super) now: Millis,
    /// The live sessions, by number.
    pub(super) streams: BTreeMap<i64, stream::Stream>,
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
