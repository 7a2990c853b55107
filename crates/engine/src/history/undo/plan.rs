//! Planning: per path one three-way question for each link of its history (R4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::{
    ChangeRoot, FileChange, GitPosition, PathImage, StepDirection, ThreeWayStep, UncoveredReason,
    three_way_steps,
};
use turnstone_core::id::SessionId;
use turnstone_core::operation::UndoExtent;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_snapshot::{
    RestoreOperationId as OrderId, SnapshotError, TargetState, read_git_position,
};
use turnstone_store::{Context, Store};

use super::availability::{
    ensure_guards_present, ensure_not_expired, ensure_paths_changed, mask_forgotten,
};
use super::lost_window::{find_lost_window, find_unobserved};
use super::missing_directories::find_directory_targets;
use super::redo_steps::{RedoSteps, find_redo_steps};
use super::selection::{ChangeSetUndoState, OperationSelection};
use super::trace_remarks::find_foreign_changes;
use super::types::{PlannedChangeSet, RepositoryMove, RootPlan, UndoOptions, UndoPlan};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::history::session_changes::SessionChanges;
use crate::id_generator::IdGenerator;

/// The history of the paths of one root, limited to the part the plan needs.
#[derive(Default)]
struct RootHistory {
    paths: BTreeMap<RelPath, PathHistory>,
    windows: BTreeSet<RelPath>,
    /// The captures that hold what the paths get.
    captures: Vec<String>,
}

impl RootHistory {
    /// Adds a change of a change set that is to be undone, or redone.
    fn add(&mut self, selected: &ChangeSetUndoState, change: &FileChange, is_undone: bool) {
        let row = &selected.row;
        if !row.set.evidence.is_certain() {
            self.windows.insert(change.path.clone());
        }
        let capture = if is_undone { &row.before } else { &row.after };
        if capture.is_some() && self.captures.last() != capture.as_ref() {
            self.captures.extend(capture.clone());
        }
        let path_history = self.paths.entry(change.path.clone()).or_default();
        let way = if is_undone { &mut path_history.back } else { &mut path_history.forth };
        way.push((row.span(), change.clone()));
    }
}

/// The changes of one path that are undone, and those that are redone, oldest first.
#[derive(Default)]
pub(crate) struct PathHistory {
    pub(crate) back: Vec<ObservedChange>,
    pub(crate) forth: Vec<ObservedChange>,
}

/// A change and the part of the log in which its change set was open.
pub(crate) type ObservedChange = (LogSpan, FileChange);

/// Where in the log a change set was opened and closed.
type LogSpan = (LogCursor, Option<LogCursor>);

/// The history of a path, oldest first. What was seen by several at the same time is one change:
/// from what the first found to what the last one left.
fn coalesce_changes(seen: &[ObservedChange]) -> Vec<(PathImage, PathImage)> {
    let mut seen = seen.to_vec();
    seen.sort_by_key(|((opened, _), _)| *opened);
    let mut joined: Vec<ObservedChange> = Vec::new();
    for ((opened, closed), change) in seen {
        match joined.last_mut() {
            Some(((_, last_closed), last)) if Some(opened) < *last_closed => {
                if closed > *last_closed {
                    (*last_closed, last.after) = (closed, change.after);
                }
            }
            _ => joined.push(((opened, closed), change)),
        }
    }
    joined.into_iter().map(|(_, change)| (change.before, change.after)).collect()
}

impl PathHistory {
    /// The steps from what is there to what should be.
    pub(crate) fn three_way_steps(&self) -> Vec<ThreeWayStep> {
        let mut steps = three_way_steps(&coalesce_changes(&self.back), StepDirection::Undo);
        steps.extend(three_way_steps(&coalesce_changes(&self.forth), StepDirection::Redo));
        steps
    }

    /// The steps for a snapshot store; a redo uses the steps that the undo recorded, if they are known.
    fn target_links(&self, redo_steps: Option<&Vec<ThreeWayStep>>) -> Vec<ThreeWayStep> {
        match redo_steps {
            None => self.three_way_steps(),
            Some(forth) => {
                undo_links(&self.back).into_iter().chain(forth.iter().cloned()).collect()
            }
        }
    }
}

/// The steps that undo the observed changes of a path.
pub(super) fn undo_links(seen: &[ObservedChange]) -> Vec<ThreeWayStep> {
    three_way_steps(&coalesce_changes(seen), StepDirection::Undo)
}

/// Plans, path by path, how files get from what is there to what an operation wants.
#[derive(Clone)]
pub(crate) struct OperationPlanner {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) changes: SessionChanges,
    pub(crate) store_folder: PathBuf,
}

impl OperationPlanner {
    /// Makes a plan of what was gathered.
    pub(crate) fn build(
        &self,
        ctx: &Context,
        session: &SessionId,
        selection: OperationSelection,
        options: &UndoOptions,
    ) -> Result<UndoPlan> {
        let OperationSelection {
            kind,
            turns,
            other_turns: also,
            mut changes,
            head,
            side_effects,
            conversations,
        } = selection;
        // Change sets name their directory as it was; it may have moved since.
        for selected in &mut changes {
            selected.row.set.root = self.snapshots.locate_root(&selected.row.set.root)?;
        }
        ensure_not_expired(&self.store, ctx, &changes)?;
        mask_forgotten(&self.store_folder, &mut changes)?;
        ensure_paths_changed(&changes, options)?;
        let operation = self.id_generator.new_operation_id(ctx.now)?;
        let mut contended = self.find_contended_paths(ctx, &changes)?;
        contended.retain(|it| options.includes_path(&it.path));
        let mut plan = UndoPlan {
            turns,
            also,
            contended,
            not_covered: side_effects.not_covered,
            outside: side_effects.outside,
            head,
            todos: side_effects.todos,
            withdrawn: side_effects.withdrawn,
            switch: side_effects.switch,
            conversations_left: conversations.unmoved,
            ..UndoPlan::empty(operation, kind, session.clone())
        };
        for change in conversations.moves {
            plan.conversations.push((self.id_generator.new_operation_id(ctx.now)?, change));
        }
        let mut walks: BTreeMap<ChangeRoot, RootHistory> = BTreeMap::new();
        for selected in &changes {
            let part = classify_paths(&mut plan, &mut walks, selected, options);
            plan.changes.push(part);
        }
        let redo_steps = self.load_redo_steps(ctx, session, &plan.changes)?;
        ensure_guards_present(&self.store, ctx, session, &redo_steps.relies)?;
        plan.relies = redo_steps.relies.iter().cloned().collect();
        self.plan_roots(ctx, &mut plan, walks, &redo_steps)?;
        claim_restored_directories(&mut plan, &changes);
        plan.git = find_repository_moves(&changes, options);
        plan.foreign = find_foreign_changes(&changes);
        plan.unobserved = find_unobserved(&self.snapshots, ctx, &plan, &changes)?;
        Ok(plan)
    }

    /// Plans the files of each root, apart from contended ones.
    fn plan_roots(
        &self,
        ctx: &Context,
        plan: &mut UndoPlan,
        walks: BTreeMap<ChangeRoot, RootHistory>,
        redo_steps: &RedoSteps,
    ) -> Result<()> {
        let shared: BTreeSet<(ChangeRoot, RelPath)> =
            plan.contended.iter().map(|it| (it.root.clone(), it.path.clone())).collect();
        for (root, mut walk) in walks {
            walk.paths.retain(|path, _| !shared.contains(&(root.clone(), path.clone())));
            let paths: Vec<RelPath> = walk.paths.keys().cloned().collect();
            match self.plan_root(ctx, root.clone(), walk, redo_steps) {
                // The store of the captures is gone: nothing of them can be restored, and each path is named.
                Err(EngineError::Snapshot(SnapshotError::Untracked(_))) => {
                    let missing = || UncoveredReason::Missing.as_str().to_owned();
                    let paths = paths.into_iter();
                    plan.not_covered.extend(paths.map(|path| (root.clone(), path, missing())));
                }
                planned => plan.roots.push(planned?),
            }
        }
        Ok(())
    }

    /// The steps of a redo that operations recorded.
    fn load_redo_steps(
        &self,
        ctx: &Context,
        session: &SessionId,
        parts: &[PlannedChangeSet],
    ) -> Result<RedoSteps> {
        let brings = |part: &PlannedChangeSet| {
            part.taken.iter().any(|path| !part.wanted.contains_path(path))
        };
        match parts.iter().any(brings) {
            true => {
                let operations = self.store.read(ctx, |r| r.operations().list(session))?;
                find_redo_steps(&self.store, ctx, parts, &operations)
            }
            false => Ok(RedoSteps::default()),
        }
    }

    fn plan_root(
        &self,
        ctx: &Context,
        root: ChangeRoot,
        walk: RootHistory,
        redo_steps: &RedoSteps,
    ) -> Result<RootPlan> {
        let target = |(path, path_history): (RelPath, PathHistory)| {
            let position = (root.store.clone(), path);
            let links = path_history.target_links(redo_steps.links.get(&position));
            TargetState { path: position.1, links }
        };
        let windows =
            walk.windows.into_iter().filter(|path| walk.paths.contains_key(path)).collect();
        let mut targets: Vec<TargetState> = walk.paths.into_iter().map(target).collect();
        let handle = self.snapshots.of_root(&root, ctx.now)?;
        let mut plan = handle.plan_targets(&targets, ctx.now)?;
        let known = find_directory_targets(&handle, &plan.missing_directories, &walk.captures)?;
        if !known.is_empty() {
            targets.extend(known);
            plan = handle.plan_targets(&targets, ctx.now)?;
        }
        Ok(RootPlan { root, order: OrderId::generate()?, plan, windows })
    }
}

/// Puts the paths of a change set where they belong: to be walked, not covered, or left out.
fn classify_paths(
    plan: &mut UndoPlan,
    walks: &mut BTreeMap<ChangeRoot, RootHistory>,
    selected: &ChangeSetUndoState,
    options: &UndoOptions,
) -> PlannedChangeSet {
    let set = &selected.row.set;
    // A path filter asks for known paths of the root only.
    if options.paths.is_empty() && selected.wanted != UndoExtent::Nothing {
        plan.lost.extend(find_lost_window(selected));
        plan.outside.extend(selected.row.outside.iter().cloned());
    }
    let mut wanted = Vec::new();
    for change in &set.changes {
        let path = change.path.clone();
        let (is_taken, mut is_wanted) =
            (selected.undone.contains_path(&path), selected.wanted.contains_path(&path));
        let is_due = is_taken != is_wanted;
        let reason = [change.before, change.after].iter().find_map(PathImage::uncovered_reason);
        match reason {
            _ if !is_due => {}
            reason if !options.includes_path(&path) => {
                if reason.is_none() {
                    plan.remaining.push((set.root.clone(), path.clone()));
                }
                is_wanted = is_taken;
            }
            Some(reason) => {
                let reason = reason.as_str().to_owned();
                plan.not_covered.push((set.root.clone(), path.clone(), reason));
            }
            None if options.named_only && !set.evidence.is_certain() => {
                plan.unnamed.push((set.root.clone(), path.clone()));
                plan.remaining.push((set.root.clone(), path.clone()));
                is_wanted = is_taken;
            }
            None => {
                walks.entry(set.root.clone()).or_default().add(selected, change, is_wanted);
            }
        }
        wanted.extend(is_wanted.then_some(path));
    }
    let paths: Vec<RelPath> = set.changes.iter().map(|change| change.path.clone()).collect();
    let taken = paths.iter().filter(|path| selected.undone.contains_path(path)).cloned().collect();
    let wanted = to_extent(wanted, paths.len());
    let (change, session, store) = (set.id.clone(), set.session.clone(), set.root.store.clone());
    PlannedChangeSet { change, session: Some(session), store, paths, taken, wanted }
}

/// How much of a change set some of its paths are.
fn to_extent(some: Vec<RelPath>, all: usize) -> UndoExtent {
    match some.len() {
        0 => UndoExtent::Nothing,
        count if count == all => UndoExtent::All,
        _ => UndoExtent::Paths(some),
    }
}

/// Counts directories as undone that a path filter excludes and that come back with a file below them.
fn claim_restored_directories(plan: &mut UndoPlan, changes: &[ChangeSetUndoState]) {
    let UndoPlan { roots, remaining, changes: parts, .. } = plan;
    remaining.retain(|(root, path)| {
        let is_restored = roots.iter().filter(|it| it.root == *root).any(|it| {
            it.plan.steps.iter().any(|step| step.path == *path && step.target.is_directory())
        });
        if !is_restored {
            return true;
        }
        for (part, selected) in parts.iter_mut().zip(changes) {
            let removed =
                |change: &FileChange| change.path == *path && change.before.is_directory();
            let set = &selected.row.set;
            if set.root == *root && set.changes.iter().any(removed) {
                let is_wanted = |it: &&RelPath| *it == path || part.wanted.contains_path(it);
                let wanted: Vec<RelPath> = part.paths.iter().filter(is_wanted).cloned().collect();
                part.wanted = to_extent(wanted, part.paths.len());
            }
        }
        false
    });
}

/// Repositories whose HEAD moved since the first of the change sets (R5), or that one of them removed.
fn find_repository_moves(
    changes: &[ChangeSetUndoState],
    options: &UndoOptions,
) -> Vec<RepositoryMove> {
    let none = GitPosition::default();
    let mut notes: BTreeMap<&ChangeRoot, RepositoryMove> = BTreeMap::new();
    for selected in changes {
        let set = &selected.row.set;
        let Some(git) = &set.git else { continue };
        let now = read_git_position(Path::new(&set.root.path)).unwrap_or_default();
        // A path filter asks for known paths of the root only.
        let is_undone = options.paths.is_empty() && selected.wanted != UndoExtent::Nothing;
        let removed = is_undone && git.before != none && git.after == none && now == none;
        let before = git.before.clone();
        let note = RepositoryMove { root: set.root.clone(), before, now, removed: false };
        notes.entry(&set.root).or_insert(note).removed |= removed;
    }
    // An unknown position is reported too: it must not be taken for "has not moved".
    let moved = |note: &RepositoryMove| !note.before.is_same_position(&note.now);
    notes.into_values().filter(moved).collect()
}

#[cfg(test)]
mod tests {
    use turnstone_core::change::{FileMode, Oid, TreeLeaf};

    use super::*;

    fn file(name: u8) -> PathImage {
        let leaf = TreeLeaf { blob: Oid([name; 20]), mode: FileMode::File };
        PathImage::Present { leaf, perm: 0o644 }
    }

    /// A change of a change set that was open between two positions of the log.
    fn change(opened: i64, closed: Option<i64>, (before, after): (u8, u8)) -> ObservedChange {
        let path = "f".parse().expect("a path");
        let span = (LogCursor(opened), closed.map(LogCursor));
        (span, FileChange { path, before: file(before), after: file(after) })
    }

    fn pairs(expected: &[(u8, u8)]) -> Vec<(PathImage, PathImage)> {
        expected.iter().map(|(before, after)| (file(*before), file(*after))).collect()
    }

    #[test]
    fn overlapping_changes_span_from_the_first_opened_to_the_last_closed() {
        let outer = change(1, Some(9), (b'a', b'd'));
        let inner = change(2, Some(5), (b'b', b'c'));
        let later = change(3, Some(12), (b'c', b'e'));

        assert_eq!(coalesce_changes(&[outer.clone(), inner.clone()]), pairs(&[(b'a', b'd')]));
        assert_eq!(
            coalesce_changes(&[inner.clone(), outer.clone()]),
            pairs(&[(b'a', b'd')]),
            "any order"
        );
        assert_eq!(coalesce_changes(&[outer, inner, later]), pairs(&[(b'a', b'e')]));
    }

    /// The end of a run grows with the change that closes last, so a third one can overlap it.
    #[test]
    fn overlap_is_measured_against_the_whole_run() {
        let seen = [
            change(1, Some(4), (b'a', b'b')),
            change(3, Some(8), (b'b', b'c')),
            change(6, Some(9), (b'c', b'd')),
        ];

        assert_eq!(coalesce_changes(&seen), pairs(&[(b'a', b'd')]));
    }

    #[test]
    fn change_sets_that_meet_or_are_apart_stay_separate() {
        let first = change(1, Some(4), (b'a', b'b'));
        let meets = change(4, Some(6), (b'c', b'd'));
        let apart = change(7, Some(8), (b'e', b'f'));

        let all = coalesce_changes(&[apart, meets, first]);

        assert_eq!(all, pairs(&[(b'a', b'b'), (b'c', b'd'), (b'e', b'f')]));
    }

    #[test]
    fn of_two_that_close_together_the_first_opened_counts() {
        let seen = [change(1, Some(4), (b'a', b'b')), change(2, Some(4), (b'a', b'c'))];

        assert_eq!(coalesce_changes(&seen), pairs(&[(b'a', b'b')]));
    }

    /// An open change set says nothing about later ones: its end is unknown.
    #[test]
    fn open_change_set_is_joined_with_no_other() {
        let seen = [change(1, None, (b'a', b'b')), change(2, Some(3), (b'c', b'd'))];

        assert_eq!(coalesce_changes(&seen), pairs(&[(b'a', b'b'), (b'c', b'd')]));
    }

    /// Proves R4: undo from the newest to the oldest, then redo from the oldest on.
    #[test]
    fn steps_undo_newest_first_and_then_redo() {
        let history = PathHistory {
            back: vec![change(1, Some(2), (b'a', b'b')), change(3, Some(4), (b'c', b'd'))],
            forth: vec![change(5, Some(6), (b'e', b'f'))],
        };
        let step = |base: u8, target: u8| ThreeWayStep::new(Some(file(base)), file(target));
        let expected = [step(b'd', b'c'), step(b'b', b'a'), step(b'e', b'f')];

        assert_eq!(history.three_way_steps(), expected);
        assert_eq!(history.target_links(None), expected);
        let recorded = vec![step(b'x', b'y')];
        assert_eq!(
            history.target_links(Some(&recorded)),
            [step(b'd', b'c'), step(b'b', b'a'), step(b'x', b'y')],
            "a redo follows what the undo recorded"
        );
    }
}
