//! One path: swap, then judge (R15).
//!
//! Nothing is overwritten. The new file is made beside its place, changes places with the present
//! one, and only then is the displaced one judged: if it is not what the plan saw, they change back.

use std::io::{self, Seek, SeekFrom, Write};

use fail::fail_point;

use super::group::Operation;
use super::plan::{State, Step, leaf_of};
use super::report::Why;
use crate::cache::mode_of;
use crate::hash::attempt_in;
use crate::object::{Leaf, LeafMode, Oid};
use crate::worktree::{Dir, Kind, Name, copy_metadata, set_perm};

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
        if temp.rename_new(place).is_err() {
            temp.unlink().ok();
        }
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
                set_perm(&file, perm_of(step)).map_err(|_| Why::Refused)?;
                return Ok(false);
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
        let ours = |name: Name<'_>| leaf_at(name.dir, name.name) == new;
        if swap(temp, place).is_ok() && !ours(temp) {
            swap(temp, place).ok();
        }
        temp.unlink().ok();
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
            file.write_all(&bytes)?;
            Ok(file)
        });
        let done = made.map_err(|_| Why::Refused).and_then(|file| {
            let copied = present.map_or(Ok(()), |present| copy_metadata(present, &file));
            copied.map_err(|_| Why::NotMergeable)?;
            set_perm(&file, perm_of(step)).map_err(|_| Why::Refused)?;
            file.sync_all().map_err(|_| Why::Refused)
        });
        if done.is_err() {
            temp.unlink().ok();
        }
        done
    }

    /// Writes into the present file, whose bytes are in the guard.
    fn overwrite(&mut self, place: Name<'_>, step: &Step) -> Result<(), Why> {
        let bytes = self.shadow.target_bytes(step, self.merges).map_err(|_| Why::Refused)?;
        if leaf_at(place.dir, place.name) != leaf_of(step.expected) {
            return Err(Why::Changed);
        }
        let (mut file, _) = place.open_to_write().map_err(|_| Why::Refused)?;
        let write = |file: &mut std::fs::File| -> io::Result<()> {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&bytes)?;
            file.set_len(bytes.len() as u64)?;
            set_perm(file, perm_of(step))?;
            file.sync_all()
        };
        write(&mut file).map_err(|_| Why::Refused)?;
        self.in_place.push(step.path.clone());
        Ok(())
    }

    /// Clears the temporary name that a killed apply may have left.
    ///
    /// It holds our unfinished file, the guarded one that made way, or somebody's save.
    pub(super) fn recover(&mut self, index: usize, step: &Step) -> Result<(), Why> {
        let name = self.temp(index);
        let Ok(Some(_)) = self.anchor().stat(&name) else {
            return Ok(());
        };
        let (old, new) = (leaf_of(step.expected), leaf_of(step.target));
        let found = leaf_at(self.anchor(), &name);
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let mut opened = self.shadow.worktree.open_parent(&step.path);
        if opened.as_ref().is_err_and(is_missing)
            && let Some(folder) = step.path.parent()
        {
            self.make_dirs(&folder)?;
            opened = self.shadow.worktree.open_parent(&step.path);
        }
        let temp = Name { dir: self.anchor(), name: &name };
        let Ok(dir) = opened else {
            // The file that took the place of its directory stands: this one had made way for it.
            let made_way = new.is_none() && found == old;
            let gone = made_way.then(|| temp.unlink().ok()).flatten();
            return gone.ok_or(Why::InTheWay);
        };
        let place = Name { dir: &dir, name: step.path.name() };
        let present = leaf_at(place.dir, place.name);
        let is_ours = present == old && (old.is_some() || found == new || new.is_some());
        if is_ours || (found == old && present == new && present.is_some()) {
            return temp.unlink().map_err(|_| Why::Refused);
        }
        let back = match present {
            None => temp.rename_new(place),
            Some(_) if present == new => swap(temp, place).and_then(|()| temp.unlink()),
            // Both were saved: the newer one stays, the older one is kept beside it.
            Some(_) => return Err(Why::Changed),
        };
        back.map_err(|_| Why::Refused)?;
        if found == old { Ok(()) } else { Err(Why::Changed) }
    }
}

fn perm_of(step: &Step) -> u32 {
    match step.target {
        State::Present { perm, .. } if perm != 0 => perm,
        State::Present { .. } | State::Absent => 0o600,
    }
}

/// Lets two names change places, or does what comes nearest where that is not possible.
fn swap(temp: Name<'_>, place: Name<'_>) -> io::Result<()> {
    if temp.exchange(place)? {
        return Ok(());
    }
    // The present file keeps a name throughout; a save by rename in between would be lost.
    let spare = [temp.name, b"-old"].concat();
    let spare = Name { dir: temp.dir, name: &spare };
    place.link(spare)?;
    temp.replace(place)?;
    spare.replace(temp)
}

/// What a name holds right now.
fn leaf_at(dir: &Dir, name: &[u8]) -> Option<Leaf> {
    let mut data = Vec::new();
    let stat = attempt_in(dir, name, &mut data).ok()???;
    debug_assert_ne!(stat.kind, Kind::Directory);
    let blob = Oid::of(gix::objs::Kind::Blob, &data).ok()?;
    Some(Leaf { blob, mode: mode_of(&stat) })
}
