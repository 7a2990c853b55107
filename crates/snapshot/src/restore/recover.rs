//! After a crash: what the temporary names hold, and where it belongs.

use std::io;

use super::group::Operation;
use super::plan::{Step, leaf_of};
use super::report::Why;
use super::swap::{is_directory, is_obstacle, leaf_at, put_back, spare_name, swap};
use crate::hash::{Look, attempt_in, look};
use crate::object::LeafMode;
use crate::path::RelPath;
use crate::shadow::Shadow;
use crate::worktree::Name;

/// Power may go after any of the parts a disk writes at once.
const SECTOR: usize = 512;

impl Operation<'_> {
    /// Clears the temporary names that a killed apply may have left.
    ///
    /// They hold our unfinished file, the guarded one that made way, or somebody's save.
    pub(super) fn recover(&mut self, index: usize, step: &Step) -> Result<(), Why> {
        self.recover_spare(index, step)?;
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
        let is_ours = present == old && (old.is_some() || self.is_unfinished(temp, step));
        let is_kept = found.is_some() && found == old;
        let is_done = present == new && (present.is_some() || is_directory(place));
        if is_ours || (is_done && (is_kept || found == new)) {
            return temp.unlink().map_err(|_| Why::Refused);
        }
        let back = match present {
            None => put_back(temp, place),
            Some(_) if present == new => swap(temp, place).and_then(|()| temp.unlink()),
            // Saved over since: the newer one stays.
            Some(_) => put_back(temp, place).and(Err(io::ErrorKind::AlreadyExists.into())),
        };
        back.map_err(|error| if is_obstacle(&error) { Why::Changed } else { Why::Refused })?;
        if found == old { Ok(()) } else { Err(Why::Changed) }
    }

    /// Tells whether a temporary name holds our new file, or as much of it as was written.
    pub(super) fn is_unfinished(&self, temp: Name<'_>, step: &Step) -> bool {
        let Some(target) = leaf_of(step.target) else {
            return false;
        };
        if leaf_at(temp.dir, temp.name) == Some(target) {
            return true;
        }
        let mut data = Vec::new();
        let Ok(Some(Some(_))) = attempt_in(temp.dir, temp.name, &mut data) else {
            return false;
        };
        let wanted = self.shadow.target_bytes(step, self.merges);
        target.mode != LeafMode::Link && wanted.is_ok_and(|wanted| is_mixed(&data, &[], &wanted))
    }

    /// Finishes or takes back a change of places that was cut off where names cannot change places.
    fn recover_spare(&mut self, index: usize, step: &Step) -> Result<(), Why> {
        let name = self.temp(index);
        let old = spare_name(&name);
        let (temp, spare) =
            (Name { dir: self.anchor(), name: &name }, Name { dir: self.anchor(), name: &old });
        let Ok(Some(_)) = spare.dir.stat(spare.name) else {
            return Ok(());
        };
        let dir = self.parent(&step.path)?;
        let place = Name { dir: &dir, name: step.path.name() };
        let leaf = |name: Name<'_>| leaf_at(name.dir, name.name);
        let is_there = |name: Name<'_>| matches!(name.dir.stat(name.name), Ok(Some(_)));
        let done = if !is_there(place) {
            spare.rename_new(place)
        } else if leaf(spare) == leaf(place) {
            spare.unlink()
        } else if !is_there(temp) {
            spare.rename_new(temp)
        } else if leaf(temp) == leaf(place) {
            temp.unlink().and_then(|()| spare.rename_new(temp))
        } else {
            // Somebody saved while there was no file: theirs is newer and stays.
            put_back(spare, place)
        };
        done.map_err(|_| Why::Refused)
    }

    /// Tells whether a file written in place holds parts of both its bytes and of no other's.
    ///
    /// Only a write of ours that was cut off leaves such a file; its bytes are in the guard.
    pub(super) fn is_half_written(&self, step: &Step) -> bool {
        let (Some(old), Some(_)) = (leaf_of(step.expected), leaf_of(step.target)) else {
            return false;
        };
        let Look::Present(_, present, data) = look(&self.shadow.worktree, &step.path) else {
            return false;
        };
        let kinds = [Some(old), leaf_of(step.target), Some(present)];
        if kinds.into_iter().flatten().any(|leaf| leaf.mode == LeafMode::Link) {
            return false;
        }
        let kept = self.shadow.repository.read_verified(&old.blob, gix::objs::Kind::Blob);
        let (Ok(kept), Ok(wanted)) = (kept, self.shadow.target_bytes(step, self.merges)) else {
            return false;
        };
        is_mixed(&data, &kept, &wanted)
    }
}

/// Tells whether `found` is what a cut-off write of `new` over `old` can leave.
fn is_mixed(found: &[u8], old: &[u8], new: &[u8]) -> bool {
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
    found.chunks(SECTOR).enumerate().all(|(index, part)| {
        let start = index * SECTOR;
        sources.iter().any(|source| source.get(start..start + part.len()) == Some(part))
    })
}

impl Shadow {
    /// Removes a temporary name that a finished operation had to leave; false if it is still there.
    pub(super) fn sweep(&self, root: &RelPath, name: &[u8]) -> bool {
        let anchor = self.worktree.open_dir(root.parent().as_ref());
        let gone = anchor.and_then(|anchor| Name { dir: &anchor, name }.unlink());
        gone.map_or_else(|error| is_obstacle(&error), |()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::is_mixed;

    #[test]
    fn only_a_cut_off_write_is_taken_for_one() {
        let (old, new) = (vec![b'o'; 2000], vec![b'n'; 1500]);
        let cut = |at: usize| [&new[..at], &old[at..]].concat();

        for at in [0, 512, 1024, 1500] {
            assert!(is_mixed(&cut(at), &old, &new), "{at}");
        }
        assert!(is_mixed(&new, &old, &new));
        assert!(!is_mixed(&cut(700), &old, &new), "no disk stops there");
        assert!(!is_mixed(b"", &old, &new));
        assert!(!is_mixed(&[&cut(512)[..], b"more"].concat(), &old, &new));
        let grown = [&old[..], &[0; 48]].concat();
        assert!(is_mixed(&grown, &old, &vec![b'n'; 4000]));
    }
}
