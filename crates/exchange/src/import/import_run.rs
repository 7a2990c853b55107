//! One run of an import, from the first record to the report.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;
use turnstone_core::id::ProjectId;
use turnstone_store::{Actor, Context, Store, StoreError};

use super::project_import::{self, ExistingProject, ProjectApprovals};
use super::rule_trust::RuleTrust;
use super::session_extras;
use super::session_import::{self, CurrentSession};
use super::write_batch::{ImportWriteResult, QueuedWrite, WriteBatch};
use crate::conversion;
use crate::import_report::{ImportReport, RecordOutcome, to_printable};
use crate::record_kind::RecordKind;
use crate::source::{self, KindTotals, OpenedSource, Options, SourceError, SourceRecord};

/// The actor under whose name an import writes.
pub const IMPORT_ACTOR: &str = Actor::IMPORT;

/// How far an import is with one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ImportProgress {
    /// The kind.
    pub kind: RecordKind,
    /// How many have been dealt with.
    pub done: u64,
    /// How many there are; an estimate, never less than `done`.
    pub total: u64,
}

/// Why an import stopped. What was written until then stays; running it again finishes it.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The source cannot be read (on).
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store takes no more.
    #[error("the import was interrupted; everything imported so far is kept")]
    Store {
        /// Why.
        source: StoreError,
        /// What had been done.
        report: Box<ImportReport>,
    },
}

/// A source that was looked at and can be imported.
pub struct PlannedImport {
    opened: OpenedSource,
    totals: KindTotals,
    trust: RuleTrust,
}

impl PlannedImport {
    /// Looks at `source`: a database, a data or storage directory, a file of exports, or `-`.
    ///
    /// # Errors
    ///
    /// See [`SourceError`]; each has a remedy.
    pub fn open(source: &Path, options: &Options) -> Result<Self, SourceError> {
        Ok(Self::new(source::open_source(source, options)?))
    }

    fn new(opened: OpenedSource) -> Self {
        let totals = opened.reader.totals();
        Self { opened, totals, trust: RuleTrust::Inert }
    }

    /// Lets the permission rules, approvals and commands of the source take effect, those that an
    /// earlier import of it stored too. Rules in effect here stay and decide over them.
    #[must_use]
    pub fn with_trust(self) -> Self {
        Self { trust: RuleTrust::Trusted, ..self }
    }

    /// Where it reads, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        self.opened.reader.describe()
    }

    /// How many things of each kind there seem to be.
    #[must_use]
    pub const fn totals(&self) -> &KindTotals {
        &self.totals
    }

    /// Imports everything; `progress` hears of every thing that has been dealt with.
    ///
    /// # Errors
    ///
    /// [`ImportError`]; things that cannot be imported are no error but part of the report.
    pub fn run(
        mut self,
        store: &Store,
        ctx: &Context,
        progress: &mut dyn FnMut(ImportProgress),
    ) -> Result<ImportReport, ImportError> {
        let (person, mut ctx) = (ctx.clone(), ctx.clone());
        if let Ok(actor) = Actor::new(IMPORT_ACTOR) {
            ctx.actor = actor;
        }
        let report = ImportReport {
            source: self.describe(),
            notes: std::mem::take(&mut self.opened.notes),
            ..ImportReport::default()
        };
        let known = match store.read(&ctx, |r| r.projects().list()) {
            Ok(projects) => {
                projects.into_iter().filter_map(ExistingProject::from_project).collect()
            }
            Err(source) => return Err(ImportError::Store { source, report: Box::new(report) }),
        };
        let mut run = ImportRun {
            store,
            ctx,
            totals: self.totals,
            progress,
            report,
            batch: WriteBatch::default(),
            caller_ctx: person,
            trust: self.trust,
            existing_projects: known,
            projects: HashMap::new(),
            unclaimed_directories: HashMap::new(),
            approvals: None,
            current: None,
            completed_count: 0,
        };
        let mut failed = None;
        let read = self.opened.reader.read(&mut |record| match run.import_record(record) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        let flushed = match failed {
            None => project_import::finish_approvals(&mut run).and_then(|()| run.flush()),
            Some(_) => Ok(()),
        };
        run.note_completed_fields();
        match (failed.or(flushed.err()), read) {
            (Some(source), _) => Err(ImportError::Store { source, report: Box::new(run.report) }),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(_)) => Ok(run.report),
        }
    }
}

/// What a run carries from record to record.
pub(super) struct ImportRun<'a> {
    pub(super) store: &'a Store,
    pub(super) ctx: Context,
    totals: KindTotals,
    progress: &'a mut dyn FnMut(ImportProgress),
    pub(super) report: ImportReport,
    batch: WriteBatch,
    /// The caller: who trusts, if anybody does.
    pub(super) caller_ctx: Context,
    pub(super) trust: RuleTrust,
    /// The projects that were here before.
    pub(super) existing_projects: Vec<ExistingProject>,
    /// Projects of the source that were accepted, by their ids there.
    pub(super) projects: HashMap<String, ProjectId>,
    /// Directories of new projects that no session has been found in.
    pub(super) unclaimed_directories: HashMap<ProjectId, Vec<String>>,
    /// The approvals that are being read.
    pub(super) approvals: Option<ProjectApprovals>,
    /// The session that is being read.
    pub(super) current: Option<CurrentSession>,
    /// Messages and parts of older shapes.
    pub(super) completed_count: u64,
}

impl ImportRun<'_> {
    fn import_record(&mut self, record: SourceRecord) -> Result<(), StoreError> {
        if !matches!(record, SourceRecord::Approval { .. }) {
            project_import::finish_approvals(self)?;
        }
        match record {
            SourceRecord::Project { id, body } => {
                project_import::import_project(self, &id, conversion::convert_project(&id, body))
            }
            SourceRecord::ImpliedProject { project, worktree } => {
                project_import::import_implied_project(self, &project, &worktree)
            }
            SourceRecord::Approval { id, project, body } => {
                project_import::import_approval(self, id, &project, body)
            }
            SourceRecord::Session { id, project, body } => {
                session_import::import_session(self, id, &project, body)
            }
            SourceRecord::Message { id, session, created, body } => {
                session_import::import_message(self, id, &session, (body, created))
            }
            SourceRecord::Part { id, message, body } => {
                session_import::import_part(self, id, &message, body)
            }
            SourceRecord::Todos { session, body } => {
                session_extras::import_todos(self, &session, body)
            }
            SourceRecord::Share { session, body } => {
                session_extras::import_share(self, session, body)
            }
            SourceRecord::Diff { session, body } => {
                session_extras::import_diff(self, session, body)
            }
            SourceRecord::EndOfSession => session_import::finish_session(self),
            SourceRecord::Unreadable { kind, id, reason } => {
                if kind == RecordKind::Session {
                    self.current = None;
                }
                self.record_outcome(kind, &id, RecordOutcome::Rejected(to_printable(&reason)));
                Ok(())
            }
            SourceRecord::Note(note) => {
                self.report.add_note(&note);
                Ok(())
            }
        }
    }

    /// Counts a thing and tells how far the import is.
    pub(super) fn record_outcome(&mut self, kind: RecordKind, id: &str, outcome: RecordOutcome) {
        self.report.record_outcome(kind, id, outcome);
        let done = self.report.found_count(kind);
        let total = self.totals.get(&kind).copied().unwrap_or(0).max(done);
        (self.progress)(ImportProgress { kind, done, total });
    }

    /// Queues a write.
    pub(super) fn push(&mut self, pending: QueuedWrite) -> Result<(), StoreError> {
        if self.batch.push(pending) { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        for ImportWriteResult { kind, id, count, outcome } in
            self.batch.flush(self.store, &self.ctx)?
        {
            for _ in 0..count {
                self.record_outcome(kind, &id, outcome.clone());
            }
        }
        Ok(())
    }

    fn note_completed_fields(&mut self) {
        if self.completed_count > 0 {
            let note = format!(
                "{} messages and parts of older versions lacked fields; they were filled in",
                self.completed_count
            );
            self.report.add_note(&note);
        }
    }
}
