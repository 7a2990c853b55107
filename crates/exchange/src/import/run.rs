//! One run of an import, from the first record to the report.

use std::collections::HashSet;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use turnstone_core::id::ProjectId;
use turnstone_core::model::Project;
use turnstone_store::{Actor, Context, Store, StoreError};

use super::batch::{Batch, Done, Pending, Write};
use super::session::Current;
use crate::adopt;
use crate::identity::fit;
use crate::kind::Kind;
use crate::report::{Outcome, Report, printable};
use crate::source::{self, Opened, Options, Record, SourceError, Totals};

/// The actor under whose name an import writes.
pub const ACTOR: &str = "import";

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
        Self { opened, totals }
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
        let mut ctx = ctx.clone();
        if let Ok(actor) = Actor::new(ACTOR) {
            ctx.actor = actor;
        }
        let report = Report {
            source: self.describe(),
            notes: std::mem::take(&mut self.opened.notes),
            ..Report::default()
        };
        let mut run = Run {
            store,
            ctx,
            totals: self.totals,
            progress,
            report,
            batch: Batch::default(),
            projects: HashSet::new(),
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
        let flushed = if failed.is_none() { run.flush() } else { Ok(()) };
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
    /// Projects of the source that were accepted, by their ids there.
    projects: HashSet<String>,
    /// The session that is being read.
    pub(super) current: Option<Current>,
    /// Messages and parts of older shapes.
    pub(super) filled: u64,
}

impl Run<'_> {
    fn take(&mut self, record: Record) -> Result<(), StoreError> {
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
                self.report.notes.push(printable(&note));
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

    fn flush(&mut self) -> Result<(), StoreError> {
        for Done { kind, id, count, outcome } in self.batch.flush(self.store, &self.ctx)? {
            for _ in 0..count {
                self.count(kind, &id, outcome.clone());
            }
        }
        Ok(())
    }

    fn project(
        &mut self,
        id: &str,
        adopted: Result<Project, adopt::Refused>,
    ) -> Result<(), StoreError> {
        let project = match adopted {
            Ok(project) => project,
            Err(reason) => {
                self.count(Kind::Project, id, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        let here = self.store.read(&self.ctx, |r| r.find_project(&project.id))?;
        let project = match here {
            Some(here) => merged(here, project),
            None => project,
        };
        self.projects.insert(id.to_owned());
        let write = Write::Project(Box::new(project));
        self.push(Pending { kind: Kind::Project, id: id.to_owned(), count: 1, fresh: false, write })
    }

    /// A project the source has no record of: made from its sessions unless it is here.
    fn place(&mut self, id: &str, worktree: &str) -> Result<(), StoreError> {
        if self.projects.contains(id) {
            return Ok(());
        }
        let Some(fitted) = fit::<ProjectId>(id) else {
            return Ok(());
        };
        if self.store.read(&self.ctx, |r| r.find_project(&fitted.id))?.is_some() {
            self.projects.insert(id.to_owned());
            self.count(Kind::Project, id, Outcome::Unchanged);
            return Ok(());
        }
        self.project(id, adopt::place(id, worktree))
    }

    /// True if a project of the source was accepted, or is here from elsewhere.
    pub(super) fn knows_project(&self, id: &str) -> Result<bool, StoreError> {
        if self.projects.contains(id) {
            return Ok(true);
        }
        let Some(fitted) = fit::<ProjectId>(id) else {
            return Ok(false);
        };
        Ok(self.store.read(&self.ctx, |r| r.find_project(&fitted.id))?.is_some())
    }

    fn approval(&mut self, id: String, project: &str, body: Value) -> Result<(), StoreError> {
        let known = self.knows_project(project)?;
        let fitted = fit::<ProjectId>(project).filter(|_| known);
        match (fitted, adopt::rule(body)) {
            (None, _) => {
                let reason = format!("project {} was not imported", printable(project));
                self.count(Kind::Permission, &id, Outcome::Orphaned(reason));
                Ok(())
            }
            (Some(_), Err(reason)) => {
                self.count(Kind::Permission, &id, Outcome::Rejected(printable(&reason)));
                Ok(())
            }
            (Some(project), Ok(rule)) => {
                let write = Write::Approval(project.id, rule);
                self.push(Pending { kind: Kind::Permission, id, count: 1, fresh: false, write })
            }
        }
    }

    fn say_filled(&mut self) {
        if self.filled > 0 {
            let note = format!(
                "{} messages and parts of older versions lacked fields; they were filled in",
                self.filled
            );
            self.report.notes.push(note);
        }
    }
}

/// A project that is here, with what the source adds: the newer of the two decides, directories and
/// aliases of both are kept.
fn merged(here: Project, there: Project) -> Project {
    let time = |project: &Project| project.time.updated.as_f64().unwrap_or(0.0);
    let there_wins = time(&there) > time(&here);
    let (mut result, other) = if there_wins { (there, here) } else { (here, there) };
    for sandbox in other.sandboxes {
        if !result.sandboxes.contains(&sandbox) {
            result.sandboxes.push(sandbox);
        }
    }
    for alias in other.aliases {
        if !result.aliases.contains(&alias) {
            result.aliases.push(alias);
        }
    }
    result.name = result.name.or(other.name);
    result.icon = result.icon.or(other.icon);
    result.commands = result.commands.or(other.commands);
    result
}
