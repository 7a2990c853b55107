//! Copies: captures of one store, put into another with everything they need (R12).

use std::path::Path;
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use turnstone_core::time::Millis;

use super::error::VaultError;
use super::open::{Vault, strange};
use super::request::{Answer, Request};
use crate::capture::CaptureError;
use crate::chain::id_of;
use crate::expire::anew;
use crate::group::Group;
use crate::object::{Commit, ObjectError, Oid, Packed};
use crate::reach::Reach;
use crate::selection::Selection;
use crate::shadow::{OpenError, Shadow};
use crate::worktree::{RootPolicy, Worktree};

impl Shadow {
    /// Puts captures of another store into `group` of this one, oldest first, under the ids they
    /// have: all of them with all their objects, or nothing. Those it has already are left alone.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Missing`] if the other store has one of them no more; over the budget as with
    /// any capture (R13).
    pub(crate) fn copy_captures(
        &self,
        from: &Self,
        ids: &[Oid],
        group: &Group,
    ) -> Result<(), CaptureError> {
        let _held = (self.hold_objects(), from.hold_objects());
        let chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.read_chain(group)?;
        let mut pinned: Vec<Oid> = commits.iter().map(|(oid, it)| id_of(oid, it)).collect();
        let mut above = commits.first().map(|(oid, _)| *oid);
        let (known, mut writer) = (self.repository.known(), self.repository.writer()?);
        let (mut reach, mut is_new) = (Reach::default(), false);
        for id in ids {
            if pinned.contains(id) {
                continue;
            }
            let commit = from.read_capture(id)?;
            for oid in from.objects_of(&commit, id, &mut reach)? {
                if !known(&oid) && !writer.has(&oid) {
                    let (kind, data) = from.repository.read(&oid)?;
                    writer.add(&Packed::named(oid, kind, &data)?)?;
                }
            }
            let copy = renamed(anew(id, &commit, above)?, group);
            let packed = Packed::new(Kind::Commit, &copy.encode())?;
            writer.add(&packed)?;
            (above, is_new) = (Some(packed.oid), true);
            pinned.push(*id);
        }
        if let Some(tip) = above.filter(|_| is_new) {
            self.admit(writer.bytes(), false)?;
            let held = self.repository.publish(writer, &tip)?;
            fail_point!("snapshot::copied", |_| Err(std::io::Error::other("failpoint").into()));
            self.repository.write_ref(group.reference(), &tip)?;
            drop(held);
        }
        drop(chain);
        Ok(())
    }

    /// The objects of a capture that were not reached before: its trees, its files, its coverage.
    fn objects_of(
        &self,
        commit: &Commit,
        id: &Oid,
        reach: &mut Reach,
    ) -> Result<Vec<Oid>, ObjectError> {
        let mut new = Vec::new();
        let about = commit.parents.last().ok_or(ObjectError::Corrupt(*id))?;
        reach.add_commit(&self.repository, about, &mut |oid| new.push(*oid))?;
        let tree = commit.tree;
        reach.add_tree(&self.repository, tree, Vec::new(), &mut |oid| new.push(*oid))?;
        Ok(new)
    }
}

/// Lets captures of the store in `folder`, which belongs to `root`, be copied into `to`.
pub(super) fn copy_from(
    to: &Shadow,
    folder: &Path,
    root: &Path,
    captures: &[Oid],
    group: &Group,
) -> Result<(), VaultError> {
    let policy = RootPolicy { by_name: true, home: None };
    let worktree = Worktree::open(root, &policy).map_err(OpenError::Root)?;
    let from = Shadow::open_to_read(folder, worktree, Selection::default())?;
    Ok(to.copy_captures(&from, captures, group)?)
}

/// The same capture, as one of `group`.
pub(super) fn renamed(mut copy: Commit, group: &Group) -> Commit {
    if let Some(other) = copy.trailer("Turnstone-Group") {
        let (from, to) = (format!("Group: {other}\n"), format!("Group: {}\n", group.name()));
        copy.message = copy.message.replacen(&from, &to, 1);
    }
    copy
}

impl Vault {
    /// Puts captures of another store into `group` of this one: all of them, or nothing.
    ///
    /// They are durable, with everything they need, when this returns: the other store may go.
    ///
    /// # Errors
    ///
    /// See [`VaultError`]; a capture the other store has no more is one.
    pub fn copy_captures(
        &self,
        from: &Self,
        captures: &[Oid],
        group: &Group,
        now: Millis,
    ) -> Result<(), VaultError> {
        let request = Request::Copy {
            store: from.place().folder.clone(),
            root: from.place().root.clone(),
            captures: captures.to_vec(),
            group: group.name().to_owned(),
        };
        match self.ask(&request, now)? {
            Answer::Pinned { .. } => Ok(()),
            Answer::Hello
            | Answer::Captured(_)
            | Answer::Planned(_)
            | Answer::Applied(_)
            | Answer::Collected(_)
            | Answer::Failed(_) => Err(strange()),
        }
    }
}
