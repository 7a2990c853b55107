//! The reference model: which turn changed what, and what an undo or redo may therefore do.

use std::collections::{BTreeMap, BTreeSet};

use crate::edit::{CommandDeeds, PathDeeds};
use crate::tree::{
    ModelImage, ModelNode, ModelTree, SLOTS, is_below, parent_of, put, tree_changes,
};

/// One turn: a command that an agent ran.
#[derive(Clone, Debug)]
pub(crate) struct ModelTurn {
    pub(crate) id: String,
    /// When it was opened and closed.
    pub(crate) span: (u64, u64),
    pub(crate) changes: BTreeMap<String, (ModelImage, ModelImage)>,
    /// Paths that others certainly changed while its command ran, too.
    shared: BTreeSet<String>,
    /// The project when it was opened and closed.
    trees: (ModelTree, ModelTree),
    /// Paths that are undone, each with what the undo found and left.
    pub(crate) undone: BTreeMap<String, (ModelImage, ModelImage)>,
    /// True if a file was being saved when it was opened.
    pub(crate) has_unfinished: bool,
}

/// A command that has not ended.
pub(crate) struct OpenWindow {
    pub(crate) before: ModelTree,
    pub(crate) opened: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Undo,
    Redo,
}

impl Direction {
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }
}

/// What an undo or redo must do.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedResult {
    pub(crate) tree: ModelTree,
    pub(crate) conflicts: BTreeSet<String>,
    pub(crate) contended: BTreeSet<String>,
    /// Directories that should go and hold something else by now: they stay, and are named.
    pub(crate) kept: BTreeSet<String>,
    /// Paths that change, with what they hold before and after.
    pub(crate) moved: BTreeMap<String, (ModelImage, ModelImage)>,
    /// Paths the turns still have to undo or redo.
    pub(crate) pending: BTreeSet<String>,
}

/// The project and its history.
#[derive(Clone, Default)]
pub(crate) struct UndoModel {
    pub(crate) tree: ModelTree,
    pub(crate) turns: Vec<ModelTurn>,
    clock: u64,
    /// When an undo or redo wrote which paths.
    operations: Vec<(u64, BTreeSet<String>)>,
}

impl UndoModel {
    pub(crate) fn new(tree: ModelTree) -> Self {
        Self { tree, ..Self::default() }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn open_window(&mut self) -> OpenWindow {
        OpenWindow { before: self.tree.clone(), opened: self.tick() }
    }

    /// Closes a window: what changed since belongs to its turn if its command touched it.
    pub(crate) fn close_window(&mut self, window: &OpenWindow, id: String, deeds: &CommandDeeds) {
        let span = (window.opened, self.tick());
        let mut changes = tree_changes(&window.before, &self.tree);
        changes.retain(|path, _| deeds.contains_key(path));
        let is_shared = |(path, images): &(&String, &(ModelImage, ModelImage))| {
            !can_explain(deeds[path.as_str()], images)
        };
        let shared = changes.iter().filter(is_shared).map(|(path, _)| path.clone()).collect();
        let trees = (window.before.clone(), self.tree.clone());
        let (undone, has_unfinished) = (BTreeMap::new(), false);
        self.turns.push(ModelTurn { id, span, changes, shared, trees, undone, has_unfinished });
    }

    /// What undoing or redoing a turn must do; `filter` names the only path to touch, if any.
    pub(crate) fn expect(
        &self,
        direction: Direction,
        turn: usize,
        filter: Option<&str>,
    ) -> ExpectedResult {
        let turn = &self.turns[turn];
        let is_chosen =
            |path: &&String| filter.is_none_or(|only| *path == only || is_below(path, only));
        let mut result = ExpectedResult::default();
        let mut wanted: BTreeMap<String, ModelImage> = BTreeMap::new();
        for path in turn.changes.keys().filter(is_chosen) {
            if turn.undone.contains_key(path) != (direction == Direction::Redo) {
                continue;
            }
            result.pending.insert(path.clone());
            if direction == Direction::Undo && self.is_contended(turn, path) {
                result.contended.insert(path.clone());
                continue;
            }
            let (base, target) = match direction {
                Direction::Undo => (&turn.changes[path].1, &turn.changes[path].0),
                Direction::Redo => (&turn.undone[path].1, &turn.undone[path].0),
            };
            match merge(self.tree.get(path), base.as_ref(), target.as_ref()) {
                Some(image) => drop(wanted.insert(path.clone(), image)),
                None => drop(result.conflicts.insert(path.clone())),
            }
        }
        let restored = match direction {
            Direction::Undo => &turn.trees.0,
            Direction::Redo => &turn.trees.1,
        };
        self.add_missing_directories(&mut wanted, restored);
        self.resolve_structure(&mut wanted, &mut result);
        result.moved = tree_changes(&self.tree, &result.tree);
        result
    }

    /// A file that comes back brings the directories above it, with the permission bits they had.
    fn add_missing_directories(
        &self,
        wanted: &mut BTreeMap<String, ModelImage>,
        restored: &ModelTree,
    ) {
        let coming: Vec<String> = wanted
            .iter()
            .filter(|(path, image)| image.is_some() && !self.tree.contains_key(*path))
            .map(|(path, _)| path.clone())
            .collect();
        for path in coming {
            let mut above = parent_of(&path);
            while let Some(folder) = above {
                if !self.tree.contains_key(folder) && !wanted.contains_key(folder) {
                    wanted.insert(folder.to_owned(), restored.get(folder).cloned());
                }
                above = parent_of(folder);
            }
        }
    }

    /// Applies what is wanted as far as the tree stays a tree and no bytes are lost.
    fn resolve_structure(
        &self,
        wanted: &mut BTreeMap<String, ModelImage>,
        result: &mut ExpectedResult,
    ) {
        loop {
            let mut tree = self.tree.clone();
            wanted.iter().for_each(|(path, image)| put(&mut tree, path, image.clone()));
            let orphan = tree.keys().find_map(|path| {
                let folder = parent_of(path)?;
                let has_folder = tree.get(folder).is_some_and(ModelNode::is_directory);
                (!has_folder).then(|| (path.clone(), folder.to_owned()))
            });
            let blocked = match orphan {
                Some((_, folder)) if wanted.contains_key(&folder) => folder,
                Some((path, _)) => path,
                None => match self.last_copy(wanted, result) {
                    Some(path) => path,
                    None => {
                        result.tree = tree;
                        return;
                    }
                },
            };
            let image = wanted.remove(&blocked).expect("a wanted path is in the way");
            let is_kept = image.is_none() && self.tree[&blocked].is_directory();
            let list = if is_kept { &mut result.kept } else { &mut result.conflicts };
            list.insert(blocked);
        }
    }

    /// A file that would be removed although the path its text came from is in conflict.
    fn last_copy(
        &self,
        wanted: &BTreeMap<String, ModelImage>,
        result: &ExpectedResult,
    ) -> Option<String> {
        let slots = |node: &ModelNode| match node {
            ModelNode::File { slots, .. } => Some(*slots),
            ModelNode::Link { .. } | ModelNode::Directory { .. } => None,
        };
        let lost: BTreeSet<[u64; SLOTS]> = result
            .conflicts
            .iter()
            .flat_map(|path| self.turns.iter().filter_map(move |turn| turn.changes.get(path)))
            .flat_map(|(before, after)| [before, after])
            .filter_map(|image| image.as_ref().and_then(slots))
            .collect();
        let is_last = |(path, image): &(&String, &ModelImage)| {
            let removed = self.tree.get(*path).and_then(slots);
            image.is_none() && removed.is_some_and(|slots| lost.contains(&slots))
        };
        wanted.iter().find(is_last).map(|(path, _)| path.clone())
    }

    /// True if another writer may have made this change of a window (R3).
    fn is_contended(&self, turn: &ModelTurn, path: &str) -> bool {
        let wrote = |(at, paths): &(u64, BTreeSet<String>)| {
            is_within(*at, turn.span) && paths.contains(path)
        };
        let overlaps = |other: &ModelTurn| {
            other.id != turn.id
                && other.span.0 < turn.span.1
                && turn.span.0 < other.span.1
                && other.changes.contains_key(path)
        };
        turn.shared.contains(path)
            || self.operations.iter().any(wrote)
            || self.turns.iter().any(overlaps)
    }

    /// Records what was expected as done.
    pub(crate) fn apply(&mut self, direction: Direction, turn: usize, result: &ExpectedResult) {
        let at = self.tick();
        self.tree.clone_from(&result.tree);
        self.operations.push((at, result.moved.keys().cloned().collect()));
        let turn = &mut self.turns[turn];
        // A directory that a filter excludes comes back with a file in it, and then it is done, too.
        for (path, pair) in result.moved.iter().filter(|(path, _)| !result.pending.contains(*path))
        {
            let is_directory =
                |image: &ModelImage| image.as_ref().is_some_and(ModelNode::is_directory);
            let Some((before, after)) = turn.changes.get(path) else { continue };
            let wanted = if direction == Direction::Undo { before } else { after };
            if is_directory(wanted) && is_directory(&pair.1) {
                match direction {
                    Direction::Undo => drop(turn.undone.insert(path.clone(), pair.clone())),
                    Direction::Redo => drop(turn.undone.remove(path)),
                }
            }
        }
        for path in &result.pending {
            let lists = [&result.conflicts, &result.contended, &result.kept];
            if lists.iter().any(|paths| paths.contains(path)) {
                continue;
            }
            match (direction, result.moved.get(path)) {
                (Direction::Undo, Some(pair)) => {
                    drop(turn.undone.insert(path.clone(), pair.clone()))
                }
                // It was as before already: this undo took nothing of it.
                (Direction::Undo, None) => {}
                (Direction::Redo, _) => drop(turn.undone.remove(path)),
            }
        }
    }
}

/// True if what a command did to a path can have made this change without another writer.
fn can_explain(deeds: PathDeeds, (before, after): &(ModelImage, ModelImage)) -> bool {
    let is_same_content = match (before, after) {
        (
            Some(ModelNode::File { slots, binary, .. }),
            Some(ModelNode::File { slots: later, binary: later_binary, .. }),
        ) => (slots, binary) == (later, later_binary),
        (Some(ModelNode::Directory { .. }), Some(ModelNode::Directory { .. })) => true,
        _ => false,
    };
    match after {
        None => deeds.has_removed,
        Some(_) => deeds.has_written || deeds.has_set_bits && is_same_content,
    }
}

const fn is_within(at: u64, span: (u64, u64)) -> bool {
    span.0 < at && at < span.1
}

/// Three-way merge of one path; `None` if later work is in the way.
fn merge(
    ours: Option<&ModelNode>,
    base: Option<&ModelNode>,
    target: Option<&ModelNode>,
) -> Option<ModelImage> {
    if ours == base {
        return Some(target.cloned());
    }
    if ours == target || base == target {
        return Some(ours.cloned());
    }
    if is_reached(ours, base, target) {
        return Some(ours.cloned());
    }
    let was_directory = base.is_some_and(ModelNode::is_directory);
    if target.is_none() && !was_directory && ours.is_some_and(ModelNode::is_directory) {
        // The file or link is gone already; the directory in its place was made by another writer.
        return Some(ours.cloned());
    }
    match (ours?, base?, target?) {
        (
            ModelNode::File { slots: ours, binary, perm: our_bits },
            ModelNode::File { slots: base, binary: base_binary, perm: base_bits },
            ModelNode::File { slots: target, binary: target_binary, perm: target_bits },
        ) => {
            if binary != base_binary || binary != target_binary {
                return None;
            }
            let is_whole = *binary && ours != base && base != target && ours != target;
            let mut merged = [0; SLOTS];
            for (index, slot) in merged.iter_mut().enumerate() {
                *slot = match (ours[index], base[index], target[index]) {
                    _ if is_whole => return None,
                    (ours, base, target) if ours == base => target,
                    (ours, base, target) if ours == target || base == target => ours,
                    _ => return None,
                };
            }
            let perm = merge_bits(*our_bits, *base_bits, *target_bits);
            Some(Some(ModelNode::File { slots: merged, binary: *binary, perm }))
        }
        (
            ModelNode::Directory { perm: ours },
            ModelNode::Directory { perm: base },
            ModelNode::Directory { perm: target },
        ) => Some(Some(ModelNode::Directory { perm: merge_bits(*ours, *base, *target) })),
        _ => None,
    }
}

/// True if another writer made what is wanted where the turn had left something of another kind, or nothing: the
/// permission bits are that writer's own.
fn is_reached(
    ours: Option<&ModelNode>,
    base: Option<&ModelNode>,
    target: Option<&ModelNode>,
) -> bool {
    match (ours, base, target) {
        (_, Some(ModelNode::File { .. }), Some(ModelNode::File { .. }))
        | (_, Some(ModelNode::Directory { .. }), Some(ModelNode::Directory { .. })) => false,
        (
            Some(ModelNode::File { slots, binary, .. }),
            _,
            Some(ModelNode::File { slots: wanted, binary: wanted_binary, .. }),
        ) => (slots, binary) == (wanted, wanted_binary),
        (Some(ModelNode::Directory { .. }), _, Some(ModelNode::Directory { .. })) => true,
        _ => false,
    }
}

/// Bits that the turn changed go back, unless they were changed since; all others stay.
const fn merge_bits(ours: u32, base: u32, target: u32) -> u32 {
    let moved = (base ^ target) & !(ours ^ base);
    (ours & !moved) | (target & moved)
}
