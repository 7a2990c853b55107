//! What is asked of an undo or a redo, what it plans, and what it reports.

use serde::{Deserialize, Serialize};
use turnstone_core::change::{ChangeRoot, GitPosition};
use turnstone_core::id::{ChangeId, MessageId, OperationId, PartId, SessionId, TurnId};
use turnstone_core::model::Todo;
use turnstone_core::operation::{HeadTarget, OperationKind, UndoExtent};
use turnstone_core::permission::PermissionRule;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::SessionSeq;
use turnstone_snapshot::{RestoreOperationId as OrderId, RestorePlan, RestoreReport};

/// Why a file of an imported turn is not covered.
pub(crate) const IMPORTED_REASON: &str = "imported";

/// Which turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoTarget {
    /// The newest turn that is not undone; for a redo, the last undo.
    Last,
    /// This one and no other.
    Turn(TurnId),
    /// This one and everything after it.
    From(TurnId),
    /// The turn this message begins, or what the calls of this answer did; the head stays then.
    Message(MessageId),
    /// What this call did; the head stays.
    Part(PartId),
}

/// Another timeline of a session: what is hidden, and from where the rest is restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineSwitch {
    /// Messages that leave the line.
    pub messages: Vec<MessageId>,
    /// Parts that leave the line, of messages that stay.
    pub parts: Vec<PartId>,
    /// The boundary at which the other line was there whole.
    pub line: SessionSeq,
}

/// What part of a turn is undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndoAspect {
    /// Its files and its place in the conversation.
    #[default]
    Both,
    /// Its files only.
    Files,
    /// Its place in the conversation only.
    Conversation,
}

/// How an undo or a redo is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoOptions {
    /// What is undone.
    pub scope: UndoAspect,
    /// Only changes the tool declared before it wrote (R2).
    pub named_only: bool,
    /// Only these paths, and what lies below them; empty: all.
    pub paths: Vec<RelPath>,
    /// Further turns whose files are undone in the same step, of any session: the caller
    /// claims the same paths, so that nothing is contended (R3).
    pub other_turns: Vec<(SessionId, TurnId)>,
}

impl UndoOptions {
    pub(crate) fn includes_path(&self, path: &RelPath) -> bool {
        let chosen = |one: &RelPath| one == path || one.is_ancestor_of(path);
        self.paths.is_empty() || self.paths.iter().any(chosen)
    }
}

/// A path that another change set claims as well (R3): it is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContendedPath {
    /// Where.
    pub root: ChangeRoot,
    /// Which path.
    pub path: RelPath,
    /// All claimants; undone together, the path can be restored.
    pub claimants: Vec<Claimant>,
    /// Operations that wrote it while a window was open: their writes belong to no turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationId>,
}

/// A change set that claims a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Claimant {
    /// The change set.
    pub change: ChangeId,
    /// Its session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
}

/// The user's repository has moved since (R5): files are restored, commits never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryMove {
    /// Where.
    pub root: ChangeRoot,
    /// Where it stood before the first of the turns.
    pub before: GitPosition,
    /// Its HEAD now.
    pub now: GitPosition,
}

/// What would happen in one root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootPlan {
    /// Where.
    pub root: ChangeRoot,
    /// Names the order the snapshot store carries out once.
    pub order: OrderId,
    /// What it does.
    pub plan: RestorePlan,
    /// Paths in it that were seen changing, but not named by a tool (R2).
    pub windows: Vec<RelPath>,
}

/// What an undo, a redo or a jump would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndoPlan {
    /// Names the operation.
    pub operation: OperationId,
    /// Undo, redo or jump.
    pub kind: OperationKind,
    /// The session.
    pub session: SessionId,
    /// The turns.
    pub turns: Vec<TurnId>,
    /// Turns of other sessions whose files go with them; those conversations stay where they are.
    #[serde(default)]
    pub also: Vec<(SessionId, TurnId)>,
    /// The change sets, and how much of each was undone before.
    pub changes: Vec<PlannedChangeSet>,
    /// What happens to files, root by root.
    pub roots: Vec<RootPlan>,
    /// Paths that other change sets claim too.
    pub contended: Vec<ContendedPath>,
    /// Paths of the change sets that were never covered: where, which, why.
    pub not_covered: Vec<(ChangeRoot, RelPath, String)>,
    /// Paths left out because a tool did not name them.
    pub unnamed: Vec<(ChangeRoot, RelPath)>,
    /// Repositories that have moved.
    pub git: Vec<RepositoryMove>,
    /// The head afterwards.
    pub head: HeadTarget,
    /// The to-do list afterwards; nothing: as it is.
    pub todos: Option<Vec<Todo>>,
    /// Grants that were given in the undone turns: withdrawn, and not restored by a redo (R20).
    pub withdrawn: Vec<PermissionRule>,
    /// The line the session changes to; nothing: it stays on its own.
    pub switch: Option<TimelineSwitch>,
    /// Operations of the session without whose guards this could not be carried out.
    #[serde(default)]
    pub relies: Vec<OperationId>,
}

/// A change set of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedChangeSet {
    /// The change set.
    pub change: ChangeId,
    /// Its session.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Its root's store.
    pub store: String,
    /// Its paths.
    pub paths: Vec<RelPath>,
    /// Its paths that were undone before.
    pub taken: Vec<RelPath>,
    /// What of it is undone afterwards, where files can be restored.
    pub wanted: UndoExtent,
}

/// What was done in one root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootReport {
    /// Where.
    pub root: ChangeRoot,
    /// What was done, compared with the bytes on disk (promise 2).
    pub report: RestoreReport,
}

/// What an operation did; stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationReport {
    /// Names the operation.
    pub operation: OperationId,
    /// Undo, redo or jump.
    pub kind: OperationKind,
    /// The turns.
    pub turns: Vec<TurnId>,
    /// Root by root.
    pub roots: Vec<RootReport>,
    /// Paths left alone because other change sets claim them too.
    pub contended: Vec<ContendedPath>,
    /// Paths that were never covered.
    pub not_covered: Vec<(ChangeRoot, RelPath, String)>,
    /// Repositories that had moved.
    pub git: Vec<RepositoryMove>,
    /// Grants that were withdrawn.
    pub withdrawn: Vec<PermissionRule>,
    /// No file could be restored: the head stays, and nothing
    /// else has changed either.
    #[serde(default)]
    pub without_effect: bool,
}

impl UndoPlan {
    /// What the plan comes to, given what happens in each root.
    ///
    /// Where every path is in conflict, contended or not covered, the conversation stays with the
    /// files. Files of turns that were run elsewhere do not hold it back: of those nothing can ever
    /// be restored (R21).
    #[must_use]
    pub fn build_report(&self, roots: Vec<RootReport>) -> OperationReport {
        let sum = |count: &dyn Fn(&RestoreReport) -> usize| -> usize {
            roots.iter().map(|root| count(&root.report)).sum()
        };
        let reached =
            sum(&|it| it.restored.len() + it.removed.len() + it.merged.len() + it.unchanged);
        let left = sum(&|it| it.conflicts.len() + it.not_covered.len());
        let uncovered = self.not_covered.iter().filter(|(_, _, reason)| reason != IMPORTED_REASON);
        let without_effect = reached == 0 && left + self.contended.len() + uncovered.count() > 0;
        OperationReport {
            operation: self.operation.clone(),
            kind: self.kind,
            turns: self.turns.clone(),
            roots,
            contended: self.contended.clone(),
            not_covered: self.not_covered.clone(),
            git: self.git.clone(),
            withdrawn: if without_effect { Vec::new() } else { self.withdrawn.clone() },
            without_effect,
        }
    }
}

impl OperationReport {
    /// True if every planned path was restored.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let whole = |root: &RootReport| {
            root.report.conflicts.is_empty() && root.report.not_covered.is_empty()
        };
        self.contended.is_empty() && self.not_covered.is_empty() && self.roots.iter().all(whole)
    }
}
