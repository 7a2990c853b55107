//! Writes in transactions that stay below the store's limits (R23).

use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Alias, AliasKind, FileDiff, Message, Part, Project, Session, Todo};
use turnstone_core::permission::Rule;
use turnstone_store::{Changed, Context, ShareRecord, Store, StoreError, Tx};

use super::trust::{Trust, merge_project, not_in};
use crate::kind::Kind;
use crate::report::Outcome;

/// Things in one transaction; each touches a handful of rows.
const MAX_THINGS: usize = 80;
/// Bytes in one transaction, as JSON.
const MAX_BYTES: usize = 1 << 20;

/// One thing to be written.
pub(super) enum Write {
    Project(Box<Project>),
    /// What an import adds to a project that is here.
    Update(Box<ProjectUpdate>),
    /// A further directory of a project.
    Directory(ProjectId, String),
    /// An approval that takes effect.
    Approval(ProjectId, Rule),
    /// Approvals that do not.
    SetAside(ProjectId, Vec<Rule>),
    /// The session as it begins; counted when its last image is written.
    Begin(Box<Session>),
    /// The session as it is.
    Session(Box<Session>),
    Message(Box<Message>),
    Part(Box<Part>),
    Todos(SessionId, Vec<Todo>),
    Share(SessionId, ShareRecord),
    Diff(SessionId, Vec<FileDiff>),
}

/// What an import brings for a project that is here: rules that are stored and not in effect, and, if
/// the source is trusted, what the project does not have.
pub(super) struct ProjectUpdate {
    pub(super) id: ProjectId,
    pub(super) name: Option<String>,
    pub(super) icon: Option<Value>,
    pub(super) commands: Option<Value>,
    pub(super) rules: Vec<Rule>,
    pub(super) trust: Trust,
}

impl ProjectUpdate {
    fn apply(&self, project: &mut Project) {
        if self.trust == Trust::Yes {
            fill(&mut project.name, self.name.as_ref());
            fill(&mut project.icon, self.icon.as_ref());
            fill(&mut project.commands, self.commands.as_ref());
        }
        merge_project(project, &self.rules, self.trust);
    }
}

fn fill<T: Clone>(field: &mut Option<T>, value: Option<&T>) {
    if field.is_none() {
        *field = value.cloned();
    }
}

/// A write with what the report calls it.
pub(super) struct Pending {
    pub(super) kind: Kind,
    pub(super) id: String,
    /// How many things of the report it stands for.
    pub(super) count: u64,
    /// True if it was not here before this import began.
    pub(super) fresh: bool,
    pub(super) write: Write,
}

/// What became of a write.
pub(super) struct Done {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) count: u64,
    pub(super) outcome: Outcome,
}

/// Writes that wait for their transaction.
#[derive(Default)]
pub(super) struct Batch {
    pending: Vec<Pending>,
    bytes: usize,
}

impl Batch {
    /// Adds a write; true if the batch is full now.
    pub(super) fn push(&mut self, pending: Pending) -> bool {
        self.bytes += weight(&pending.write);
        self.pending.push(pending);
        self.pending.len() >= MAX_THINGS || self.bytes >= MAX_BYTES
    }

    /// Writes everything and says what became of each.
    ///
    /// # Errors
    ///
    /// What stops the whole import: a full disk, a damaged file. Nothing of the failed transaction is
    /// stored.
    pub(super) fn flush(&mut self, store: &Store, ctx: &Context) -> Result<Vec<Done>, StoreError> {
        self.bytes = 0;
        let pending = Arc::new(std::mem::take(&mut self.pending));
        let mut done = Vec::with_capacity(pending.len());
        write(store, ctx, &pending, 0..pending.len(), &mut done)?;
        Ok(done)
    }
}

/// Writes a range in one transaction, or in halves if that is too much at once.
fn write(
    store: &Store,
    ctx: &Context,
    pending: &Arc<Vec<Pending>>,
    range: Range<usize>,
    done: &mut Vec<Done>,
) -> Result<(), StoreError> {
    if range.is_empty() {
        return Ok(());
    }
    let (work, part) = (Arc::clone(pending), range.clone());
    let apply_all =
        move |tx: &Tx<'_>| work[part.clone()].iter().map(|one| judged(tx, one)).collect();
    let outcomes: Result<Vec<Outcome>, StoreError> = store.write(ctx, apply_all).wait();
    match outcomes {
        Ok(outcomes) => {
            done.extend(pending[range].iter().zip(outcomes).filter_map(finished));
            Ok(())
        }
        Err(error) if is_divisible(&error) && range.len() == 1 => {
            let outcome = Outcome::Rejected(error.to_string());
            done.extend(pending[range].iter().zip([outcome]).filter_map(finished));
            Ok(())
        }
        Err(error) if is_divisible(&error) => {
            let middle = range.start + range.len() / 2;
            write(store, ctx, pending, range.start..middle, done)?;
            write(store, ctx, pending, middle..range.end, done)
        }
        Err(error) => Err(error),
    }
}

fn finished((one, outcome): (&Pending, Outcome)) -> Option<Done> {
    if matches!(one.write, Write::Begin(_)) {
        return None;
    }
    let fresh = one.fresh && outcome == Outcome::Unchanged;
    let outcome = if fresh { Outcome::Imported } else { outcome };
    Some(Done { kind: one.kind, id: one.id.clone(), count: one.count, outcome })
}

/// Applies one write; what concerns this thing alone is an outcome, anything else an error.
fn judged(tx: &Tx<'_>, one: &Pending) -> Result<Outcome, StoreError> {
    match apply(tx, &one.write) {
        Ok(Changed::Created | Changed::Updated) => Ok(Outcome::Imported),
        Ok(Changed::No) => Ok(Outcome::Unchanged),
        Err(StoreError::Deleted(_)) => Ok(Outcome::Rejected("deleted here".to_owned())),
        Err(error) if is_orphan(&error) => Ok(Outcome::Orphaned(error.to_string())),
        Err(error) if is_refusal(&error) => Ok(Outcome::Rejected(error.to_string())),
        Err(error) => Err(error),
    }
}

fn apply(tx: &Tx<'_>, write: &Write) -> Result<Changed, StoreError> {
    match write {
        Write::Project(project) => tx.put_project(project),
        Write::Update(update) => change(tx, &update.id, |project| update.apply(project)),
        Write::Directory(project, directory) => change(tx, project, |project| {
            let alias = Alias { kind: AliasKind::Directory, value: directory.clone() };
            project.sandboxes.push(directory.clone());
            project.aliases.push(alias);
        }),
        Write::Approval(project, rule) => {
            change(tx, project, |it| it.imported_approvals.retain(|one| one != rule))?;
            tx.approve(project, rule)
        }
        Write::SetAside(project, rules) => change(tx, project, |project| {
            let added = not_in(rules.iter(), &project.imported_approvals);
            project.imported_approvals.extend(added);
        }),
        Write::Begin(session) => tx.create_session(session),
        Write::Session(session) => tx.put_session(session),
        Write::Message(message) => tx.put_message(message),
        Write::Part(part) => tx.put_part(part),
        Write::Todos(session, todos) => tx.set_todos(session, todos),
        Write::Share(session, share) => tx.put_share(session, share),
        Write::Diff(session, diff) => tx.put_diff(session, diff),
    }
}

/// Changes a project that is here; says whether anything is different.
fn change(
    tx: &Tx<'_>,
    id: &ProjectId,
    apply: impl FnOnce(&mut Project),
) -> Result<Changed, StoreError> {
    let mut is_same = true;
    tx.update_project(id, |project| {
        let before = project.clone();
        apply(project);
        is_same = *project == before;
    })?;
    Ok(if is_same { Changed::No } else { Changed::Updated })
}

/// True if the transaction failed because of what was in it: halves may go through.
fn is_divisible(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::TooLarge { .. } | StoreError::Database { .. } | StoreError::Internal(_)
    )
}

fn is_orphan(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NoSession(_) | StoreError::NoMessage { .. } | StoreError::NotFound { .. }
    )
}

fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::WrongOwner { .. }
            | StoreError::Conflict { .. }
            | StoreError::Busy(_)
            | StoreError::Fenced(_)
            | StoreError::Transition(_)
            | StoreError::Tool(_)
            | StoreError::Invalid(_)
    )
}

/// About how many bytes a write adds.
fn weight(write: &Write) -> usize {
    match write {
        Write::Project(value) => size(value),
        Write::Update(update) => size(&update.rules) + size(&update.icon),
        Write::Directory(_, value) => value.len(),
        Write::Approval(_, value) => size(value),
        Write::SetAside(_, value) => size(value),
        Write::Begin(value) | Write::Session(value) => size(value),
        Write::Message(value) => size(&value.body),
        Write::Part(value) => size(&value.body),
        Write::Todos(_, value) => size(value),
        Write::Share(_, value) => size(value),
        Write::Diff(_, value) => size(value),
    }
}

fn size(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}
