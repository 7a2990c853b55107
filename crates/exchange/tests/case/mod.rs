//! A store of its own for each test, and what every report must hold.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use turnstone_core::time::EpochMillis;
use turnstone_exchange::{ImportReport, Options, PlannedImport, RecordKind, export_session};
use turnstone_store::{Actor, Context, DataLayout, Store};

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Later than every clock by which real sources are written: to an import they are not from the future.
pub(crate) const NOW: EpochMillis = EpochMillis(4_102_444_800_000);

/// A temporary directory with a store in it.
pub(crate) struct ImportFixture {
    pub(crate) dir: TempDir,
    pub(crate) store: Store,
}

impl ImportFixture {
    pub(crate) fn new() -> TestResult<Self> {
        let dir = tempfile::tempdir()?;
        let store = open(&dir.path().join("turnstone"))?;
        Ok(Self { dir, store })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn ctx(&self) -> Context {
        Context::new(Actor::new("somebody").expect("a name"), NOW)
    }

    /// Imports `source` and checks that the report adds up.
    pub(crate) fn import(&self, source: &Path) -> TestResult<ImportReport> {
        let report = PlannedImport::open(source, &Options::default())?.run(
            &self.store,
            &self.ctx(),
            &mut |progress| assert!(progress.done <= progress.total),
        )?;
        assert_counts_add_up(&report);
        Ok(report)
    }

    pub(crate) fn export(&self, session: &str) -> TestResult<Value> {
        Ok(export_session(&self.store, &self.ctx(), &session.parse()?, false)?)
    }

    pub(crate) fn export_redacted(&self, session: &str) -> TestResult<Value> {
        Ok(export_session(&self.store, &self.ctx(), &session.parse()?, true)?)
    }
}

pub(crate) fn open(path: &Path) -> TestResult<Store> {
    let mut options = turnstone_store::Options::new(DataLayout::new(path), NOW);
    options.allow_network = true;
    Ok(Store::open(&options)?)
}

/// Every thing found is accounted for, and everything skipped says why.
pub(crate) fn assert_counts_add_up(report: &ImportReport) {
    for (kind, counts) in &report.kinds {
        assert!(counts.adds_up(), "{kind}: {counts:?}");
        for skipped in counts.orphans.iter().chain(&counts.rejected) {
            assert!(!skipped.reason.is_empty(), "{kind} {} without a reason", skipped.id);
        }
    }
}

/// `(found, imported, unchanged, orphaned, rejected)` of one kind.
pub(crate) fn counts(report: &ImportReport, kind: RecordKind) -> (u64, u64, u64, u64, usize) {
    let counts = report.counts_of(kind);
    (counts.found, counts.imported, counts.unchanged, counts.orphaned, counts.rejected.len())
}

/// Nothing was written: everything was here already.
pub(crate) fn is_unchanged(report: &ImportReport) -> bool {
    report.kinds.values().all(|counts| counts.imported == 0) && report.is_clean()
}
