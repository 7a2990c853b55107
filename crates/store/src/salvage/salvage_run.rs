//! The work: from the damaged files to a new store, step by step.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use turnstone_core::call_context::OwnerId;
use turnstone_core::time::EpochMillis;

use super::report::SalvageReport;
use super::{damaged_copy, log_tables, repair, session_streams, side_tables, streamed_text};
use crate::blob::BlobDir;
use crate::connection::{self, ConnectionPurpose};
use crate::data_layout::{DataLayout, sync_dir};
use crate::doctor::{Severity, diagnose};
use crate::error::{Result, StoreError};
use crate::lease_owner;
use crate::migration;
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
pub fn salvage(layout: &DataLayout, target: &Path, now: EpochMillis) -> Result<SalvageReport> {
    let _lock = lock_source(layout, now)?;
    let new = create_target(target)?;
    let mut done = SalvageReport { data: target.to_path_buf(), ..SalvageReport::default() };
    let source = damaged_copy::copy_damaged_files(layout, &new, &mut done)?;
    let file = new.database();
    drop(crate::data_layout::open_private_file(&file)?);
    let out = connection::open(&file, ConnectionPurpose::Create)?;
    migration::upgrade(&out, &new, now, MIGRATIONS)?;
    let source = source.open(&out, &file)?;
    let mut work = SalvageRun {
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
    let seen = diagnose(&new, now);
    done.remaining = seen.findings.into_iter().filter(|f| f.severity == Severity::Error).collect();
    Ok(done)
}

/// Nobody may write while the files are copied. A place without lock files has no writers.
fn lock_source(layout: &DataLayout, now: EpochMillis) -> Result<Option<std::fs::File>> {
    let Ok(file) = fs_err::File::open(layout.locks().join("open")) else {
        return Ok(None);
    };
    let file = file.into_parts().0;
    file.lock()?;
    let by = lease_owner::describe_other_owners(layout, &OwnerId::new(String::new()), now)?;
    if by.is_empty() {
        return Ok(Some(file));
    }
    Err(StoreError::InUse { file: layout.database(), by })
}

fn create_target(target: &Path) -> Result<DataLayout> {
    if target.exists() && fs_err::read_dir(target)?.next().is_some() {
        return Err(StoreError::Invalid(format!("{} is not empty", target.display())));
    }
    let layout = DataLayout::new(target);
    layout.create()?;
    Ok(layout)
}

/// What the steps work with.
pub(super) struct SalvageRun<'a> {
    pub(super) source: &'a Connection,
    pub(super) out: &'a Connection,
    pub(super) from: BlobDir,
    pub(super) to: BlobDir,
    pub(super) done: SalvageReport,
    pub(super) now: EpochMillis,
    /// The live sessions, by number.
    pub(super) streams: BTreeMap<i64, session_streams::SalvagedStream>,
}

impl SalvageRun<'_> {
    fn run(&mut self) -> Result<()> {
        log_tables::salvage_actors(self)?;
        log_tables::salvage_blobs(self)?;
        let read = log_tables::salvage_events(self)?;
        if read == 0 {
            let file = self.done.kept.join("turnstone.db");
            let reason = "no event of a Turnstone store could be read".to_owned();
            return Err(StoreError::Corrupt { file, reason });
        }
        streamed_text::salvage_chunks(self)?;
        session_streams::salvage_streams(self)?;
        let without_text = streamed_text::find_events_without_text(self)?;
        repair::stub_events(self, &without_text)?;
        repair::recreate_lost_projects(self)?;
        let refused = repair::replay_salvaged_log(self)?;
        repair::stub_events(self, &refused)?;
        session_streams::drop_streams_without_session(self)?;
        session_streams::fill_gaps(self)?;
        side_tables::salvage_side_tables(self)?;
        repair::prune_unreferenced(self)?;
        session_streams::report_sessions(self);
        Ok(())
    }
}
