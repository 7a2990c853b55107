//! Pins: a capture that exists, kept by another group as well.

use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use turnstone_core::time::EpochMillis;

use super::capture_copy::with_group;
use super::error::SnapshotError;
use super::handle::SnapshotHandle;
use super::protocol::{StoreRequest, StoreResponse};
use crate::capture_chain::capture_id;
use crate::capture_expiry::rewrite_commit;
use crate::object_store::{ObjectError, Oid, PackedObject};
use crate::pin_group::PinGroup;
use crate::snapshot_store::SnapshotStore;

impl SnapshotStore {
    /// Pins captures in `group` too, oldest first, under the ids they have; what it pins already is
    /// left as it is. Returns those that this store has no more.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; then nothing is pinned.
    pub fn pin_captures(&self, ids: &[Oid], group: &PinGroup) -> Result<Vec<Oid>, ObjectError> {
        let _held = self.lock_objects_shared();
        let chain = self.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.read_chain(group)?;
        let mut pinned: Vec<Oid> = commits.iter().map(|(oid, it)| capture_id(oid, it)).collect();
        let mut above = commits.first().map(|(oid, _)| *oid);
        let (mut writer, mut missing, mut is_new) =
            (self.repository.new_pack_writer()?, Vec::new(), false);
        for id in ids {
            if pinned.contains(id) {
                continue;
            }
            let commit = match self.read_capture_commit(id) {
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
            let held = self.repository.publish_pack(writer, &tip)?;
            fail_point!("snapshot::pinned", |_| Err(std::io::Error::other("failpoint").into()));
            self.repository.write_ref(group.reference(), &tip)?;
            drop(held);
        }
        drop(chain);
        Ok(missing)
    }
}

impl SnapshotHandle {
    /// As [`SnapshotStore::pin_captures`].
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`].
    pub fn pin_captures(
        &self,
        captures: &[Oid],
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<Vec<Oid>, SnapshotError> {
        let (captures, group) = (captures.to_vec(), group.name().to_owned());
        let StoreResponse::Pinned { missing } =
            self.dispatch(&StoreRequest::Pin { captures, group }, now)?
        else {
            return Err(super::handle::unexpected_response());
        };
        Ok(missing)
    }
}
