//! The doctor: looks at everything a store consists of and says what is wrong, where, and what
//! helps. Changes nothing, and works when the store cannot be opened.
//!
//! Owns no data. What is to be done about a finding is somebody else's command.

mod file;
mod log;
mod place;
mod table;

use std::path::Path;

use rusqlite::Connection;
use turnstone_core::time::Millis;

use crate::blob::BlobDir;
use crate::connection;
use crate::error::{OpenError, Result};
use crate::layout::Layout;
use crate::migrate::{self, Standing};

/// The remedies the doctor knows.
pub(crate) mod remedy {
    pub(crate) const NONE: &str = "nothing needs to be done";
    pub(crate) const REBUILD: &str = "run `turnstone doctor --rebuild`";
    pub(crate) const SALVAGE: &str = "run `turnstone doctor --salvage DIR`; this file is kept";
    pub(crate) const OPEN: &str = "any turnstone command that opens the store puts it right";
    pub(crate) const COMPACT: &str = "run `turnstone db compact`";
    pub(crate) const CHMOD: &str = "make it readable for its owner only: chmod go-rwx";
}

/// The most findings of one kind that are listed; the rest is counted.
const MOST: u64 = 20;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Not as it should be; nothing is lost.
    Warning,
    /// Something stored is damaged or missing.
    Error,
}

impl Severity {
    /// The word people and programs see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing the doctor found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which check found it, in one word.
    pub check: &'static str,
    /// What is wrong.
    pub what: String,
    /// Where: a file, a table and its row, a session.
    pub place: String,
    /// What helps.
    pub remedy: &'static str,
}

/// What the doctor says of a store.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// What was found, worst first.
    pub findings: Vec<Finding>,
    /// The checks that were made.
    pub checks: Vec<&'static str>,
    /// The schema version of the file.
    pub version: Option<i64>,
    /// Events in the log.
    pub events: u64,
    /// Bytes below the data directory, by file or folder.
    pub sizes: Vec<(String, u64)>,
}

impl Diagnosis {
    /// True if nothing stored is damaged or missing.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.worst() < Some(Severity::Error)
    }

    /// The worst finding's severity.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Examines the store in `layout`; changes nothing.
///
/// A store in use can be examined too: the database is seen at one moment.
#[must_use]
pub fn doctor(layout: &Layout, now: Millis) -> Diagnosis {
    let mut report = Report::default();
    report.check("place", |report| place::check(layout, now, report));
    let file = layout.database();
    if !file.exists() {
        report.note(
            "file",
            "there is no database yet".to_owned(),
            show(&file),
            remedy::NONE,
        );
        return report.finish();
    }
    report.check("file", |report| file::check(layout, report));
    match open(&file) {
        Ok((conn, version)) => {
            report.seen.version = Some(version);
            let blobs = BlobDir::new(layout.blobs());
            examine(
                &Exam {
                    conn: &conn,
                    layout,
                    blobs: &blobs,
                    now,
                },
                &mut report,
            );
        }
        Err(error) => report.add(unopened(&file, &error)),
    }
    report.finish()
}

/// What the checks look at: one view of the database, and the files beside it.
struct Exam<'a> {
    conn: &'a Connection,
    layout: &'a Layout,
    blobs: &'a BlobDir,
    now: Millis,
}

/// Opens the file for reading, at one moment; returns its version.
fn open(file: &Path) -> Result<(Connection, i64), OpenError> {
    let conn = connection::open_read_only(file)?;
    let sqlite = |e: rusqlite::Error| OpenError::from_sqlite(&e, file);
    conn.execute_batch("PRAGMA cell_size_check = ON; BEGIN")
        .map_err(sqlite)?;
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
    let severity = if matches!(error, OpenError::Locked { .. }) {
        Severity::Warning
    } else {
        Severity::Error
    };
    let (what, place, remedy) = (error.to_string(), show(file), error.remedy());
    Finding {
        severity,
        check: "file",
        what,
        place,
        remedy,
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// Findings in the making.
#[derive(Default)]
struct Report {
    seen: Diagnosis,
    /// How many findings of each check there were, listed or not.
    counted: std::collections::HashMap<&'static str, u64>,
    /// The check under way.
    now: &'static str,
}

impl Report {
    /// Makes a check; one that cannot be made is a finding too.
    fn check(&mut self, name: &'static str, run: impl FnOnce(&mut Self) -> Result<()>) {
        self.now = name;
        self.seen.checks.push(name);
        if let Err(error) = run(self) {
            self.error(
                format!("could not be checked: {error}"),
                name,
                remedy::SALVAGE,
            );
        }
    }

    fn add(&mut self, finding: Finding) {
        let count = self.counted.entry(finding.check).or_default();
        *count += 1;
        if *count <= MOST {
            self.seen.findings.push(finding);
        }
    }

    fn find(
        &mut self,
        severity: Severity,
        what: String,
        place: impl Into<String>,
        remedy: &'static str,
    ) {
        let (check, place) = (self.now, place.into());
        self.add(Finding {
            severity,
            check,
            what,
            place,
            remedy,
        });
    }

    fn error(&mut self, what: String, place: impl Into<String>, remedy: &'static str) {
        self.find(Severity::Error, what, place, remedy);
    }

    fn warning(&mut self, what: String, place: impl Into<String>, remedy: &'static str) {
        self.find(Severity::Warning, what, place, remedy);
    }

    fn note(&mut self, check: &'static str, what: String, place: String, remedy: &'static str) {
        self.add(Finding {
            severity: Severity::Note,
            check,
            what,
            place,
            remedy,
        });
    }

    fn finish(mut self) -> Diagnosis {
        for (check, count) in self.counted {
            let Some(more) = count.checked_sub(MOST).filter(|more| *more > 0) else {
                continue;
            };
            let what = format!("and {more} more of this kind");
            let like = self
                .seen
                .findings
                .iter()
                .rev()
                .find(|finding| finding.check == check);
            if let Some(finding) = like.map(|like| Finding {
                what,
                ..like.clone()
            }) {
                self.seen.findings.push(finding);
            }
        }
        self.seen
            .findings
            .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.check.cmp(b.check)));
        self.seen
    }
}
