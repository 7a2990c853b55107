//! Planning: per path one three-way question for each link of its history (R4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::{
    ChangeRoot, Evidence, FileChange, PathImage, StepDirection, ThreeWayStep, three_way_steps,
};
use turnstone_core::id::SessionId;
use turnstone_core::operation::UndoExtent;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::LogCursor;
use turnstone_snapshot::{RestoreOperationId as OrderId, TargetState, read_git_position};
use turnstone_store::{Context, Store};

use super::availability::{ensure_guards_present, ensure_not_expired, mask_forgotten};
use super::redo_steps::{RedoSteps, find_redo_steps};
use super::selection::{OperationSelection, SelectedChangeSet};
use super::types::{PlannedChangeSet, RepositoryMove, RootPlan, UndoOptions, UndoPlan};
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
use crate::history::session_changes::SessionChanges;
use crate::id_generator::IdGenerator;

/// The history of the paths of one root, as far as it is to be walked.
#[derive(Default)]
struct RootHistory {
    paths: BTreeMap<RelPath, PathHistory>,
    windows: BTreeSet<RelPath>,
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

    /// The same for a snapshot store; what was undone is redone by the recorded steps, if they are
    /// known.
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
        let OperationSelection { kind, turns, other_turns: also, mut changes, head, side_effects } =
            selection;
        ensure_not_expired(&self.store, ctx, &changes)?;
        mask_forgotten(&self.store_folder, &mut changes)?;
        let mut plan = UndoPlan {
            operation: self.id_generator.new_operation_id(ctx.now)?,
            kind,
            session: session.clone(),
            turns,
            also,
            changes: Vec::new(),
            roots: Vec::new(),
            contended: self.find_contended_paths(ctx, &changes)?,
            not_covered: side_effects.not_covered,
            unnamed: Vec::new(),
            git: Vec::new(),
            head,
            todos: side_effects.todos,
            withdrawn: side_effects.withdrawn,
            switch: side_effects.switch,
            relies: Vec::new(),
        };
        let mut walks: BTreeMap<ChangeRoot, RootHistory> = BTreeMap::new();
        for selected in &changes {
            let part = classify_paths(&mut plan, &mut walks, selected, options);
            plan.changes.push(part);
        }
        let redo_steps = self.load_redo_steps(ctx, session, &plan.changes)?;
        ensure_guards_present(&self.store, ctx, session, &redo_steps.relies)?;
        plan.relies = redo_steps.relies.iter().cloned().collect();
        let shared: BTreeSet<(ChangeRoot, RelPath)> =
            plan.contended.iter().map(|it| (it.root.clone(), it.path.clone())).collect();
        for (root, mut walk) in walks {
            walk.paths.retain(|path, _| !shared.contains(&(root.clone(), path.clone())));
            plan.roots.push(self.plan_root(ctx, root, walk, &redo_steps)?);
        }
        plan.git = find_repository_moves(&changes);
        Ok(plan)
    }

    /// The steps of a redo, as far as operations recorded them.
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
        let targets: Vec<TargetState> = walk.paths.into_iter().map(target).collect();
        let handle = self.snapshots.of_root(&root, ctx.now)?;
        let plan = handle.plan_targets(&targets, ctx.now)?;
        Ok(RootPlan { root, order: OrderId::generate()?, plan, windows })
    }
}

/// Puts the paths of a change set where they belong: to be walked, not covered, or left out.
fn classify_paths(
    plan: &mut UndoPlan,
    walks: &mut BTreeMap<ChangeRoot, RootHistory>,
    selected: &SelectedChangeSet,
    options: &UndoOptions,
) -> PlannedChangeSet {
    let set = &selected.row.set;
    let mut wanted = Vec::new();
    for change in &set.changes {
        let path = change.path.clone();
        let (is_taken, mut is_wanted) =
            (selected.undone.contains_path(&path), selected.wanted.contains_path(&path));
        let is_meant = is_taken != is_wanted && options.includes_path(&path);
        let reason = [change.before, change.after].iter().find_map(PathImage::uncovered_reason);
        match reason {
            _ if !is_meant => is_wanted = is_taken,
            Some(reason) => {
                let reason = reason.as_str().to_owned();
                plan.not_covered.push((set.root.clone(), path.clone(), reason));
            }
            None if options.named_only && set.evidence != Evidence::Named => {
                plan.unnamed.push((set.root.clone(), path.clone()));
                is_wanted = is_taken;
            }
            None => {
                let walk = walks.entry(set.root.clone()).or_default();
                if set.evidence != Evidence::Named {
                    walk.windows.insert(path.clone());
                }
                let path_history = walk.paths.entry(path.clone()).or_default();
                let way = if is_wanted { &mut path_history.back } else { &mut path_history.forth };
                way.push((selected.row.span(), change.clone()));
            }
        }
        wanted.extend(is_wanted.then_some(path));
    }
    let paths: Vec<RelPath> = set.changes.iter().map(|change| change.path.clone()).collect();
    let taken = paths.iter().filter(|path| selected.undone.contains_path(path)).cloned().collect();
    let wanted = match wanted.len() {
        0 => UndoExtent::Nothing,
        all if all == paths.len() => UndoExtent::All,
        _ => UndoExtent::Paths(wanted),
    };
    let (change, session, store) = (set.id.clone(), set.session.clone(), set.root.store.clone());
    PlannedChangeSet { change, session: Some(session), store, paths, taken, wanted }
}

/// Repositories whose HEAD moved since the first of the change sets (R5).
fn find_repository_moves(changes: &[SelectedChangeSet]) -> Vec<RepositoryMove> {
    let mut notes: BTreeMap<&ChangeRoot, RepositoryMove> = BTreeMap::new();
    for selected in changes {
        let set = &selected.row.set;
        let Some(git) = &set.git else { continue };
        let now = read_git_position(Path::new(&set.root.path)).unwrap_or_default();
        let note = RepositoryMove { root: set.root.clone(), before: git.before.clone(), now };
        notes.entry(&set.root).or_insert(note);
    }
    // An unknown position is reported too: it must not be taken for "has not moved".
    let moved = |note: &RepositoryMove| !note.before.is_same_position(&note.now);
    notes.into_values().filter(moved).collect()
}
