//! A group of steps that is done whole or not at all: removals, directories, writes, or all undone.

use std::collections::BTreeSet;
use std::io;

use super::apply::MergedBlobs;
use super::name_exchange::{is_name_conflict, move_back, read_leaf, spare_name, undo_exchange};
use super::plan::RestoreStep;
use super::report::ConflictReason;
use crate::file_hashing::read_current_content;
use crate::object_store::{ObjectRepository, TreeLeaf};
use crate::path::{RelPath, temp_name};
use crate::path_image::PathImage;
use crate::snapshot_store::SnapshotStore;
use crate::worktree::{FileKind, NameInDir, Worktree, WorktreeDir};

/// What was done and how to undo it.
enum RollbackEntry {
    /// A file was moved aside.
    MovedAside(usize, RelPath),
    /// A file, this one, was put where none was.
    Placed(usize, RelPath, Option<TreeLeaf>),
    /// A file, this one, changed places with the one that was there.
    Swapped(usize, RelPath, Option<TreeLeaf>),
    /// A directory was made.
    MadeDir(RelPath),
    /// An empty directory with these permission bits was removed.
    RemovedDir(RelPath, u32),
}

/// Steps whose temporary name could not be cleared: it holds our own file, or guarded bytes.
pub(super) type UnclearedSteps = BTreeSet<usize>;

/// A group being worked on. Temporary names lie in the directory that holds the whole group.
pub(super) struct StepTransaction<'s> {
    pub(super) worktree: &'s Worktree,
    pub(super) repository: &'s ObjectRepository,
    id: &'s str,
    pub(super) merges: &'s MergedBlobs<'s>,
    /// Paths that become files of their own, sorted.
    separated: &'s [RelPath],
    anchor: WorktreeDir,
    done: Vec<RollbackEntry>,
    pub(super) in_place: Vec<RelPath>,
    pub(super) uncleared: UnclearedSteps,
    /// True if the disk refused the roll-back: then it must be finished later.
    pub(super) is_stuck: bool,
}

type StepSlice<'p> = [(usize, &'p RestoreStep)];

impl<'s> StepTransaction<'s> {
    /// Opens the directory that holds the group, made if it is missing.
    pub(super) fn open(
        store: &'s SnapshotStore,
        id: &'s str,
        root: &RelPath,
        (merges, separated): (&'s MergedBlobs<'s>, &'s [RelPath]),
    ) -> Result<Self, ConflictReason> {
        let SnapshotStore { worktree, repository, .. } = store;
        let above = worktree.open_dir(None).map_err(|_| ConflictReason::Refused)?;
        let (done, in_place, left) = (Vec::new(), Vec::new(), UnclearedSteps::new());
        let is_stuck = false;
        let mut operation = Self {
            worktree,
            repository,
            id,
            merges,
            separated,
            anchor: above,
            done,
            in_place,
            uncleared: left,
            is_stuck,
        };
        if let Some(folder) = root.parent() {
            operation.make_dirs(&folder)?;
            let dir = worktree.open_dir(Some(&folder));
            operation.anchor = dir.map_err(|_| ConflictReason::InTheWay)?;
        }
        Ok(operation)
    }

    /// Does the steps, or undoes those that were done.
    pub(super) fn run(&mut self, steps: &StepSlice<'_>) -> Result<(), ConflictReason> {
        let mut recovered = Ok(());
        for (index, step) in steps {
            let cleared = self.recover_step(*index, step);
            self.is_stuck |= cleared == Err(ConflictReason::Refused);
            recovered = recovered.and(cleared);
        }
        let result = recovered
            .and_then(|()| self.check_steps(steps))
            .and_then(|todo| self.execute_steps(&todo, steps));
        match result {
            Ok(()) => {
                self.unlink_displaced();
                Ok(())
            }
            Err(why) => {
                self.roll_back();
                steps.iter().for_each(|(index, step)| self.record_uncleared(*index, step));
                Err(why)
            }
        }
    }

    /// Remembers a temporary name that is still there, if it holds our file or what is in the store.
    fn record_uncleared(&mut self, index: usize, step: &RestoreStep) {
        let name = self.temp_name_of(index);
        self.is_stuck |= !matches!(self.anchor.stat(&spare_name(&name)), Ok(None));
        let is_kept = |leaf: TreeLeaf| self.repository.existence_check()(&leaf.blob);
        let temp = NameInDir { dir: &self.anchor, name: &name };
        if read_leaf(temp.dir, temp.name).is_some_and(is_kept) || self.is_own_temp_file(temp, step)
        {
            self.uncleared.insert(index);
        }
    }

    /// Checks every path before the first write; returns the steps that are not done yet.
    fn check_steps<'p>(
        &self,
        steps: &StepSlice<'p>,
    ) -> Result<Vec<(usize, &'p RestoreStep)>, ConflictReason> {
        let all: BTreeSet<&RelPath> = steps.iter().map(|(_, step)| &step.path).collect();
        let goes =
            |step: &RestoreStep| step.target == PathImage::Absent || step.expected.is_directory();
        let removed: BTreeSet<&RelPath> =
            steps.iter().filter(|(_, step)| goes(step)).map(|(_, step)| &step.path).collect();
        let mut todo = Vec::new();
        for (index, step) in steps {
            let mut disk = read_current_content(self.worktree, &step.path).image;
            if !disk.is_covered() {
                // The link above it belongs to the group: it is to go, or came in its place.
                if !step.path.ancestors().any(|it| all.contains(&it)) {
                    return Err(ConflictReason::Refused);
                }
                disk = PathImage::Absent;
            }
            if is_step_done(step, disk) {
                continue;
            }
            if disk.leaf() != step.expected.leaf() && !self.is_torn_write(step) {
                return Err(ConflictReason::Changed);
            }
            if step.target.leaf().is_some() {
                self.check_obstructing_folder(&step.path, &removed)?;
            }
            todo.push((*index, *step));
        }
        Ok(todo)
    }

    /// A directory where a file must go may hold nothing but what this group removes.
    fn check_obstructing_folder(
        &self,
        path: &RelPath,
        removed: &BTreeSet<&RelPath>,
    ) -> Result<(), ConflictReason> {
        let worktree = self.worktree;
        let is_dir = |path: &RelPath| matches!(worktree.stat(path), Ok(Some(stat)) if stat.kind == FileKind::Directory);
        if !is_dir(path) {
            return Ok(());
        }
        let leads = removed.iter().any(|gone| *gone == path || path.is_ancestor_of(gone));
        let names = worktree.open_dir(Some(path)).and_then(|dir| dir.list());
        let names = names.map_err(|_| ConflictReason::InTheWay)?;
        if !leads {
            return Err(ConflictReason::InTheWay);
        }
        for entry in names {
            let child = path.join(&entry.name).map_err(|_| ConflictReason::InTheWay)?;
            match is_dir(&child) {
                true => self.check_obstructing_folder(&child, removed)?,
                false if removed.contains(&child) => {}
                false => return Err(ConflictReason::InTheWay),
            }
        }
        Ok(())
    }

    fn execute_steps(
        &mut self,
        todo: &StepSlice<'_>,
        all: &StepSlice<'_>,
    ) -> Result<(), ConflictReason> {
        let is_removal =
            |step: &RestoreStep| step.target.leaf().is_none() && step.expected.leaf().is_some();
        let mut removals: Vec<_> = todo.iter().filter(|(_, step)| is_removal(step)).collect();
        removals.sort_by_key(|(_, step)| std::cmp::Reverse(step.path.parts().count()));
        for (index, step) in removals {
            self.move_aside(*index, step)?;
            self.done.push(RollbackEntry::MovedAside(*index, step.path.clone()));
        }
        let made = todo.iter().filter_map(|(_, step)| match step.target {
            PathImage::Directory { perm } => Some((&step.path, perm)),
            PathImage::Present { .. } | PathImage::Absent | PathImage::Uncovered { .. } => None,
        });
        let made: Vec<(&RelPath, u32)> = made.collect();
        for (path, perm) in &made {
            self.make_dirs(path)?;
            self.set_dir_bits(path, perm | 0o700)?;
        }
        for (index, step) in todo.iter().filter(|(_, step)| step.target.leaf().is_some()) {
            self.remove_obstructing_folders(&step.path, all)?;
            if step.expected.leaf().is_none() {
                if let Some(folder) = step.path.parent() {
                    self.make_dirs(&folder)?;
                }
                self.create_file(*index, step)?;
                self.done.push(RollbackEntry::Placed(
                    *index,
                    step.path.clone(),
                    step.target.leaf(),
                ));
            } else if self.replace_file(*index, step)? {
                self.done.push(RollbackEntry::Swapped(
                    *index,
                    step.path.clone(),
                    step.target.leaf(),
                ));
            }
        }
        for (path, perm) in made.iter().rev() {
            self.set_dir_bits(path, *perm)?;
        }
        Ok(())
    }

    fn set_dir_bits(&self, folder: &RelPath, perm: u32) -> Result<(), ConflictReason> {
        let parent = self.parent(folder)?;
        let set = NameInDir { dir: &parent, name: folder.name() }.set_dir_perm(perm);
        set.map_err(|error| ConflictReason::from_io_error(&error))
    }

    /// Removes the directories, empty by now, that stand where a file must go.
    fn remove_obstructing_folders(
        &mut self,
        path: &RelPath,
        all: &StepSlice<'_>,
    ) -> Result<(), ConflictReason> {
        let removed = all.iter().filter(|(_, step)| step.target == PathImage::Absent);
        let moved = removed.map(|(_, step)| &step.path).filter(|gone| path.is_ancestor_of(gone));
        let recorded = all.iter().filter(|(_, step)| step.expected.is_directory());
        let mut folders: BTreeSet<RelPath> = moved.flat_map(RelPath::ancestors).collect();
        folders.extend(recorded.map(|(_, step)| step.path.clone()));
        folders.retain(|folder| folder == path || path.is_ancestor_of(folder));
        for folder in folders.iter().rev() {
            let place = match self.worktree.open_parent(folder) {
                Err(error) if is_name_conflict(&error) => continue,
                opened => opened.map_err(|_| ConflictReason::Refused)?,
            };
            let place = NameInDir { dir: &place, name: folder.name() };
            let perm = match place.dir.stat(place.name) {
                Ok(Some(stat)) if stat.kind == FileKind::Directory => stat.perm,
                Ok(_) | Err(_) => continue,
            };
            if !matches!(place.remove_empty_dir(), Ok(true)) {
                return Err(ConflictReason::InTheWay);
            }
            self.done.push(RollbackEntry::RemovedDir(folder.clone(), perm));
        }
        Ok(())
    }

    pub(super) fn make_dirs(&mut self, folder: &RelPath) -> Result<(), ConflictReason> {
        let mut all: Vec<RelPath> = folder.ancestors().collect();
        all.reverse();
        all.push(folder.clone());
        for folder in all {
            let parent = self.parent(&folder)?;
            let made = NameInDir { dir: &parent, name: folder.name() }.create_dir();
            if made.map_err(|error| ConflictReason::from_io_error(&error))? {
                self.done.push(RollbackEntry::MadeDir(folder));
            }
        }
        Ok(())
    }

    pub(super) fn parent(&self, path: &RelPath) -> Result<WorktreeDir, ConflictReason> {
        self.worktree.open_parent(path).map_err(|_| ConflictReason::InTheWay)
    }

    /// The temporary name of a step.
    pub(super) fn temp_name_of(&self, index: usize) -> Vec<u8> {
        temp_name(self.id, index)
    }

    /// True if a path is one of several names of a file and must not change the others.
    pub(super) fn is_separated(&self, path: &RelPath) -> bool {
        self.separated.binary_search(path).is_ok()
    }

    pub(super) fn anchor(&self) -> &WorktreeDir {
        &self.anchor
    }

    /// Unlinks what made way: its bytes were judged and are in the guard.
    fn unlink_displaced(&mut self) {
        for done in std::mem::take(&mut self.done) {
            if let RollbackEntry::MovedAside(index, _) | RollbackEntry::Swapped(index, ..) = done {
                let name = self.temp_name_of(index);
                let gone = NameInDir { dir: &self.anchor, name: &name }.unlink();
                // What cannot be removed now is swept later.
                if gone.is_err() {
                    self.uncleared.insert(index);
                }
            }
        }
    }

    /// Undoes what was done, newest first.
    fn roll_back(&mut self) {
        for done in std::mem::take(&mut self.done).into_iter().rev() {
            // Where another program's files are by now, there is nothing to roll back.
            let taken = self.roll_back_entry(&done);
            self.is_stuck |= taken.is_err_and(|error| !is_name_conflict(&error));
        }
    }

    fn roll_back_entry(&mut self, done: &RollbackEntry) -> io::Result<()> {
        let path = match done {
            RollbackEntry::MovedAside(_, path) | RollbackEntry::Placed(_, path, _) => path,
            RollbackEntry::Swapped(_, path, _)
            | RollbackEntry::MadeDir(path)
            | RollbackEntry::RemovedDir(path, _) => path,
        };
        if let (RollbackEntry::MovedAside(..), Some(folder)) = (done, path.parent()) {
            self.make_dirs(&folder).map_err(|why| match why == ConflictReason::InTheWay {
                true => io::ErrorKind::NotADirectory.into(),
                false => io::Error::other("refused"),
            })?;
        }
        let parent = self.worktree.open_parent(path)?;
        let place = NameInDir { dir: &parent, name: path.name() };
        match done {
            RollbackEntry::MovedAside(index, _) => {
                let name = self.temp_name_of(*index);
                move_back(NameInDir { dir: &self.anchor, name: &name }, place)
            }
            RollbackEntry::Placed(index, _, ours) => {
                let name = self.temp_name_of(*index);
                let temp = NameInDir { dir: &self.anchor, name: &name };
                place.rename_no_replace(temp)?;
                // Our file is removed; a file that replaced it since stays.
                match read_leaf(temp.dir, temp.name) == *ours {
                    true => temp.unlink(),
                    false => move_back(temp, place),
                }
            }
            RollbackEntry::Swapped(index, _, ours) => {
                let name = self.temp_name_of(*index);
                undo_exchange(NameInDir { dir: &self.anchor, name: &name }, place, *ours)
            }
            RollbackEntry::MadeDir(_) => place.remove_empty_dir().map(|_| ()),
            RollbackEntry::RemovedDir(_, perm) => {
                place.create_dir().and_then(|_| place.set_dir_perm(*perm))
            }
        }
    }
}

/// True if a path holds what a step wants already, as after a crash.
fn is_step_done(step: &RestoreStep, disk: PathImage) -> bool {
    match (disk, step.target) {
        // Bits alone count only where nothing else is to change: ours came with its file.
        (PathImage::Present { leaf, perm }, PathImage::Present { leaf: wanted, perm: bits }) => {
            let is_bits = step.expected.leaf() == Some(wanted);
            leaf == wanted && (perm == bits || !is_bits)
        }
        (PathImage::Directory { perm }, PathImage::Directory { perm: bits }) => perm == bits,
        (PathImage::Absent, PathImage::Absent) => true,
        // A directory in the place of a file that was to go: the file is gone.
        (PathImage::Directory { .. }, PathImage::Absent) => step.expected.leaf().is_some(),
        _ => false,
    }
}
