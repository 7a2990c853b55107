//! A group of steps that is done whole or not at all: removals, directories, writes, or all undone.

use std::collections::BTreeSet;
use std::io;

use super::apply::Merges;
use super::plan::{State, Step, leaf_of};
use super::report::Why;
use super::swap::{is_directory, is_obstacle, leaf_at, put_back, spare_name, swap_back};
use crate::hash::{Look, look};
use crate::object::Leaf;
use crate::path::{RelPath, temp_name};
use crate::shadow::Shadow;
use crate::worktree::{Dir, Kind, Name};

/// What was done and how to take it back.
enum Done {
    /// A file was moved aside.
    Moved(usize, RelPath),
    /// A file, this one, was put where none was.
    Placed(usize, RelPath, Option<Leaf>),
    /// A file, this one, changed places with the one that was there.
    Swapped(usize, RelPath, Option<Leaf>),
    /// A directory was made.
    MadeDir(RelPath),
}

/// Steps whose temporary name could not be cleared: it holds our own file, or guarded bytes.
pub(super) type Left = BTreeSet<usize>;

/// A group being worked on. Temporary names lie in the directory that holds the whole group.
pub(super) struct Operation<'s> {
    pub(super) shadow: &'s Shadow,
    id: &'s str,
    pub(super) merges: &'s Merges<'s>,
    anchor: Dir,
    done: Vec<Done>,
    pub(super) in_place: Vec<RelPath>,
    pub(super) left: Left,
    /// True if the disk refused to take back what was done: then it must be finished later.
    pub(super) is_stuck: bool,
}

type Steps<'p> = [(usize, &'p Step)];

impl<'s> Operation<'s> {
    /// Opens the directory that holds the group, made if it is missing.
    pub(super) fn open(
        shadow: &'s Shadow,
        id: &'s str,
        root: &RelPath,
        merges: &'s Merges<'s>,
    ) -> Result<Self, Why> {
        let above = shadow.worktree.open_dir(None).map_err(|_| Why::Refused)?;
        let (done, in_place, left) = (Vec::new(), Vec::new(), Left::new());
        let is_stuck = false;
        let mut operation =
            Self { shadow, id, merges, anchor: above, done, in_place, left, is_stuck };
        if let Some(folder) = root.parent() {
            operation.make_dirs(&folder)?;
            let dir = shadow.worktree.open_dir(Some(&folder));
            operation.anchor = dir.map_err(|_| Why::InTheWay)?;
        }
        Ok(operation)
    }

    /// Does the steps, or takes back those that were done.
    pub(super) fn run(&mut self, steps: &Steps<'_>) -> Result<(), Why> {
        let mut recovered = Ok(());
        for (index, step) in steps {
            let cleared = self.recover(*index, step);
            self.is_stuck |= cleared == Err(Why::Refused);
            recovered = recovered.and(cleared);
        }
        let result =
            recovered.and_then(|()| self.check(steps)).and_then(|todo| self.act(&todo, steps));
        match result {
            Ok(()) => {
                self.drop_displaced();
                Ok(())
            }
            Err(why) => {
                self.take_back();
                steps.iter().for_each(|(index, step)| self.look_for_left(*index, step));
                Err(why)
            }
        }
    }

    /// Remembers a temporary name that is still there, if it holds our file or what is in the store.
    fn look_for_left(&mut self, index: usize, step: &Step) {
        let name = self.temp(index);
        self.is_stuck |= !matches!(self.anchor.stat(&spare_name(&name)), Ok(None));
        let is_kept = |leaf: Leaf| self.shadow.repository.known()(&leaf.blob);
        let temp = Name { dir: &self.anchor, name: &name };
        if leaf_at(temp.dir, temp.name).is_some_and(is_kept) || self.is_unfinished(temp, step) {
            self.left.insert(index);
        }
    }

    /// Looks at every path before anything is done; returns the steps that are not done yet.
    fn check<'p>(&self, steps: &Steps<'p>) -> Result<Vec<(usize, &'p Step)>, Why> {
        let all: BTreeSet<&RelPath> = steps.iter().map(|(_, step)| &step.path).collect();
        let removed: BTreeSet<&RelPath> = steps
            .iter()
            .filter(|(_, step)| step.target == State::Absent)
            .map(|(_, step)| &step.path)
            .collect();
        let mut todo = Vec::new();
        for (index, step) in steps {
            let disk = match look(&self.shadow.worktree, &step.path) {
                Look::Present(stat, leaf, _) => Some((leaf, stat.perm)),
                Look::Absent => None,
                // The link above it belongs to the group: it is to go, or came in its place.
                Look::Uncovered(_) if step.path.ancestors().any(|it| all.contains(&it)) => None,
                Look::Uncovered(_) => return Err(Why::Refused),
            };
            let is_done = match (disk, step.target) {
                // Bits alone count only where nothing else is to change: ours came with its file.
                (Some((leaf, perm)), State::Present { leaf: wanted, perm: bits }) => {
                    let is_bits = leaf_of(step.expected) == Some(wanted);
                    leaf == wanted && (bits == 0 || perm == bits || !is_bits)
                }
                (None, State::Absent) => true,
                _ => false,
            };
            if is_done {
                continue;
            }
            if disk.map(|(leaf, _)| leaf) != leaf_of(step.expected) && !self.is_half_written(step) {
                return Err(Why::Changed);
            }
            if step.target != State::Absent {
                self.check_way(&step.path, &removed)?;
            }
            todo.push((*index, *step));
        }
        Ok(todo)
    }

    /// A directory where a file must go may hold nothing but what this group removes.
    fn check_way(&self, path: &RelPath, removed: &BTreeSet<&RelPath>) -> Result<(), Why> {
        let worktree = &self.shadow.worktree;
        let is_dir = |path: &RelPath| matches!(worktree.stat(path), Ok(Some(stat)) if stat.kind == Kind::Directory);
        if !is_dir(path) {
            return Ok(());
        }
        let leads = removed.iter().any(|gone| path.is_above(gone));
        let names = worktree.open_dir(Some(path)).and_then(|dir| dir.list());
        let names = names.map_err(|_| Why::InTheWay)?;
        if !leads {
            return Err(Why::InTheWay);
        }
        for entry in names {
            let child = path.join(&entry.name).map_err(|_| Why::InTheWay)?;
            match is_dir(&child) {
                true => self.check_way(&child, removed)?,
                false if removed.contains(&child) => {}
                false => return Err(Why::InTheWay),
            }
        }
        Ok(())
    }

    fn act(&mut self, todo: &Steps<'_>, all: &Steps<'_>) -> Result<(), Why> {
        let is_removal = |step: &Step| step.target == State::Absent;
        let mut removals: Vec<_> = todo.iter().filter(|(_, step)| is_removal(step)).collect();
        removals.sort_by_key(|(_, step)| std::cmp::Reverse(step.path.parts().count()));
        for (index, step) in removals {
            self.remove(*index, step)?;
            self.done.push(Done::Moved(*index, step.path.clone()));
        }
        for (index, step) in todo.iter().filter(|(_, step)| !is_removal(step)) {
            self.clear_way(&step.path, all)?;
            if step.expected == State::Absent {
                if let Some(folder) = step.path.parent() {
                    self.make_dirs(&folder)?;
                }
                self.place(*index, step)?;
                self.done.push(Done::Placed(*index, step.path.clone(), leaf_of(step.target)));
            } else if self.replace(*index, step)? {
                self.done.push(Done::Swapped(*index, step.path.clone(), leaf_of(step.target)));
            }
        }
        Ok(())
    }

    /// Removes the directories, empty by now, that stand where a file must go.
    fn clear_way(&self, path: &RelPath, all: &Steps<'_>) -> Result<(), Why> {
        let removed = all.iter().filter(|(_, step)| step.target == State::Absent);
        let moved = removed.map(|(_, step)| &step.path).filter(|gone| path.is_above(gone));
        let mut folders: BTreeSet<RelPath> = moved.flat_map(RelPath::ancestors).collect();
        folders.retain(|folder| folder == path || path.is_above(folder));
        for folder in folders.iter().rev() {
            let place = match self.shadow.worktree.open_parent(folder) {
                Err(error) if is_obstacle(&error) => continue,
                opened => opened.map_err(|_| Why::Refused)?,
            };
            let place = Name { dir: &place, name: folder.name() };
            if is_directory(place) && !matches!(place.remove_empty_dir(), Ok(true)) {
                return Err(Why::InTheWay);
            }
        }
        Ok(())
    }

    pub(super) fn make_dirs(&mut self, folder: &RelPath) -> Result<(), Why> {
        let mut all: Vec<RelPath> = folder.ancestors().collect();
        all.reverse();
        all.push(folder.clone());
        for folder in all {
            let parent = self.parent(&folder)?;
            let made = Name { dir: &parent, name: folder.name() }.create_dir();
            if made.map_err(|_| Why::Refused)? {
                self.done.push(Done::MadeDir(folder));
            }
        }
        Ok(())
    }

    pub(super) fn parent(&self, path: &RelPath) -> Result<Dir, Why> {
        self.shadow.worktree.open_parent(path).map_err(|_| Why::InTheWay)
    }

    /// The temporary name of a step.
    pub(super) fn temp(&self, index: usize) -> Vec<u8> {
        temp_name(self.id, index)
    }

    pub(super) fn anchor(&self) -> &Dir {
        &self.anchor
    }

    /// Unlinks what made way: its bytes were judged and are in the guard.
    fn drop_displaced(&mut self) {
        for done in std::mem::take(&mut self.done) {
            if let Done::Moved(index, _) | Done::Swapped(index, ..) = done {
                let name = self.temp(index);
                let gone = Name { dir: &self.anchor, name: &name }.unlink();
                // What cannot be removed now is swept later.
                if gone.is_err() {
                    self.left.insert(index);
                }
            }
        }
    }

    /// Takes back what was done, newest first.
    fn take_back(&mut self) {
        for done in std::mem::take(&mut self.done).into_iter().rev() {
            // Where somebody else's files stand by now there is nothing to take back.
            let taken = self.take_one_back(&done);
            self.is_stuck |= taken.is_err_and(|error| !is_obstacle(&error));
        }
    }

    fn take_one_back(&mut self, done: &Done) -> io::Result<()> {
        let path = match done {
            Done::Moved(_, path) | Done::Placed(_, path, _) => path,
            Done::Swapped(_, path, _) | Done::MadeDir(path) => path,
        };
        if let (Done::Moved(..), Some(folder)) = (done, path.parent()) {
            self.make_dirs(&folder).map_err(|why| match why {
                Why::InTheWay => io::ErrorKind::NotADirectory.into(),
                Why::Refused | Why::Changed | Why::Overlap | Why::NotMergeable => {
                    io::Error::other("refused")
                }
            })?;
        }
        let parent = self.shadow.worktree.open_parent(path)?;
        let place = Name { dir: &parent, name: path.name() };
        match done {
            Done::Moved(index, _) => {
                let name = self.temp(*index);
                put_back(Name { dir: &self.anchor, name: &name }, place)
            }
            Done::Placed(index, _, ours) => {
                let name = self.temp(*index);
                let temp = Name { dir: &self.anchor, name: &name };
                place.rename_new(temp)?;
                // Ours goes; what was saved over it since stays.
                match leaf_at(temp.dir, temp.name) == *ours {
                    true => temp.unlink(),
                    false => put_back(temp, place),
                }
            }
            Done::Swapped(index, _, ours) => {
                let name = self.temp(*index);
                swap_back(Name { dir: &self.anchor, name: &name }, place, *ours)
            }
            Done::MadeDir(_) => place.remove_empty_dir().map(|_| ()),
        }
    }
}
