//! One run of an import, from the first record to the report.

use std::collections::HashMap;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;
use turnstone_core::id::ProjectId;
use turnstone_store::{Actor, Context, Store, StoreError};

use super::batch::{Batch, Done, Pending};
use super::project::{ApprovalGroup, KnownProject};
use super::session::Current;
use super::trust::Trust;
use crate::adopt;
use crate::kind::Kind;
use crate::report::{Outcome, Report, printable};
use crate::source::{self, Opened, Options, Record, SourceError, Totals};

/// The actor under whose name an import writes.
pub const ACTOR: &str = Actor::IMPORT;

/// How far an import is with one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// The kind.
    pub kind: Kind,
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
    #[error("the import stopped: what was imported until then is kept")]
    Store {
        /// Why.
        source: StoreError,
        /// What had been done.
        report: Box<Report>,
    },
}

/// A source that was looked at and can be imported.
pub struct Import {
    opened: Opened,
    totals: Totals,
    trust: Trust,
}

impl Import {
    /// Looks at `source`: a database, a data or storage directory, a file of exports, or `-`.
    ///
    /// # Errors
    ///
    /// See [`SourceError`]; each has a remedy.
    pub fn plan(source: &Path, options: &Options) -> Result<Self, SourceError> {
        Ok(Self::new(source::open(source, options)?))
    }

    /// Looks at the export documents that `input` brings.
    ///
    /// # Errors
    ///
    /// See [`SourceError`].
    pub fn plan_stream(input: impl Read, options: &Options) -> Result<Self, SourceError> {
        Ok(Self::new(source::open_stream(input, options)?))
    }

    fn new(opened: Opened) -> Self {
        let totals = opened.reader.totals();
        Self { opened, totals, trust: Trust::No }
    }

    /// Lets the permission rules, approvals and commands of the source take effect, those that an
    /// earlier import of it stored too. Rules in effect here stay and decide over them.
    #[must_use]
    pub fn trusting(self) -> Self {
        Self { trust: Trust::Yes, ..self }
    }

    /// Where it reads, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        self.opened.reader.describe()
    }

    /// How many things of each kind there seem to be.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
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
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report, ImportError> {
        let (person, mut ctx) = (ctx.clone(), ctx.clone());
        if let Ok(actor) = Actor::new(ACTOR) {
            ctx.actor = actor;
        }
        let report = Report {
            source: self.describe(),
            notes: std::mem::take(&mut self.opened.notes),
            ..Report::default()
        };
        let known = match store.read(&ctx, |r| r.projects()) {
            Ok(projects) => projects.into_iter().filter_map(KnownProject::of).collect(),
            Err(source) => return Err(ImportError::Store { source, report: Box::new(report) }),
        };
        let mut run = Run {
            store,
            ctx,
            totals: self.totals,
            progress,
            report,
            batch: Batch::default(),
            person,
            trust: self.trust,
            known,
            projects: HashMap::new(),
            further: HashMap::new(),
            approvals: None,
            current: None,
            filled: 0,
        };
        let mut failed = None;
        let read = self.opened.reader.read(&mut |record| match run.take(record) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        let flushed = match failed {
            None => run.finish_approvals().and_then(|()| run.flush()),
            Some(_) => Ok(()),
        };
        run.say_filled();
        match (failed.or(flushed.err()), read) {
            (Some(source), _) => Err(ImportError::Store { source, report: Box::new(run.report) }),
            (None, Err(error)) => Err(error.into()),
            (None, Ok(_)) => Ok(run.report),
        }
    }
}

/// What a run carries from record to record.
pub(super) struct Run<'a> {
    pub(super) store: &'a Store,
    pub(super) ctx: Context,
    totals: Totals,
    progress: &'a mut dyn FnMut(Progress),
    pub(super) report: Report,
    batch: Batch,
    /// The caller: who trusts, if anybody does.
    pub(super) person: Context,
    pub(super) trust: Trust,
    /// The projects that were here before.
    pub(super) known: Vec<KnownProject>,
    /// Projects of the source that were accepted, by their ids there.
    pub(super) projects: HashMap<String, ProjectId>,
    /// Directories of new projects that no session has been found in.
    pub(super) further: HashMap<ProjectId, Vec<String>>,
    /// The approvals that are being read.
    pub(super) approvals: Option<ApprovalGroup>,
    /// The session that is being read.
    pub(super) current: Option<Current>,
    /// Messages and parts of older shapes.
    pub(super) filled: u64,
}

impl Run<'_> {
    fn take(&mut self, record: Record) -> Result<(), StoreError> {
        if !matches!(record, Record::Approval { .. }) {
            self.finish_approvals()?;
        }
        match record {
            Record::Project { id, body } => self.project(&id, adopt::project(&id, body)),
            Record::Place { project, worktree } => self.place(&project, &worktree),
            Record::Approval { id, project, body } => self.approval(id, &project, body),
            Record::Session { id, project, body } => self.session(id, &project, body),
            Record::Message { id, session, created, body } => {
                self.message(id, &session, (body, created))
            }
            Record::Part { id, message, body } => self.part(id, &message, body),
            Record::Todos { session, body } => self.todos(&session, body),
            Record::Share { session, body } => self.share(session, body),
            Record::Diff { session, body } => self.diff(session, body),
            Record::End => self.end(),
            Record::Bad { kind, id, reason } => {
                if kind == Kind::Session {
                    self.current = None;
                }
                self.count(kind, &id, Outcome::Rejected(printable(&reason)));
                Ok(())
            }
            Record::Note(note) => {
                self.report.note(&note);
                Ok(())
            }
        }
    }

    /// Counts a thing and tells how far the import is.
    pub(super) fn count(&mut self, kind: Kind, id: &str, outcome: Outcome) {
        self.report.count(kind, id, outcome);
        let done = self.report.tally_found(kind);
        let total = self.totals.get(&kind).copied().unwrap_or(0).max(done);
        (self.progress)(Progress { kind, done, total });
    }

    /// Queues a write.
    pub(super) fn push(&mut self, pending: Pending) -> Result<(), StoreError> {
        if self.batch.push(pending) { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        for Done { kind, id, count, outcome } in self.batch.flush(self.store, &self.ctx)? {
            for _ in 0..count {
                self.count(kind, &id, outcome.clone());
            }
        }
        Ok(())
    }

    fn say_filled(&mut self) {
        if self.filled > 0 {
            let note = format!(
                "{} messages and parts of older versions lacked fields; they were filled in",
                self.filled
            );
            self.report.note(&note);
        }
    }
}
