//! After a crash: what the temporary names hold, and where it belongs.

use std::io;

use super::apply::read_target_bytes;
use super::name_exchange::{
    exchange_names, is_directory, is_name_conflict, move_back, read_leaf, spare_name,
};
use super::plan::RestoreStep;
use super::report::ConflictReason;
use super::step_transaction::StepTransaction;
use crate::file_hashing::{CurrentContent, read_current_content, read_once_in};
use crate::object_store::FileMode;
use crate::path::RelPath;
use crate::worktree::{NameInDir, Worktree};

/// Power may go after any of the parts a disk writes at once.
const SECTOR_BYTES: usize = 512;

impl StepTransaction<'_> {
    /// Clears the temporary names that a killed apply may have left.
    ///
    /// They hold our unfinished file, the displaced file that is in the guard, or another program's save.
    pub(super) fn recover_step(
        &mut self,
        index: usize,
        step: &RestoreStep,
    ) -> Result<(), ConflictReason> {
        self.recover_interrupted_swap(index, step)?;
        let name = self.temp_name_of(index);
        let Ok(Some(_)) = self.anchor().stat(&name) else {
            return Ok(());
        };
        let (old, new) = (step.expected.leaf(), step.target.leaf());
        let found = read_leaf(self.anchor(), &name);
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let mut opened = self.worktree.open_parent(&step.path);
        if opened.as_ref().is_err_and(is_missing)
            && let Some(folder) = step.path.parent()
        {
            self.make_dirs(&folder)?;
            opened = self.worktree.open_parent(&step.path);
        }
        let temp = NameInDir { dir: self.anchor(), name: &name };
        let Ok(dir) = opened else {
            // A file replaced its directory: this one had been moved aside for it.
            let made_way = new.is_none() && found == old;
            let gone = made_way.then(|| temp.unlink().ok()).flatten();
            return gone.ok_or(ConflictReason::InTheWay);
        };
        let place = NameInDir { dir: &dir, name: step.path.name() };
        let present = read_leaf(place.dir, place.name);
        let is_ours = present == old && (old.is_some() || self.is_own_temp_file(temp, step));
        let is_kept = found.is_some() && found == old;
        let is_done = present == new && (present.is_some() || is_directory(place));
        if is_ours || (is_done && (is_kept || found == new)) {
            return temp.unlink().map_err(|_| ConflictReason::Refused);
        }
        let back = match present {
            None => move_back(temp, place),
            Some(_) if present == new => exchange_names(temp, place).and_then(|()| temp.unlink()),
            // Saved over since: the newer one stays.
            Some(_) => move_back(temp, place).and(Err(io::ErrorKind::AlreadyExists.into())),
        };
        back.map_err(|error| {
            if is_name_conflict(&error) { ConflictReason::Changed } else { ConflictReason::Refused }
        })?;
        if found == old { Ok(()) } else { Err(ConflictReason::Changed) }
    }

    /// True if a temporary name holds our new file, or as much of it as was written.
    pub(super) fn is_own_temp_file(&self, temp: NameInDir<'_>, step: &RestoreStep) -> bool {
        let Some(target) = step.target.leaf() else {
            return false;
        };
        if read_leaf(temp.dir, temp.name) == Some(target) {
            return true;
        }
        let mut data = Vec::new();
        let Ok(Some(Some(_))) = read_once_in(temp.dir, temp.name, &mut data) else {
            return false;
        };
        let wanted = read_target_bytes(self.repository, step, self.merges);
        target.mode != FileMode::Link && wanted.is_ok_and(|wanted| is_torn_mix(&data, &[], &wanted))
    }

    /// Finishes or undoes an exchange of names that was interrupted where names cannot change places.
    fn recover_interrupted_swap(
        &mut self,
        index: usize,
        step: &RestoreStep,
    ) -> Result<(), ConflictReason> {
        let name = self.temp_name_of(index);
        let old = spare_name(&name);
        let (temp, spare) = (
            NameInDir { dir: self.anchor(), name: &name },
            NameInDir { dir: self.anchor(), name: &old },
        );
        let Ok(Some(_)) = spare.dir.stat(spare.name) else {
            return Ok(());
        };
        let dir = self.parent(&step.path)?;
        let place = NameInDir { dir: &dir, name: step.path.name() };
        let leaf = |name: NameInDir<'_>| read_leaf(name.dir, name.name);
        let is_there = |name: NameInDir<'_>| matches!(name.dir.stat(name.name), Ok(Some(_)));
        let done = if !is_there(place) {
            spare.rename_no_replace(place)
        } else if leaf(spare) == leaf(place) {
            spare.unlink()
        } else if !is_there(temp) {
            spare.rename_no_replace(temp)
        } else if leaf(temp) == leaf(place) {
            temp.unlink().and_then(|()| spare.rename_no_replace(temp))
        } else {
            // Another program saved while there was no file: that save is newer and stays.
            move_back(spare, place)
        };
        done.map_err(|_| ConflictReason::Refused)
    }

    /// True if a file written in place holds parts of both its bytes and of no other's.
    ///
    /// Only our own interrupted write leaves such a file; its bytes are in the guard.
    pub(super) fn is_torn_write(&self, step: &RestoreStep) -> bool {
        let (Some(old), Some(_)) = (step.expected.leaf(), step.target.leaf()) else {
            return false;
        };
        let CurrentContent { image, data, .. } = read_current_content(self.worktree, &step.path);
        let Some(present) = image.leaf() else {
            return false;
        };
        let kinds = [Some(old), step.target.leaf(), Some(present)];
        if kinds.into_iter().flatten().any(|leaf| leaf.mode == FileMode::Link) {
            return false;
        }
        let kept = self.repository.read_verified(&old.blob, gix::objs::Kind::Blob);
        let (Ok(kept), Ok(wanted)) = (kept, read_target_bytes(self.repository, step, self.merges))
        else {
            return false;
        };
        is_torn_mix(&data, &kept, &wanted)
    }
}

/// True if `found` is what a cut-off write of `new` over `old` can leave.
fn is_torn_mix(found: &[u8], old: &[u8], new: &[u8]) -> bool {
    // Before the length is set, the end of the longer old file follows the new one.
    let mut over = new.to_vec();
    over.extend_from_slice(old.get(new.len()..).unwrap_or_default());
    if found.len() > over.len() || found.len() < old.len().min(new.len()) {
        return false;
    }
    // Where one of the files has no bytes, a power cut may leave zeros.
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(over.len(), 0);
        bytes
    };
    let sources = [padded(old), padded(new), over.clone()];
    found.chunks(SECTOR_BYTES).enumerate().all(|(index, part)| {
        let start = index * SECTOR_BYTES;
        sources.iter().any(|source| source.get(start..start + part.len()) == Some(part))
    })
}

/// Removes a temporary name that a finished operation had to leave; false if it is still there.
pub(super) fn remove_temp_name(worktree: &Worktree, root: &RelPath, name: &[u8]) -> bool {
    let anchor = worktree.open_dir(root.parent().as_ref());
    let gone = anchor.and_then(|anchor| NameInDir { dir: &anchor, name }.unlink());
    gone.map_or_else(|error| is_name_conflict(&error), |()| true)
}

#[cfg(test)]
mod tests {
    use super::is_torn_mix;

    #[test]
    fn only_an_interrupted_write_is_recognised_as_torn() {
        let (old, new) = (vec![b'o'; 2000], vec![b'n'; 1500]);
        let cut = |at: usize| [&new[..at], &old[at..]].concat();

        for at in [0, 512, 1024, 1500] {
            assert!(is_torn_mix(&cut(at), &old, &new), "{at}");
        }
        assert!(is_torn_mix(&new, &old, &new));
        assert!(!is_torn_mix(&cut(700), &old, &new), "no disk stops there");
        assert!(!is_torn_mix(b"", &old, &new));
        assert!(!is_torn_mix(&[&cut(512)[..], b"more"].concat(), &old, &new));
        let grown = [&old[..], &[0; 48]].concat();
        assert!(is_torn_mix(&grown, &old, &vec![b'n'; 4000]));
    }
}
