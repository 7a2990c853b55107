//! The examination: which checks are made, in which order, on what.

use std::path::Path;

use rusqlite::Connection;
use turnstone_core::time::EpochMillis;

use super::report::{Diagnosis, DiagnosisBuilder, Finding, Severity, display_path, remedy};
use super::{data_dir_check, file_check, log_check, table_check};
use crate::blob::BlobDir;
use crate::connection;
use crate::data_layout::DataLayout;
use crate::error::{DatabaseOpenError, Result};
use crate::full_disk::{self, ReadConnection};
use crate::migration::{self, SchemaCompatibility};

/// Examines the store in `layout`; changes nothing.
///
/// A store in use can be examined too: the database is seen at one moment.
#[must_use]
pub fn diagnose(layout: &DataLayout, now: EpochMillis) -> Diagnosis {
    let mut report = DiagnosisBuilder::default();
    report.run_check("place", |report| data_dir_check::check_data_dir(layout, now, report));
    let file = layout.database();
    if !file.exists() {
        report.note(
            "file",
            "there is no database yet".to_owned(),
            display_path(&file),
            remedy::NONE,
        );
        return report.finish();
    }
    if file_check::is_interrupted_creation(&file) {
        let what = "its creation was interrupted; the next command finishes it".to_owned();
        report.note("file", what, display_path(&file), remedy::OPEN);
        return report.finish();
    }
    report.run_check("file", |report| file_check::check_database_file(layout, report));
    match open_for_checks(layout, now) {
        Ok((reader, version)) => {
            let conn = &reader.conn;
            report.diagnosis.version = Some(version);
            let blobs = BlobDir::new(layout.blobs());
            let can_reopen = !reader.is_exclusive();
            let exam = CheckContext { conn, layout, blobs: &blobs, now, can_reopen };
            run_checks(&exam, &mut report);
        }
        Err(error) => report.push(open_failure_finding(&file, &error)),
    }
    report.finish()
}

/// What the checks look at: one view of the database, and the files next to it.
pub(super) struct CheckContext<'a> {
    pub(super) conn: &'a Connection,
    pub(super) layout: &'a DataLayout,
    pub(super) blobs: &'a BlobDir,
    pub(super) now: EpochMillis,
    /// False on a full disk: no second connection can be opened.
    can_reopen: bool,
}

/// Opens the file for reading, at one moment; returns its version.
fn open_for_checks(
    layout: &DataLayout,
    now: EpochMillis,
) -> Result<(ReadConnection, i64), DatabaseOpenError> {
    let file = &layout.database();
    let reader = match connection::open_read_only(file).and_then(|conn| begin_view(conn, file)) {
        Err(error) if error.is_full() => full_disk::open_for_reading(layout, now)
            .and_then(|reader| reader.try_map(|conn| begin_view(conn, file)))?,
        conn => ReadConnection::shared(conn?),
    };
    let version = match migration::check_schema_compatibility(&reader.conn, file)? {
        SchemaCompatibility::Empty => 0,
        SchemaCompatibility::Supported(version) | SchemaCompatibility::Newer(version) => version,
    };
    Ok((reader, version))
}

/// Begins a view: from here on the file is seen as it is now.
fn begin_view(conn: Connection, file: &Path) -> Result<Connection, DatabaseOpenError> {
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, file);
    conn.execute_batch("PRAGMA cell_size_check = ON; BEGIN").map_err(sqlite)?;
    let tables = "SELECT count(*) FROM sqlite_schema";
    conn.query_row(tables, [], |row| row.get::<_, i64>(0)).map_err(sqlite)?;
    Ok(conn)
}

fn run_checks(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) {
    report.run_check("integrity", |report| table_check::check_integrity(exam, report));
    if !table_check::check_version(exam, report) {
        return;
    }
    if exam.can_reopen {
        report.run_check("schema", |report| table_check::check_schema(exam, report));
    }
    report.run_check("settings", |report| table_check::check_settings(exam, report));
    report.run_check("references", |report| table_check::check_references(exam, report));
    report.run_check("events", |report| log_check::check_events(exam, report));
    report.run_check("sequences", |report| log_check::check_sequences(exam, report));
    report.run_check("values", |report| log_check::check_blobs(exam, report));
    report.run_check("files", |report| log_check::check_blob_files(exam, report));
    report.run_check("texts", |report| log_check::check_texts(exam, report));
    report.run_check("turns", |report| table_check::check_turns(exam, report));
    report.run_check("consumers", |report| table_check::check_consumers(exam, report));
    if exam.can_reopen {
        report.run_check("projections", |report| table_check::check_projections(exam, report));
    } else {
        let what = "the disk is full; the tables were not compared with the log".to_owned();
        let place = display_path(&exam.layout.database());
        report.warning(what, place, "free some disk space, then run `turnstone doctor` again");
    }
}

fn open_failure_finding(file: &Path, error: &DatabaseOpenError) -> Finding {
    let severity = if matches!(error, DatabaseOpenError::Locked { .. }) {
        Severity::Warning
    } else {
        Severity::Error
    };
    let (what, place, remedy) = (error.to_string(), display_path(file), error.remedy());
    Finding { severity, check: "file", what, place, remedy }
}
