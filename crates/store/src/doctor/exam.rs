//! The examination: which checks are made, in which order, on what.

use std::path::Path;

use rusqlite::Connection;
use turnstone_core::time::Millis;

use super::report::{Diagnosis, Finding, Report, Severity, remedy, show};
use super::{file, log, place, table};
use crate::blob::BlobDir;
use crate::connection;
use crate::error::{OpenError, Result};
use crate::layout::Layout;
use crate::migrate::{self, Standing};

/// Examines the store in `layout`; changes nothing.
///
/// A store in use can be examined too: the database is seen at one moment.
#[must_use]
pub fn doctor(layout: &Layout, now: Millis) -> Diagnosis {
    let mut report = Report::default();
    report.check("place", |report| place::check(layout, now, report));
    let file = layout.database();
    if !file.exists() {
        report.note("file", "there is no database yet".to_owned(), show(&file), remedy::NONE);
        return report.finish();
    }
    report.check("file", |report| file::check(layout, report));
    match open(&file) {
        Ok((conn, version)) => {
            report.seen.version = Some(version);
            let blobs = BlobDir::new(layout.blobs());
            examine(&Exam { conn: &conn, layout, blobs: &blobs, now }, &mut report);
        }
        Err(error) => report.add(unopened(&file, &error)),
    }
    report.finish()
}

/// What the checks look at: one view of the database, and the files beside it.
pub(super) struct Exam<'a> {
    pub(super) conn: &'a Connection,
    pub(super) layout: &'a Layout,
    pub(super) blobs: &'a BlobDir,
    pub(super) now: Millis,
}

/// Opens the file for reading, at one moment; returns its version.
fn open(file: &Path) -> Result<(Connection, i64), OpenError> {
    let conn = connection::open_read_only(file)?;
    let sqlite = |e: rusqlite::Error| OpenError::from_sqlite(&e, file);
    conn.execute_batch("PRAGMA cell_size_check = ON; BEGIN").map_err(sqlite)?;
    let version = match migrate::standing(&conn, file)? {
        Standing::Empty => 0,
        Standing::At(version) | Standing::Newer(version) => version,
    };
    Ok((conn, version))
}

fn examine(exam: &Exam<'_>, report: &mut Report) {
    report.check("integrity", |report| table::integrity(exam, report));
    if !table::version(exam, report) {
        return;
    }
    report.check("schema", |report| table::schema(exam, report));
    report.check("settings", |report| table::settings(exam, report));
    report.check("references", |report| table::references(exam, report));
    report.check("events", |report| log::events(exam, report));
    report.check("sequences", |report| log::sequences(exam, report));
    report.check("values", |report| log::values(exam, report));
    report.check("files", |report| log::files(exam, report));
    report.check("texts", |report| log::texts(exam, report));
    report.check("turns", |report| table::turns(exam, report));
    report.check("consumers", |report| table::consumers(exam, report));
    report.check("projections", |report| table::projections(exam, report));
}

fn unopened(file: &Path, error: &OpenError) -> Finding {
    let severity =
        if matches!(error, OpenError::Locked { .. }) { Severity::Warning } else { Severity::Error };
    let (what, place, remedy) = (error.to_string(), show(file), error.remedy());
    Finding { severity, check: "file", what, place, remedy }
}
