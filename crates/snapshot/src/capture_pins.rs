//! Pins: existing captures kept by another group as well, in this store or in another one (R12).

use std::path::Path;
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;

use crate::capture::CaptureError;
use crate::capture_chain::capture_id;
use crate::capture_expiry::rewrite_commit;
use crate::capture_rules::CaptureRules;
use crate::object_store::{Commit, ObjectError, ObjectRepository, Oid, PackedObject};
use crate::pin_group::PinGroup;
use crate::reachability::ReachableObjects;
use crate::snapshot_handle::SnapshotError;
use crate::snapshot_store::{SnapshotStore, StoreOpenError};
use crate::worktree::{RootPolicy, Worktree};

/// Pins captures in further groups.
pub struct GroupPins<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl GroupPins<'_> {
    /// Pins captures in `group` too, oldest first, under the ids they have; what it pins already is
    /// left as it is. Returns those that this store no longer has.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; then nothing is pinned.
    pub fn pin(&self, ids: &[Oid], group: &PinGroup) -> Result<Vec<Oid>, ObjectError> {
        let _held = self.store.lock_objects_shared();
        let chain = self.store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.store.captures().read_chain(group)?;
        let mut pinned: Vec<Oid> = commits.iter().map(|(oid, it)| capture_id(oid, it)).collect();
        let mut above = commits.first().map(|(oid, _)| *oid);
        let (mut writer, mut missing, mut is_new) =
            (self.store.repository.new_pack_writer()?, Vec::new(), false);
        for id in ids {
            if pinned.contains(id) {
                continue;
            }
            let commit = match self.store.captures().read_commit(id) {
                Err(ObjectError::Missing(_)) => {
                    missing.push(*id);
                    continue;
                }
                found => found?,
            };
            let copy = with_group(rewrite_commit(id, &commit, above)?, group);
            let packed = PackedObject::new(Kind::Commit, &copy.encode())?;
            writer.add(&packed)?;
            (above, is_new) = (Some(packed.oid), true);
            pinned.push(*id);
        }
        if let Some(tip) = above.filter(|_| is_new) {
            let held = self.store.repository.publish_pack(writer, &tip)?;
            fail_point!("snapshot::pinned", |_| Err(std::io::Error::other("failpoint").into()));
            self.store.repository.refs().write(group.reference(), &tip)?;
            drop(held);
        }
        drop(chain);
        Ok(missing)
    }

    /// Puts captures of another store into `group` of this one, oldest first, under the ids they
    /// have: all of them with all their objects, or nothing. Those it has already are left alone.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Missing`] if the other store has one of them no more; over the budget as with
    /// any capture (R13).
    pub(crate) fn copy_from(
        &self,
        from: &SnapshotStore,
        ids: &[Oid],
        group: &PinGroup,
    ) -> Result<(), CaptureError> {
        let _held = (self.store.lock_objects_shared(), from.lock_objects_shared());
        let chain = self.store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.store.captures().read_chain(group)?;
        let mut pinned: Vec<Oid> = commits.iter().map(|(oid, it)| capture_id(oid, it)).collect();
        let mut above = commits.first().map(|(oid, _)| *oid);
        let (known, mut writer) =
            (self.store.repository.existence_check(), self.store.repository.new_pack_writer()?);
        let (mut reach, mut is_new) = (ReachableObjects::default(), false);
        for id in ids {
            if pinned.contains(id) {
                continue;
            }
            let commit = from.captures().read_commit(id)?;
            for oid in capture_objects(&from.repository, &commit, id, &mut reach)? {
                if !known(&oid) && !writer.has(&oid) {
                    let (kind, data) = from.repository.read(&oid)?;
                    writer.add(&PackedObject::with_oid(oid, kind, &data)?)?;
                }
            }
            let copy = with_group(rewrite_commit(id, &commit, above)?, group);
            let packed = PackedObject::new(Kind::Commit, &copy.encode())?;
            writer.add(&packed)?;
            (above, is_new) = (Some(packed.oid), true);
            pinned.push(*id);
        }
        if let Some(tip) = above.filter(|_| is_new) {
            self.store.budget().check(writer.estimated_bytes(), false)?;
            let held = self.store.repository.publish_pack(writer, &tip)?;
            fail_point!("snapshot::copied", |_| Err(std::io::Error::other("failpoint").into()));
            self.store.repository.refs().write(group.reference(), &tip)?;
            drop(held);
        }
        drop(chain);
        Ok(())
    }
}

/// The objects of a capture that were not reached before: its trees, its files, its coverage.
fn capture_objects(
    repository: &ObjectRepository,
    commit: &Commit,
    id: &Oid,
    reach: &mut ReachableObjects,
) -> Result<Vec<Oid>, ObjectError> {
    let mut new = Vec::new();
    let about = commit.parents.last().ok_or(ObjectError::Corrupt(*id))?;
    reach.add_commit(repository, about, &mut |oid| new.push(*oid))?;
    let tree = commit.tree;
    reach.add_tree(repository, tree, Vec::new(), &mut |oid| new.push(*oid))?;
    Ok(new)
}

/// Lets captures of the store in `folder`, which belongs to `root`, be copied into `to`.
pub(crate) fn copy_captures_from(
    to: &SnapshotStore,
    folder: &Path,
    root: &Path,
    captures: &[Oid],
    group: &PinGroup,
) -> Result<(), SnapshotError> {
    let policy = RootPolicy { by_name: true, home: None };
    let worktree = Worktree::open(root, &policy).map_err(StoreOpenError::Root)?;
    let from = SnapshotStore::open_read_only(folder, worktree, CaptureRules::default())?;
    Ok(to.pins().copy_from(&from, captures, group)?)
}

/// Returns the commit of a capture with another group in its message.
fn with_group(mut copy: Commit, group: &PinGroup) -> Commit {
    if let Some(other) = copy.trailer("Turnstone-Group") {
        let (from, to) = (format!("Group: {other}\n"), format!("Group: {}\n", group.name()));
        copy.message = copy.message.replacen(&from, &to, 1);
    }
    copy
}
