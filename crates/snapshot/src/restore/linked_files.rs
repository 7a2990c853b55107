//! Files with several names (hard links) among the paths of a plan (R18).
//!
//! A file that is written in place changes under all of its names. Names that get the same content stay one file.
//! Where a name gets other content, or another name in the worktree is not to change, each becomes a file of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::plan::{RestorePlan, RestoreStep};
use crate::object_store::FileMode;
use crate::path::RelPath;
use crate::path_image::PathImage;
use crate::worktree::{FileKind, FileStat, Worktree};
use crate::worktree_index::{IndexEntry, WorktreeIndex, join_name, split_parent};

/// What identifies a file under all of its names: device and inode.
type FileId = (u64, u64);

/// The steps of a plan that are names of one file.
struct LinkedFile<'p> {
    stat: FileStat,
    steps: Vec<&'p RestoreStep>,
}

impl LinkedFile<'_> {
    fn rewritten_steps(&self) -> impl Iterator<Item = &RestoreStep> {
        self.steps.iter().copied().filter(|step| is_rewritten(step))
    }

    /// True if its names in the plan get different content or permissions.
    fn is_split(&self) -> bool {
        let mut targets = self.rewritten_steps().map(|step| step.target);
        let first = targets.next();
        targets.any(|target| Some(target) != first)
    }

    /// True if somebody gave it a name since the last capture that saw it.
    fn is_linked_since(&self, index: &WorktreeIndex) -> bool {
        self.steps.iter().any(|step| {
            let Some((folder, name)) = split_parent(step.path.as_bytes()) else { return false };
            match index.folder(folder).and_then(|folder| folder.find(name)) {
                Some(IndexEntry::File(known)) => {
                    let FileStat { dev, ino, nlink, .. } = known.stat;
                    (dev, ino) == (self.stat.dev, self.stat.ino) && nlink < self.stat.nlink
                }
                Some(IndexEntry::Folder(_) | IndexEntry::Skipped(_)) | None => false,
            }
        })
    }

    /// True if it has a name in the worktree that no step is about.
    fn has_other_name(&self, worktree: &Worktree, names: &BTreeSet<RelPath>) -> bool {
        let is_step = |name: &RelPath| self.steps.iter().any(|step| step.path == *name);
        names.iter().filter(|name| !is_step(name)).any(|name| {
            matches!(worktree.stat(name), Ok(Some(found))
                if (found.dev, found.ino) == (self.stat.dev, self.stat.ino))
        })
    }
}

/// True if a step replaces the content or the permissions of a file.
fn is_rewritten(step: &RestoreStep) -> bool {
    let is_file = |image: PathImage| image.leaf().is_some_and(|leaf| leaf.mode != FileMode::Link);
    is_file(step.expected) && is_file(step.target)
}

/// The files of a plan that have several names.
fn find_linked_files<'p>(
    worktree: &Worktree,
    steps: &'p [RestoreStep],
) -> BTreeMap<FileId, LinkedFile<'p>> {
    let mut found = BTreeMap::<FileId, LinkedFile<'p>>::new();
    for step in steps.iter().filter(|step| step.expected.leaf().is_some()) {
        if let Ok(Some(stat)) = worktree.stat(&step.path)
            && stat.kind == FileKind::File
            && stat.nlink > 1
        {
            let file = found.entry((stat.dev, stat.ino));
            file.or_insert(LinkedFile { stat, steps: Vec::new() }).steps.push(step);
        }
    }
    found
}

/// The paths that are names of the same file as another path of the plan: their steps run one after the other.
pub(super) fn find_linked_paths<'p>(
    worktree: &Worktree,
    steps: &'p [RestoreStep],
) -> BTreeSet<&'p RelPath> {
    let several = find_linked_files(worktree, steps).into_values().filter(|it| it.steps.len() > 1);
    several.flat_map(|file| file.steps).map(|step| &step.path).collect()
}

/// Decides for each file with several names whether it stays one.
pub(super) fn plan_linked_files(
    plan: &mut RestorePlan,
    worktree: &Worktree,
    index: &Mutex<WorktreeIndex>,
) {
    let files = find_linked_files(worktree, &plan.steps);
    if !files.values().any(|file| file.rewritten_steps().next().is_some()) {
        return;
    }
    let index = index.lock().unwrap_or_else(PoisonError::into_inner);
    let inodes: BTreeSet<FileId> = files.keys().copied().collect();
    let mut names = BTreeSet::new();
    for (folder, entries) in index.names_of_inodes(&inodes) {
        names.extend(entries.iter().filter_map(|name| RelPath::new(join_name(&folder, name)).ok()));
    }
    let (mut separated, mut elsewhere) = (Vec::new(), Vec::new());
    for file in files.values() {
        let is_separated = file.is_split()
            || file.has_other_name(worktree, &names)
            || file.is_linked_since(&index);
        let paths = file.rewritten_steps().map(|step| step.path.clone());
        if is_separated {
            separated.extend(paths);
        } else if file.stat.nlink > file.steps.len() as u64 {
            elsewhere.extend(paths);
        }
    }
    separated.sort();
    elsewhere.sort();
    (plan.separated, plan.linked_elsewhere) = (separated, elsewhere);
}
