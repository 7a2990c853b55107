//! Writes in transactions that stay below the store's limits (R23).

use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use turnstone_core::id::{ProjectId, SessionId, TurnId};
use turnstone_core::model::{
    Message, Part, Project, ProjectAlias, ProjectAliasKind, Session, SessionFileDiff, Todo,
};
use turnstone_core::permission::PermissionRule;
use turnstone_store::{Context, ImportedTurnEnd, ShareRecord, Store, StoreError, Tx, WriteOutcome};

use super::imported_turns::created_at;
use super::rule_trust::{RuleTrust, merge_project_rules, rules_not_in};
use crate::import_report::RecordOutcome;
use crate::record_kind::RecordKind;

/// Things in one transaction; each touches a handful of rows.
const MAX_WRITES: usize = 80;
/// Bytes in one transaction, as JSON.
const MAX_BYTES: usize = 1 << 20;

/// One thing to be written.
pub(super) enum ImportWrite {
    Project(Box<Project>),
    /// What an import adds to a project that is here.
    Update(Box<ImportedProjectUpdate>),
    /// A further directory of a project.
    Directory(ProjectId, String),
    /// An approval that takes effect.
    Approval(ProjectId, PermissionRule),
    /// Approvals that do not.
    InertApprovals(ProjectId, Vec<PermissionRule>),
    /// The session as it begins; counted when its last image is written.
    CreateSession(Box<Session>),
    /// The session as it is.
    Session(Box<Session>),
    /// A turn begins with this message.
    BeginTurn(TurnId, Box<Message>),
    /// A turn is over.
    EndTurn(SessionId, ImportedTurnEnd),
    Message(Box<Message>),
    Part(Box<Part>),
    Todos(SessionId, Vec<Todo>),
    Share(SessionId, ShareRecord),
    Diff(SessionId, Vec<SessionFileDiff>),
}

/// What an import brings for a project that is here: rules that are stored and not in effect, and, if
/// the source is trusted, what the project does not have.
pub(super) struct ImportedProjectUpdate {
    pub(super) id: ProjectId,
    pub(super) name: Option<String>,
    pub(super) icon: Option<Value>,
    pub(super) commands: Option<Value>,
    pub(super) rules: Vec<PermissionRule>,
    pub(super) trust: RuleTrust,
}

impl ImportedProjectUpdate {
    fn apply(&self, project: &mut Project) {
        if self.trust == RuleTrust::Trusted {
            fill(&mut project.name, self.name.as_ref());
            fill(&mut project.icon, self.icon.as_ref());
            fill(&mut project.commands, self.commands.as_ref());
        }
        merge_project_rules(project, &self.rules, self.trust);
    }
}

fn fill<T: Clone>(field: &mut Option<T>, value: Option<&T>) {
    if field.is_none() {
        *field = value.cloned();
    }
}

/// A write with what the report calls it.
pub(super) struct QueuedWrite {
    pub(super) kind: RecordKind,
    pub(super) id: String,
    /// How many things of the report it stands for.
    pub(super) count: u64,
    /// True if it was not here before this import began.
    pub(super) fresh: bool,
    pub(super) write: ImportWrite,
}

/// What became of a write.
pub(super) struct ImportWriteResult {
    pub(super) kind: RecordKind,
    pub(super) id: String,
    pub(super) count: u64,
    pub(super) outcome: RecordOutcome,
}

/// Writes that wait for their transaction.
#[derive(Default)]
pub(super) struct WriteBatch {
    pending: Vec<QueuedWrite>,
    bytes: usize,
}

impl WriteBatch {
    /// Adds a write; true if the batch is full now.
    pub(super) fn push(&mut self, pending: QueuedWrite) -> bool {
        self.bytes += write_size(&pending.write);
        self.pending.push(pending);
        self.pending.len() >= MAX_WRITES || self.bytes >= MAX_BYTES
    }

    /// Writes everything and says what became of each.
    ///
    /// # Errors
    ///
    /// What stops the whole import: a full disk, a damaged file. Nothing of the failed transaction is
    /// stored.
    pub(super) fn flush(
        &mut self,
        store: &Store,
        ctx: &Context,
    ) -> Result<Vec<ImportWriteResult>, StoreError> {
        self.bytes = 0;
        let pending = Arc::new(std::mem::take(&mut self.pending));
        let mut done = Vec::with_capacity(pending.len());
        write_range(store, ctx, &pending, 0..pending.len(), &mut done)?;
        Ok(done)
    }
}

/// Writes a range in one transaction, or in halves if that is too much at once.
fn write_range(
    store: &Store,
    ctx: &Context,
    pending: &Arc<Vec<QueuedWrite>>,
    range: Range<usize>,
    done: &mut Vec<ImportWriteResult>,
) -> Result<(), StoreError> {
    if range.is_empty() {
        return Ok(());
    }
    let (work, part) = (Arc::clone(pending), range.clone());
    let apply_all = move |tx: &Tx<'_>| {
        work[part.clone()].iter().map(|one| apply_with_outcome(tx, one)).collect()
    };
    let outcomes: Result<Vec<RecordOutcome>, StoreError> = store.write(ctx, apply_all).wait();
    match outcomes {
        Ok(outcomes) => {
            done.extend(pending[range].iter().zip(outcomes).filter_map(to_completed));
            Ok(())
        }
        Err(error) if is_retryable_in_halves(&error) && range.len() == 1 => {
            let outcome = RecordOutcome::Rejected(error.to_string());
            done.extend(pending[range].iter().zip([outcome]).filter_map(to_completed));
            Ok(())
        }
        Err(error) if is_retryable_in_halves(&error) => {
            let middle = range.start + range.len() / 2;
            write_range(store, ctx, pending, range.start..middle, done)?;
            write_range(store, ctx, pending, middle..range.end, done)
        }
        Err(error) => Err(error),
    }
}

fn to_completed((one, outcome): (&QueuedWrite, RecordOutcome)) -> Option<ImportWriteResult> {
    if matches!(
        one.write,
        ImportWrite::CreateSession(_) | ImportWrite::BeginTurn(..) | ImportWrite::EndTurn(..)
    ) {
        return None;
    }
    let fresh = one.fresh && outcome == RecordOutcome::Unchanged;
    let outcome = if fresh { RecordOutcome::Imported } else { outcome };
    Some(ImportWriteResult { kind: one.kind, id: one.id.clone(), count: one.count, outcome })
}

/// Applies one write; what concerns this thing alone is an outcome, anything else an error.
fn apply_with_outcome(tx: &Tx<'_>, one: &QueuedWrite) -> Result<RecordOutcome, StoreError> {
    match apply_write(tx, &one.write) {
        Ok(WriteOutcome::Created | WriteOutcome::Updated) => Ok(RecordOutcome::Imported),
        Ok(WriteOutcome::No) => Ok(RecordOutcome::Unchanged),
        Err(StoreError::Deleted(_)) => Ok(RecordOutcome::Rejected("deleted here".to_owned())),
        Err(error) if is_orphan(&error) => Ok(RecordOutcome::Orphaned(error.to_string())),
        Err(error) if is_refusal(&error) => Ok(RecordOutcome::Rejected(error.to_string())),
        Err(error) => Err(error),
    }
}

fn apply_write(tx: &Tx<'_>, write: &ImportWrite) -> Result<WriteOutcome, StoreError> {
    match write {
        ImportWrite::Project(project) => tx.projects().put(project),
        ImportWrite::Update(update) => {
            update_project(tx, &update.id, |project| update.apply(project))
        }
        ImportWrite::Directory(project, directory) => update_project(tx, project, |project| {
            let alias =
                ProjectAlias { kind: ProjectAliasKind::Directory, value: directory.clone() };
            project.sandboxes.push(directory.clone());
            project.aliases.push(alias);
        }),
        ImportWrite::Approval(project, rule) => {
            update_project(tx, project, |it| it.imported_approvals.retain(|one| one != rule))?;
            tx.projects().approve_rule(project, rule)
        }
        ImportWrite::InertApprovals(project, rules) => update_project(tx, project, |project| {
            let added = rules_not_in(rules.iter(), &project.imported_approvals);
            project.imported_approvals.extend(added);
        }),
        ImportWrite::CreateSession(session) => tx.sessions().create(session),
        ImportWrite::Session(session) => tx.sessions().put(session),
        ImportWrite::BeginTurn(turn, message) => {
            tx.turns().begin_imported(turn, message, created_at(message))
        }
        ImportWrite::EndTurn(session, end) => tx.turns().end_imported(session, end),
        ImportWrite::Message(message) => tx.messages().put(message),
        ImportWrite::Part(part) => tx.messages().put_imported_part(part),
        ImportWrite::Todos(session, todos) => tx.sessions().set_todos(session, todos),
        ImportWrite::Share(session, share) => tx.shares().put(session, share),
        ImportWrite::Diff(session, diff) => tx.sessions().put_diff(session, diff),
    }
}

/// Changes a project that is here; says whether anything is different.
fn update_project(
    tx: &Tx<'_>,
    id: &ProjectId,
    apply: impl FnOnce(&mut Project),
) -> Result<WriteOutcome, StoreError> {
    let mut is_same = true;
    tx.projects().update(id, |project| {
        let before = project.clone();
        apply(project);
        is_same = *project == before;
    })?;
    Ok(if is_same { WriteOutcome::No } else { WriteOutcome::Updated })
}

/// True if the transaction failed because of what was in it: halves may go through.
fn is_retryable_in_halves(error: &StoreError) -> bool {
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
fn write_size(write: &ImportWrite) -> usize {
    match write {
        ImportWrite::Project(value) => json_size(value),
        ImportWrite::Update(update) => json_size(&update.rules) + json_size(&update.icon),
        ImportWrite::Directory(_, value) => value.len(),
        ImportWrite::Approval(_, value) => json_size(value),
        ImportWrite::InertApprovals(_, value) => json_size(value),
        ImportWrite::CreateSession(value) | ImportWrite::Session(value) => json_size(value),
        ImportWrite::BeginTurn(..) | ImportWrite::EndTurn(..) => 300,
        ImportWrite::Message(value) => json_size(&value.body),
        ImportWrite::Part(value) => json_size(&value.body),
        ImportWrite::Todos(_, value) => json_size(value),
        ImportWrite::Share(_, value) => json_size(value),
        ImportWrite::Diff(_, value) => json_size(value),
    }
}

fn json_size(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}
