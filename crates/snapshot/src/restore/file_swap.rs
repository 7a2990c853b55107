//! One path: swap, then judge (R15).
//!
//! Nothing is overwritten. The new file is written next to its place and exchanged with the present
//! one; only then is the displaced one compared with the plan, and exchanged back if it differs.

use std::io::{self, Seek, SeekFrom, Write};

use fail::fail_point;

use super::apply::read_target_bytes;
use super::name_exchange::{exchange_names, is_name_conflict, move_back, read_leaf, undo_exchange};
use super::plan::RestoreStep;
use super::report::ConflictReason;
use super::step_transaction::StepTransaction;
use crate::object_store::{FileMode, TreeLeaf};
use crate::path_image::PathImage;
use crate::worktree::{NameInDir, before_write, copy_metadata, set_perm};

impl StepTransaction<'_> {
    /// Moves a file aside if it holds what the plan expects.
    pub(super) fn move_aside(
        &mut self,
        index: usize,
        step: &RestoreStep,
    ) -> Result<(), ConflictReason> {
        let dir = self.parent(&step.path)?;
        let name = self.temp_name_of(index);
        let place = NameInDir { dir: &dir, name: step.path.name() };
        let temp = NameInDir { dir: self.anchor(), name: &name };
        fail_point!("snapshot::before_swap");
        place.rename_no_replace(temp).map_err(|error| match is_name_conflict(&error) {
            true => ConflictReason::Changed,
            false => ConflictReason::from_io_error(&error),
        })?;
        fail_point!("snapshot::swapped");
        if read_leaf(temp.dir, temp.name) == step.expected.leaf() {
            return Ok(());
        }
        // Another program saved in between: its file is put back, unless there is a newer save already.
        self.is_stuck |= move_back(temp, place).is_err_and(|error| !is_name_conflict(&error));
        Err(ConflictReason::Changed)
    }

    /// Creates a file where there is none.
    pub(super) fn create_file(
        &mut self,
        index: usize,
        step: &RestoreStep,
    ) -> Result<(), ConflictReason> {
        let dir = self.parent(&step.path)?;
        let name = self.temp_name_of(index);
        let temp = NameInDir { dir: self.anchor(), name: &name };
        self.write_temp_file(temp, step, None)?;
        fail_point!("snapshot::before_swap");
        let placed = temp.rename_no_replace(NameInDir { dir: &dir, name: step.path.name() });
        fail_point!("snapshot::swapped");
        placed.map_err(|error| {
            temp.unlink().ok();
            ConflictReason::from_io_error_or(&error, ConflictReason::InTheWay)
        })
    }

    /// Replaces a file; false if it was written in place and nothing was displaced.
    pub(super) fn replace_file(
        &mut self,
        index: usize,
        step: &RestoreStep,
    ) -> Result<bool, ConflictReason> {
        let dir = self.parent(&step.path)?;
        let place = NameInDir { dir: &dir, name: step.path.name() };
        let name = self.temp_name_of(index);
        let (old, new) = (step.expected.leaf(), step.target.leaf());
        let is_file = |leaf: Option<TreeLeaf>| leaf.is_some_and(|leaf| leaf.mode != FileMode::Link);
        let mut present = None;
        if is_file(old) && is_file(new) {
            let (file, stat) = dir.open_file(place.name).map_err(|_| ConflictReason::Changed)?;
            let is_separated = stat.nlink > 1 && self.is_separated(&step.path);
            if old.map(|leaf| leaf.blob) == new.map(|leaf| leaf.blob) && !is_separated {
                let set =
                    set_perm(&file, permission_bits_of(step.target)).and_then(|()| file.sync_all());
                return set.map(|()| false).map_err(|error| ConflictReason::from_io_error(&error));
            }
            if stat.nlink > 1 && !is_separated {
                return self.overwrite_in_place(place, step).map(|()| false);
            }
            present = Some(file);
        }
        let temp = NameInDir { dir: self.anchor(), name: &name };
        match self.write_temp_file(temp, step, present.as_ref()) {
            // Owner or attributes cannot be given to a new file, so the old one must stay.
            Err(ConflictReason::NotMergeable) if !self.is_separated(&step.path) => {
                return self.overwrite_in_place(place, step).map(|()| false);
            }
            done => done?,
        }
        fail_point!("snapshot::before_swap");
        exchange_names(temp, place).map_err(|error| {
            temp.unlink().ok();
            ConflictReason::from_io_error_or(&error, ConflictReason::Changed)
        })?;
        fail_point!("snapshot::swapped");
        if read_leaf(temp.dir, temp.name) == old {
            return Ok(true);
        }
        // Another program saved in between: its file is put back, unless ours was overwritten by now.
        self.is_stuck |=
            undo_exchange(temp, place, new).is_err_and(|error| !is_name_conflict(&error));
        Err(ConflictReason::Changed)
    }

    /// Writes the new file next to its place, durably; owner and attributes are copied from `present`.
    fn write_temp_file(
        &self,
        temp: NameInDir<'_>,
        step: &RestoreStep,
        present: Option<&std::fs::File>,
    ) -> Result<(), ConflictReason> {
        let bytes = read_target_bytes(self.repository, step, self.merges)
            .map_err(|_| ConflictReason::Refused)?;
        if step.target.leaf().is_some_and(|leaf| leaf.mode == FileMode::Link) {
            return temp.create_link(&bytes).map_err(|_| ConflictReason::Refused);
        }
        let made = temp.create_file().and_then(|mut file| {
            before_write()?;
            file.write_all(&bytes)?;
            Ok(file)
        });
        let done = made.map_err(|error| ConflictReason::from_io_error(&error)).and_then(|file| {
            let copied = present.map_or(Ok(()), |present| copy_metadata(present, &file));
            copied.map_err(|_| ConflictReason::NotMergeable)?;
            set_perm(&file, permission_bits_of(step.target))
                .map_err(|_| ConflictReason::Refused)?;
            before_write()
                .and_then(|()| file.sync_all())
                .map_err(|error| ConflictReason::from_io_error(&error))
        });
        if done.is_err() {
            temp.unlink().ok();
        }
        done
    }

    /// Writes into the present file, whose bytes are in the guard.
    fn overwrite_in_place(
        &mut self,
        place: NameInDir<'_>,
        step: &RestoreStep,
    ) -> Result<(), ConflictReason> {
        let bytes = read_target_bytes(self.repository, step, self.merges)
            .map_err(|_| ConflictReason::Refused)?;
        let present = read_leaf(place.dir, place.name);
        if present != step.expected.leaf() && !self.is_torn_write(step) {
            return Err(ConflictReason::Changed);
        }
        let (mut file, _) =
            place.open_to_write().map_err(|error| ConflictReason::from_io_error(&error))?;
        let write = |file: &mut std::fs::File, bytes: &[u8], perm: u32| -> io::Result<()> {
            file.seek(SeekFrom::Start(0))?;
            before_write()?;
            file.write_all(bytes)?;
            before_write()?;
            file.set_len(bytes.len() as u64)?;
            set_perm(file, perm)?;
            before_write()?;
            file.sync_all()
        };
        if write(&mut file, &bytes, permission_bits_of(step.target)).is_err() {
            // Half of it may be written: the file gets its bytes back, which are in the guard.
            let kept = step.expected.leaf().ok_or(ConflictReason::Refused)?;
            let kept = self.repository.read_verified(&kept.blob, gix::objs::Kind::Blob);
            write(
                &mut file,
                &kept.map_err(|_| ConflictReason::Refused)?,
                permission_bits_of(step.expected),
            )
            .ok();
            return Err(ConflictReason::Refused);
        }
        self.in_place.push(step.path.clone());
        Ok(())
    }
}

fn permission_bits_of(state: PathImage) -> u32 {
    match state {
        PathImage::Present { perm, .. } => perm,
        PathImage::Directory { .. } | PathImage::Absent | PathImage::Uncovered { .. } => 0o600,
    }
}
