//! A store of its own for each test, and what every report must hold.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use turnstone_core::time::EpochMillis;
use turnstone_exchange::{
    ImportReport, KindCounts, MAX_LISTED, Options, PlannedImport, RecordKind, export_session,
};
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
        let counted = counts.imported + counts.unchanged + counts.orphaned + counts.rejected_count;
        assert_eq!(counts.found, counted, "{kind}: {counts:?}");
        for (count, listed) in
            [(counts.orphaned, &counts.orphans), (counts.rejected_count, &counts.rejected)]
        {
            assert_eq!(listed.len() as u64, count.min(MAX_LISTED as u64), "{kind}: {counts:?}");
        }
        for skipped in counts.orphans.iter().chain(&counts.rejected) {
            assert!(!skipped.reason.is_empty(), "{kind} {} without a reason", skipped.id);
        }
    }
}

/// The count of one kind; zeros if none was found.
pub(crate) fn counts_of(report: &ImportReport, kind: RecordKind) -> KindCounts {
    report.kinds.get(&kind).cloned().unwrap_or_default()
}

/// True if nothing was orphaned or rejected.
pub(crate) fn is_clean(report: &ImportReport) -> bool {
    report.kinds.values().all(|counts| counts.orphaned == 0 && counts.rejected_count == 0)
}

/// `(found, imported, unchanged, orphaned, rejected)` of one kind.
pub(crate) fn counts(report: &ImportReport, kind: RecordKind) -> (u64, u64, u64, u64, usize) {
    let counts = counts_of(report, kind);
    (counts.found, counts.imported, counts.unchanged, counts.orphaned, counts.rejected.len())
}

/// Nothing was written: everything was here already.
pub(crate) fn is_unchanged(report: &ImportReport) -> bool {
    report.kinds.values().all(|counts| counts.imported == 0) && is_clean(report)
}
