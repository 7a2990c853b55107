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
    report.run_check("file", |report| file_check::check_database_file(layout, report));
    match open_for_checks(&file) {
        Ok((conn, version)) => {
            report.diagnosis.version = Some(version);
            let blobs = BlobDir::new(layout.blobs());
            run_checks(&CheckContext { conn: &conn, layout, blobs: &blobs, now }, &mut report);
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
}

/// Opens the file for reading, at one moment; returns its version.
fn open_for_checks(file: &Path) -> Result<(Connection, i64), DatabaseOpenError> {
    let conn = connection::open_read_only(file)?;
    let sqlite = |e: rusqlite::Error| DatabaseOpenError::from_sqlite(&e, file);
    conn.execute_batch("PRAGMA cell_size_check = ON; BEGIN").map_err(sqlite)?;
    let version = match migration::check_schema_compatibility(&conn, file)? {
        SchemaCompatibility::Empty => 0,
        SchemaCompatibility::Supported(version) | SchemaCompatibility::Newer(version) => version,
    };
    Ok((conn, version))
}

fn run_checks(exam: &CheckContext<'_>, report: &mut DiagnosisBuilder) {
    report.run_check("integrity", |report| table_check::check_integrity(exam, report));
    if !table_check::check_version(exam, report) {
        return;
    }
    report.run_check("schema", |report| table_check::check_schema(exam, report));
    report.run_check("settings", |report| table_check::check_settings(exam, report));
    report.run_check("references", |report| table_check::check_references(exam, report));
    report.run_check("events", |report| log_check::check_events(exam, report));
    report.run_check("sequences", |report| log_check::check_sequences(exam, report));
    report.run_check("values", |report| log_check::check_blobs(exam, report));
    report.run_check("files", |report| log_check::check_blob_files(exam, report));
    report.run_check("texts", |report| log_check::check_texts(exam, report));
    report.run_check("turns", |report| table_check::check_turns(exam, report));
    report.run_check("consumers", |report| table_check::check_consumers(exam, report));
    report.run_check("projections", |report| table_check::check_projections(exam, report));
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
