//! Pins: a capture that exists, kept by another group as well.

use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use turnstone_core::time::Millis;

use super::copy::renamed;
use super::error::VaultError;
use super::open::Vault;
use super::request::{Answer, Request};
use crate::chain::id_of;
use crate::expire::anew;
use crate::group::Group;
use crate::object::{ObjectError, Oid, Packed};
use crate::shadow::Shadow;

impl Shadow {
    /// Pins captures in `group` too, oldest first, under the ids they have; what it pins already is
    /// left as it is. Returns those that this store has no more.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; then nothing is pinned.
    pub fn pin_captures(&self, ids: &[Oid], group: &Group) -> Result<Vec<Oid>, ObjectError> {
        let _held = self.hold_objects();
        let chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.read_chain(group)?;
        let mut pinned: Vec<Oid> = commits.iter().map(|(oid, it)| id_of(oid, it)).collect();
        let mut above = commits.first().map(|(oid, _)| *oid);
        let (mut writer, mut missing, mut is_new) = (self.repository.writer()?, Vec::new(), false);
        for id in ids {
            if pinned.contains(id) {
                continue;
            }
            let commit = match self.read_capture(id) {
                Err(ObjectError::Missing(_)) => {
                    missing.push(*id);
                    continue;
                }
                found => found?,
            };
            let copy = renamed(anew(id, &commit, above)?, group);
            let packed = Packed::new(Kind::Commit, &copy.encode())?;
            writer.add(&packed)?;
            (above, is_new) = (Some(packed.oid), true);
            pinned.push(*id);
        }
        if let Some(tip) = above.filter(|_| is_new) {
            let held = self.repository.publish(writer, &tip)?;
            fail_point!("snapshot::pinned", |_| Err(std::io::Error::other("failpoint").into()));
            self.repository.write_ref(group.reference(), &tip)?;
            drop(held);
        }
        drop(chain);
        Ok(missing)
    }
}

impl Vault {
    /// As [`Shadow::pin_captures`].
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn pin_captures(
        &self,
        captures: &[Oid],
        group: &Group,
        now: Millis,
    ) -> Result<Vec<Oid>, VaultError> {
        let (captures, group) = (captures.to_vec(), group.name().to_owned());
        let Answer::Pinned { missing } = self.ask(&Request::Pin { captures, group }, now)? else {
            return Err(super::open::strange());
        };
        Ok(missing)
    }
}
