//! What the doctor says: findings, collected check by check, and the remedies it knows.

use std::path::Path;

use crate::error::Result;

/// The remedies the doctor knows.
pub(super) mod remedy {
    pub(crate) const NONE: &str = "nothing needs to be done";
    pub(crate) const REBUILD: &str = "run `turnstone doctor --rebuild`";
    pub(crate) const SALVAGE: &str = "run `turnstone doctor --salvage DIR`; this file is kept";
    pub(crate) const OPEN: &str = "any turnstone command that opens the store puts it right";
    pub(crate) const COMPACT: &str = "run `turnstone db compact`";
    pub(crate) const CHMOD: &str = "make it readable for its owner only: chmod go-rwx";
}

/// The most findings of one kind that are listed; the rest is counted.
const MAX_LISTED: u64 = 20;

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

/// The findings of `doctor` about a store.
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

/// A path as findings show it.
pub(super) fn display_path(path: &Path) -> String {
    path.display().to_string()
}

/// Findings in the making.
#[derive(Default)]
pub(super) struct DiagnosisBuilder {
    pub(super) diagnosis: Diagnosis,
    /// How many findings of each check there were, listed or not.
    counts: std::collections::HashMap<&'static str, u64>,
    /// The check under way.
    pub(super) current_check: &'static str,
}

impl DiagnosisBuilder {
    /// Makes a check; one that cannot be made is a finding too.
    pub(super) fn run_check(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&mut Self) -> Result<()>,
    ) {
        self.current_check = name;
        self.diagnosis.checks.push(name);
        if let Err(error) = run(self) {
            self.error(format!("could not be checked: {error}"), name, remedy::SALVAGE);
        }
    }

    pub(super) fn push(&mut self, finding: Finding) {
        let count = self.counts.entry(finding.check).or_default();
        *count += 1;
        if *count <= MAX_LISTED {
            self.diagnosis.findings.push(finding);
        }
    }

    pub(super) fn add_finding(
        &mut self,
        severity: Severity,
        what: String,
        place: impl Into<String>,
        remedy: &'static str,
    ) {
        let (check, place) = (self.current_check, place.into());
        self.push(Finding { severity, check, what, place, remedy });
    }

    pub(super) fn error(&mut self, what: String, place: impl Into<String>, remedy: &'static str) {
        self.add_finding(Severity::Error, what, place, remedy);
    }

    pub(super) fn warning(&mut self, what: String, place: impl Into<String>, remedy: &'static str) {
        self.add_finding(Severity::Warning, what, place, remedy);
    }

    pub(super) fn note(
        &mut self,
        check: &'static str,
        what: String,
        place: String,
        remedy: &'static str,
    ) {
        self.push(Finding { severity: Severity::Note, check, what, place, remedy });
    }

    pub(super) fn finish(mut self) -> Diagnosis {
        for (check, count) in self.counts {
            let Some(more) = count.checked_sub(MAX_LISTED).filter(|more| *more > 0) else {
                continue;
            };
            let what = format!("and {more} more of this kind");
            let like = self.diagnosis.findings.iter().rev().find(|finding| finding.check == check);
            if let Some(finding) = like.map(|like| Finding { what, ..like.clone() }) {
                self.diagnosis.findings.push(finding);
            }
        }
        self.diagnosis
            .findings
            .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.check.cmp(b.check)));
        self.diagnosis
    }
}
