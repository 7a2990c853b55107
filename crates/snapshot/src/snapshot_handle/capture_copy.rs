//! Copies: captures of one store, put into another with everything they need (R12).

use std::path::Path;
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use turnstone_core::time::EpochMillis;

use super::error::SnapshotError;
use super::handle::{SnapshotHandle, unexpected_response};
use super::protocol::{StoreRequest, StoreResponse};
use crate::capture::CaptureError;
use crate::capture_chain::capture_id;
use crate::capture_expiry::rewrite_commit;
use crate::capture_selection::CaptureSelection;
use crate::object_store::{Commit, ObjectError, Oid, PackedObject};
use crate::pin_group::PinGroup;
use crate::reachability::ReachableObjects;
use crate::snapshot_store::{SnapshotStore, StoreOpenError};
use crate::worktree::{RootPolicy, Worktree};

impl SnapshotStore {
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
        group: &PinGroup,
    ) -> Result<(), CaptureError> {
        let _held = (self.lock_objects_shared(), from.lock_objects_shared());
        let chain = self.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.read_chain(group)?;
        let mut pinned: Vec<Oid> = commits.iter().map(|(oid, it)| capture_id(oid, it)).collect();
        let mut above = commits.first().map(|(oid, _)| *oid);
        let (known, mut writer) =
            (self.repository.existence_check(), self.repository.new_pack_writer()?);
        let (mut reach, mut is_new) = (ReachableObjects::default(), false);
        for id in ids {
            if pinned.contains(id) {
                continue;
            }
            let commit = from.read_capture_commit(id)?;
            for oid in from.capture_objects(&commit, id, &mut reach)? {
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
            self.check_budget(writer.estimated_bytes(), false)?;
            let held = self.repository.publish_pack(writer, &tip)?;
            fail_point!("snapshot::copied", |_| Err(std::io::Error::other("failpoint").into()));
            self.repository.write_ref(group.reference(), &tip)?;
            drop(held);
        }
        drop(chain);
        Ok(())
    }

    /// The objects of a capture that were not reached before: its trees, its files, its coverage.
    fn capture_objects(
        &self,
        commit: &Commit,
        id: &Oid,
        reach: &mut ReachableObjects,
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
pub(super) fn copy_captures_from(
    to: &SnapshotStore,
    folder: &Path,
    root: &Path,
    captures: &[Oid],
    group: &PinGroup,
) -> Result<(), SnapshotError> {
    let policy = RootPolicy { by_name: true, home: None };
    let worktree = Worktree::open(root, &policy).map_err(StoreOpenError::Root)?;
    let from = SnapshotStore::open_read_only(folder, worktree, CaptureSelection::default())?;
    Ok(to.copy_captures(&from, captures, group)?)
}

/// The same capture, as one of `group`.
pub(super) fn with_group(mut copy: Commit, group: &PinGroup) -> Commit {
    if let Some(other) = copy.trailer("Turnstone-Group") {
        let (from, to) = (format!("Group: {other}\n"), format!("Group: {}\n", group.name()));
        copy.message = copy.message.replacen(&from, &to, 1);
    }
    copy
}

impl SnapshotHandle {
    /// Puts captures of another store into `group` of this one: all of them, or nothing.
    ///
    /// They are durable, with everything they need, when this returns: the other store may go.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; a capture the other store has no more is one.
    pub fn copy_captures(
        &self,
        from: &Self,
        captures: &[Oid],
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<(), SnapshotError> {
        let request = StoreRequest::Copy {
            store: from.location().folder.clone(),
            root: from.location().root.clone(),
            captures: captures.to_vec(),
            group: group.name().to_owned(),
        };
        let StoreResponse::Pinned { .. } = self.dispatch(&request, now)? else {
            return Err(unexpected_response());
        };
        Ok(())
    }
}
