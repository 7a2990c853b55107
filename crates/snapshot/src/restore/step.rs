//! One path: swap, then judge (R15).
//!
//! Nothing is overwritten. The new file is made beside its place, changes places with the present
//! one, and only then is the displaced one judged: if it is not what the plan saw, they change back.

use std::io::{self, Seek, SeekFrom, Write};

use fail::fail_point;

use super::group::Operation;
use super::plan::{State, Step, leaf_of};
use super::report::Why;
use super::swap::{is_obstacle, leaf_at, put_back, swap, swap_back};
use crate::object::{Leaf, LeafMode};
use crate::worktree::{Name, copy_metadata, set_perm, touch};

impl Operation<'_> {
    /// Moves a file aside, if it is what the plan saw.
    pub(super) fn remove(&mut self, index: usize, step: &Step) -> Result<(), Why> {
        let dir = self.parent(&step.path)?;
        let name = self.temp(index);
        let place = Name { dir: &dir, name: step.path.name() };
        let temp = Name { dir: self.anchor(), name: &name };
        fail_point!("snapshot::before_swap");
        place.rename_new(temp).map_err(|_| Why::Changed)?;
        fail_point!("snapshot::swapped");
        if leaf_at(temp.dir, temp.name) == leaf_of(step.expected) {
            return Ok(());
        }
        // Somebody saved in between: back it goes, unless there is a newer save already.
        self.is_stuck |= put_back(temp, place).is_err_and(|error| !is_obstacle(&error));
        Err(Why::Changed)
    }

    /// Puts a file where none is.
    pub(super) fn place(&mut self, index: usize, step: &Step) -> Result<(), Why> {
        let dir = self.parent(&step.path)?;
        let name = self.temp(index);
        let temp = Name { dir: self.anchor(), name: &name };
        self.write(temp, step, None)?;
        fail_point!("snapshot::before_swap");
        let placed = temp.rename_new(Name { dir: &dir, name: step.path.name() });
        fail_point!("snapshot::swapped");
        placed.map_err(|_| {
            temp.unlink().ok();
            Why::InTheWay
        })
    }

    /// Puts a file in the place of another; false if it was done in place and nothing was displaced.
    pub(super) fn replace(&mut self, index: usize, step: &Step) -> Result<bool, Why> {
        let dir = self.parent(&step.path)?;
        let place = Name { dir: &dir, name: step.path.name() };
        let name = self.temp(index);
        let (old, new) = (leaf_of(step.expected), leaf_of(step.target));
        let is_file = |leaf: Option<Leaf>| leaf.is_some_and(|leaf| leaf.mode != LeafMode::Link);
        let mut present = None;
        if is_file(old) && is_file(new) {
            let (file, stat) = dir.open_file(place.name).map_err(|_| Why::Changed)?;
            if old.map(|leaf| leaf.blob) == new.map(|leaf| leaf.blob) {
                let set = set_perm(&file, perm_of(step.target)).and_then(|()| file.sync_all());
                return set.map(|()| false).map_err(|_| Why::Refused);
            }
            if stat.nlink > 1 {
                return self.overwrite(place, step).map(|()| false);
            }
            present = Some(file);
        }
        let temp = Name { dir: self.anchor(), name: &name };
        match self.write(temp, step, present.as_ref()) {
            // Owner or attributes cannot be given to a new file, so the old one must stay.
            Err(Why::NotMergeable) => return self.overwrite(place, step).map(|()| false),
            done => done?,
        }
        fail_point!("snapshot::before_swap");
        swap(temp, place).map_err(|_| {
            temp.unlink().ok();
            Why::Changed
        })?;
        fail_point!("snapshot::swapped");
        if leaf_at(temp.dir, temp.name) == old {
            return Ok(true);
        }
        // Somebody saved in between: back it goes, unless our file was saved over by now.
        self.is_stuck |= swap_back(temp, place, new).is_err_and(|error| !is_obstacle(&error));
        Err(Why::Changed)
    }

    /// Writes the new file beside its place, durably; `present` lends owner and attributes.
    fn write(
        &self,
        temp: Name<'_>,
        step: &Step,
        present: Option<&std::fs::File>,
    ) -> Result<(), Why> {
        let bytes = self.shadow.target_bytes(step, self.merges).map_err(|_| Why::Refused)?;
        if leaf_of(step.target).is_some_and(|leaf| leaf.mode == LeafMode::Link) {
            return temp.create_link(&bytes).map_err(|_| Why::Refused);
        }
        let made = temp.create_file().and_then(|mut file| {
            touch()?;
            file.write_all(&bytes)?;
            Ok(file)
        });
        let done = made.map_err(|_| Why::Refused).and_then(|file| {
            let copied = present.map_or(Ok(()), |present| copy_metadata(present, &file));
            copied.map_err(|_| Why::NotMergeable)?;
            set_perm(&file, perm_of(step.target)).map_err(|_| Why::Refused)?;
            touch().and_then(|()| file.sync_all()).map_err(|_| Why::Refused)
        });
        if done.is_err() {
            temp.unlink().ok();
        }
        done
    }

    /// Writes into the present file, whose bytes are in the guard.
    fn overwrite(&mut self, place: Name<'_>, step: &Step) -> Result<(), Why> {
        let bytes = self.shadow.target_bytes(step, self.merges).map_err(|_| Why::Refused)?;
        let present = leaf_at(place.dir, place.name);
        if present != leaf_of(step.expected) && !self.is_half_written(step) {
            return Err(Why::Changed);
        }
        let (mut file, _) = place.open_to_write().map_err(|_| Why::Refused)?;
        let write = |file: &mut std::fs::File, bytes: &[u8], perm: u32| -> io::Result<()> {
            file.seek(SeekFrom::Start(0))?;
            touch()?;
            file.write_all(bytes)?;
            touch()?;
            file.set_len(bytes.len() as u64)?;
            set_perm(file, perm)?;
            touch()?;
            file.sync_all()
        };
        if write(&mut file, &bytes, perm_of(step.target)).is_err() {
            // Half of it may be written: the file gets its bytes back, which are in the guard.
            let kept = leaf_of(step.expected).ok_or(Why::Refused)?;
            let kept = self.shadow.repository.read_verified(&kept.blob, gix::objs::Kind::Blob);
            write(&mut file, &kept.map_err(|_| Why::Refused)?, perm_of(step.expected)).ok();
            return Err(Why::Refused);
        }
        self.in_place.push(step.path.clone());
        Ok(())
    }
}

fn perm_of(state: State) -> u32 {
    match state {
        State::Present { perm, .. } if perm != 0 => perm,
        State::Present { .. } | State::Absent => 0o600,
    }
}
