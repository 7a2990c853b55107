//! What is asked of an undo or a redo, what it plans, and what it reports.

use serde::{Deserialize, Serialize};
use turnstone_core::change::{BoundedPaths, ChangeRoot, GitPosition, UncoveredReason};
use turnstone_core::id::{ChangeId, MessageId, OperationId, PartId, SessionId, TurnId};
use turnstone_core::model::Todo;
use turnstone_core::operation::{HeadTarget, OperationKind, UndoExtent};
use turnstone_core::permission::PermissionRule;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::SessionSeq;
use turnstone_snapshot::{
    ConflictReason, RestoreOperationId as OrderId, RestorePlan, RestoreReport,
};

use super::other_conversations::{ConversationMove, UnmovedConversation};
use super::trace_remarks::ForeignChanges;

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
    /// Files of finished turns may change while another turn of the session runs; its conversation stays
    /// then. Otherwise a session with a running turn refuses.
    pub during_turn: bool,
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
    /// True if a trace proves that others changed it, too, and no change set accounts for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_others: bool,
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
    /// True if it belongs to a directory inside or around this one that is captured for itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
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
    /// True if a turn that is undone removed the repository, and it is still gone: nothing can restore it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
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
    /// Turns of other sessions that are undone too.
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
    /// Paths that a filter excludes: another operation can still change them.
    #[serde(default)]
    pub remaining: Vec<(ChangeRoot, RelPath)>,
    /// The head moves only if nothing remains for another operation.
    #[serde(default)]
    pub is_head_last: bool,
    /// Commands whose changes were not recorded.
    #[serde(default)]
    pub lost: Vec<LostWindow>,
    /// Paths that tools named outside of every captured directory.
    #[serde(default)]
    pub outside: Vec<String>,
    /// Roots in which commands may have changed files that no capture covers.
    #[serde(default)]
    pub unobserved: Vec<UnobservedRoot>,
    /// What others changed while the commands ran: it is left alone.
    #[serde(default)]
    pub foreign: Vec<ForeignChanges>,
    /// Another turn of the session runs meanwhile: only files change.
    #[serde(default)]
    pub during_turn: bool,
    /// How the conversations of other sessions move, each with the operation that records it.
    #[serde(default)]
    pub conversations: Vec<(OperationId, ConversationMove)>,
    /// Conversations that stay, of several sessions.
    #[serde(default)]
    pub conversations_left: Vec<UnmovedConversation>,
}

/// A command whose changes are not known, because a capture is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostWindow {
    /// Where it ran.
    pub root: ChangeRoot,
    /// Its session.
    pub session: SessionId,
    /// Its turn.
    pub turn: TurnId,
    /// Its change set.
    pub change: ChangeId,
    /// The capture that is missing.
    pub missing: MissingCapture,
}

/// Which capture of a command is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingCapture {
    /// The one before it.
    Before,
    /// The one after it.
    After,
}

/// A root in which a command may have changed files that no capture covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnobservedRoot {
    /// Where.
    pub root: ChangeRoot,
    /// How many paths the captures skip; `None`: the root is not captured at all.
    pub skipped: Option<u64>,
    /// Why they skip them, each reason once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The skipped paths that traced commands wrote, if all commands were traced.
    #[serde(default, skip_serializing_if = "BoundedPaths::is_empty")]
    pub written: BoundedPaths,
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
    /// Paths that another operation can still change: a filter excluded them, or the disk refused them.
    #[serde(default)]
    pub remaining: Vec<(ChangeRoot, RelPath)>,
    /// Commands whose changes were not recorded, so they could not be undone.
    #[serde(default)]
    pub lost: Vec<LostWindow>,
    /// Paths that tools named outside of every captured directory; they were left as they are.
    #[serde(default)]
    pub outside: Vec<String>,
    /// Roots in which commands may have changed files that no capture covers.
    #[serde(default)]
    pub unobserved: Vec<UnobservedRoot>,
    /// What others changed while the commands ran: it was left alone.
    #[serde(default)]
    pub foreign: Vec<ForeignChanges>,
    /// Conversations that stay, of several sessions.
    #[serde(default)]
    pub conversations_left: Vec<UnmovedConversation>,
}

impl UndoPlan {
    /// A plan that changes nothing yet.
    pub(crate) const fn empty(
        operation: OperationId,
        kind: OperationKind,
        session: SessionId,
    ) -> Self {
        Self {
            operation,
            kind,
            session,
            turns: Vec::new(),
            also: Vec::new(),
            changes: Vec::new(),
            roots: Vec::new(),
            contended: Vec::new(),
            not_covered: Vec::new(),
            unnamed: Vec::new(),
            git: Vec::new(),
            head: HeadTarget::Stay,
            todos: None,
            withdrawn: Vec::new(),
            switch: None,
            relies: Vec::new(),
            remaining: Vec::new(),
            is_head_last: false,
            lost: Vec::new(),
            outside: Vec::new(),
            unobserved: Vec::new(),
            foreign: Vec::new(),
            during_turn: false,
            conversations: Vec::new(),
            conversations_left: Vec::new(),
        }
    }

    /// Makes the conversation wait for the files: as long as a path remains for another operation, the
    /// head and everything that moves with it stay.
    pub(crate) fn move_head_last(&mut self) {
        self.is_head_last = true;
        if !self.remaining.is_empty() {
            self.head = HeadTarget::Stay;
            self.todos = None;
            self.withdrawn.clear();
            self.conversations.clear();
        }
    }

    /// The result of the plan, from the results in each root.
    ///
    /// Where every path is in conflict, contended or not covered, the conversation stays with the
    /// files. Files of turns that were run elsewhere and files outside of the captured directories do not
    /// hold it back: of those nothing can ever be restored (R21).
    #[must_use]
    pub fn build_report(&self, roots: Vec<RootReport>) -> OperationReport {
        let sum = |count: &dyn Fn(&RestoreReport) -> usize| -> usize {
            roots.iter().map(|root| count(&root.report)).sum()
        };
        let files = sum(&|it| it.restored.len() + it.removed.len() + it.merged.len());
        let reached = files + sum(&|it| it.directories.len());
        let left = sum(&|it| it.conflicts.len() + it.not_covered.len());
        let uncovered = self.not_covered.iter().filter(|(_, _, reason)| reason != IMPORTED_REASON);
        let unresolved = left + self.contended.len() + uncovered.count() + self.lost.len();
        let without_effect = reached == 0 && unresolved > 0;
        let mut remaining = self.remaining.clone();
        for root in &roots {
            remaining.extend(refused_paths(&root.report).map(|path| (root.root.clone(), path)));
        }
        let is_unfinished = self.is_head_last && !remaining.is_empty();
        OperationReport {
            operation: self.operation.clone(),
            kind: self.kind,
            turns: self.turns.clone(),
            roots,
            contended: self.contended.clone(),
            not_covered: self.not_covered.clone(),
            git: self.git.clone(),
            withdrawn: match without_effect || is_unfinished {
                true => Vec::new(),
                false => self.withdrawn.clone(),
            },
            without_effect,
            remaining,
            lost: self.lost.clone(),
            outside: self.outside.clone(),
            unobserved: self.unobserved.clone(),
            foreign: self.foreign.clone(),
            conversations_left: self.conversations_left.clone(),
        }
    }

    /// True if the conversation follows the files: some were changed, and none remains.
    pub(crate) fn moves_conversation(&self, report: &OperationReport) -> bool {
        !report.without_effect && (!self.is_head_last || report.remaining.is_empty())
    }
}

/// Paths that were left alone for a reason that may pass: the disk, a missing permission, or a change in the same
/// moment.
fn refused_paths(report: &RestoreReport) -> impl Iterator<Item = RelPath> + '_ {
    let may_pass = |why: ConflictReason| {
        use ConflictReason::{Changed, Immutable, NoSpace, ReadOnly, Refused};
        matches!(why, Refused | Changed | ReadOnly | Immutable | NoSpace)
    };
    let conflicts = report.conflicts.iter().filter(move |it| may_pass(it.why)).map(|it| &it.path);
    let refused = report
        .not_covered
        .iter()
        .filter(|(_, why)| matches!(why, UncoveredReason::NoGuard | UncoveredReason::Unreadable));
    conflicts.chain(refused.map(|(path, _)| path)).cloned()
}

impl OperationReport {
    /// True if every planned path was restored.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let whole = |root: &RootReport| {
            root.report.conflicts.is_empty() && root.report.not_covered.is_empty()
        };
        self.contended.is_empty()
            && self.not_covered.is_empty()
            && self.lost.is_empty()
            && self.outside.is_empty()
            && !self.git.iter().any(|repository| repository.removed)
            && self.roots.iter().all(whole)
    }
}

#[cfg(test)]
mod tests {
    use turnstone_core::operation::SessionHead;
    use turnstone_snapshot::RestoreConflict;

    use super::*;

    fn path(name: &str) -> RelPath {
        name.parse().expect("a path")
    }

    fn root() -> ChangeRoot {
        ChangeRoot { store: "s".to_owned(), path: "/p".to_owned() }
    }

    fn plan() -> UndoPlan {
        let message = "msg_1".parse().expect("an id");
        let (operation, session) =
            ("opn_1".parse().expect("an id"), "ses_1".parse().expect("an id"));
        UndoPlan {
            head: HeadTarget::To(SessionHead { message, part: None }),
            is_head_last: true,
            ..UndoPlan::empty(operation, OperationKind::Undo, session)
        }
    }

    fn report_with(plan: &UndoPlan, report: RestoreReport) -> OperationReport {
        plan.build_report(vec![RootReport { root: root(), report }])
    }

    fn conflict(why: ConflictReason) -> RestoreReport {
        let conflicts = vec![RestoreConflict { path: path("a"), why }];
        RestoreReport { conflicts, restored: vec![path("b")], ..RestoreReport::default() }
    }

    /// Proves R19: what the disk refused is left to the next undo of the same turn.
    #[test]
    fn refused_path_remains_and_keeps_the_head() {
        let plan = plan();
        for why in [ConflictReason::Refused, ConflictReason::Changed] {
            let report = report_with(&plan, conflict(why));
            assert_eq!(report.remaining, [(root(), path("a"))], "{why:?}");
            assert!(!plan.moves_conversation(&report), "{why:?}");
        }
        for why in [UncoveredReason::NoGuard, UncoveredReason::Unreadable] {
            let (not_covered, restored) = (vec![(path("a"), why)], vec![path("b")]);
            let skipped = RestoreReport { not_covered, restored, ..RestoreReport::default() };
            assert!(!plan.moves_conversation(&report_with(&plan, skipped)), "{why:?}");
        }
    }

    #[test]
    fn edit_in_conflict_does_not_keep_the_head() {
        let plan = plan();
        for why in [ConflictReason::Overlap, ConflictReason::NotMergeable] {
            let report = report_with(&plan, conflict(why));
            assert!(report.remaining.is_empty() && plan.moves_conversation(&report), "{why:?}");
            assert!(!report.is_complete());
        }
    }

    #[test]
    fn filtered_paths_keep_the_head() {
        let mut plan = UndoPlan { remaining: vec![(root(), path("a"))], ..plan() };
        let restored = RestoreReport { restored: vec![path("b")], ..RestoreReport::default() };
        let report = report_with(&plan, restored);
        assert!(!plan.moves_conversation(&report));
        plan.move_head_last();
        assert_eq!(plan.head, HeadTarget::Stay);
    }

    /// A file that already holds what was wanted is no success next to one in conflict.
    #[test]
    fn unchanged_file_next_to_a_conflict_is_no_effect() {
        let plan = plan();
        let mut report = conflict(ConflictReason::Overlap);
        (report.restored, report.unchanged) = (Vec::new(), 1);
        assert!(report_with(&plan, report).without_effect);
        let unchanged = RestoreReport { unchanged: 1, ..RestoreReport::default() };
        assert!(!report_with(&plan, unchanged).without_effect);
    }
}
