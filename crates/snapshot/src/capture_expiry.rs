//! Expiry: the oldest captures of a group go, the others stay and are found as before (R9, R13).
//!
//! A commit names the one before it, so those that stay are rewritten: same tree, same coverage, same
//! time, and the id they always had in a trailer. The new chain is durable before the reference moves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use crate::capture_chain::capture_id;
use crate::forced_paths::drop_unneeded_forced_paths;
use crate::object_store::{Commit, ObjectError, Oid, PackedObject};
use crate::pin_group::PinGroup;
use crate::reachability::{ReachableObjects, stored_object_sizes};
use crate::snapshot_handle::{BASELINE_GROUP, PREVIEW_GROUP};
use crate::snapshot_store::SnapshotStore;

/// The trailer that keeps the id of a capture whose commit was rewritten.
pub(crate) const ID_TRAILER: &str = "Turnstone-Capture";

/// Why captures did not expire. The chain is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ExpireError {
    /// The capture that should become the oldest is not one of the group.
    #[error("{capture} is not a capture of {group:?}")]
    NotInGroup {
        /// Name of the group that was searched.
        group: String,
        /// What was looked for.
        capture: Oid,
    },
    /// The store could not be read or written.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl From<io::Error> for ExpireError {
    fn from(error: io::Error) -> Self {
        Self::Object(error.into())
    }
}

/// Captures that may go: those of `group` before `keep_from`, which stays with all that follow it;
/// or the whole group, as for a guard (R14).
///
/// The caller, who knows the turns, lists the steps in the order in which they may go (R13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiryStep {
    /// Group whose oldest captures go.
    pub group: PinGroup,
    /// Its oldest capture that stays; none: nothing of it stays.
    pub keep_from: Option<Oid>,
}

/// Captures that went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredCaptures {
    /// Their group, by name.
    pub group: String,
    /// Their ids, newest first.
    pub captures: Vec<Oid>,
}

/// Trims the oldest captures off the chain of a group, which is rewritten without them.
pub struct CaptureChainTrimmer<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl CaptureChainTrimmer<'_> {
    /// Lets the captures of `group` before `keep_from` expire; returns them, newest first.
    ///
    /// Those that stay keep their ids. The space is free after the next collection.
    ///
    /// # Errors
    ///
    /// See [`ExpireError`].
    pub fn expire_before(
        &self,
        group: &PinGroup,
        keep_from: &Oid,
    ) -> Result<Vec<Oid>, ExpireError> {
        let _held = self.store.lock_objects_shared();
        let chain = self.store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = self.store.captures().read_chain(group)?;
        let cut = find_cut(&commits, group, keep_from)?;
        let gone: Vec<Oid> =
            commits[cut + 1..].iter().map(|(oid, it)| capture_id(oid, it)).collect();
        if gone.is_empty() {
            return Ok(gone);
        }
        let mut writer = self.store.repository.new_pack_writer()?;
        let mut above = None;
        for (oid, commit) in commits[..=cut].iter().rev() {
            let packed =
                PackedObject::new(Kind::Commit, &rewrite_commit(oid, commit, above)?.encode())?;
            writer.add(&packed)?;
            above = Some(packed.oid);
        }
        let tip = above.ok_or(ObjectError::Corrupt(*keep_from))?;
        let held = self.store.repository.publish_pack(writer, &tip)?;
        fail_point!("snapshot::expired_packed", |_| Err(io::Error::other("failpoint").into()));
        self.store.repository.refs().write(group.reference(), &tip)?;
        drop((held, chain));
        fail_point!("snapshot::expired", |_| Err(io::Error::other("failpoint").into()));
        Ok(gone)
    }

    /// Lets all captures of `group` expire; returns them, newest first. The space is free after the
    /// next collection.
    pub(crate) fn expire_group(&self, group: &PinGroup) -> Result<Vec<Oid>, ExpireError> {
        let _held = self.store.lock_objects_shared();
        let chain = self.store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<Oid> = self
            .store
            .captures()
            .read_chain(group)?
            .iter()
            .map(|(oid, it)| capture_id(oid, it))
            .collect();
        if !gone.is_empty() {
            self.store.repository.refs().remove(&BTreeSet::from([group.reference().to_owned()]))?;
        }
        drop(chain);
        fail_point!("snapshot::guard_expired", |_| Err(io::Error::other("failpoint").into()));
        Ok(gone)
    }

    /// Lets all captures of deleted sessions expire, by the names of their groups; with them the captures that belong to
    /// no session and were made while these ran, because they hold the same files, and the names of files that no other
    /// capture needs. The space is free after the next collection.
    ///
    /// # Errors
    ///
    /// See [`ExpireError`]; a repeat continues.
    pub fn expire_deleted_groups(&self, deleted: &BTreeSet<String>) -> Result<(), ExpireError> {
        let names = deleted.iter().map(String::as_str).chain([PREVIEW_GROUP, BASELINE_GROUP]);
        for name in names {
            self.expire_group(&PinGroup::new(name))?;
        }
        Ok(drop_unneeded_forced_paths(self.store)?)
    }

    /// How many stored bytes each of `steps` frees, taken in order.
    ///
    /// What a step frees is what no capture keeps that stays, and none of a later step.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn measure(&self, steps: &[ExpiryStep]) -> Result<Vec<u64>, ExpireError> {
        let _held = self.store.lock_objects_shared();
        let ranges = self.commits_per_step(steps)?;
        let sizes = stored_object_sizes(&self.store.repository)?;
        let mut reach = ReachableObjects::default();
        let mut expiring = BTreeMap::<&str, Option<&Oid>>::new();
        for step in steps {
            expiring.insert(step.group.reference(), step.keep_from.as_ref());
        }
        for (name, tip) in self.store.repository.refs().list()? {
            let keep_from = match expiring.get(name.as_str()) {
                None => {
                    reach.add_tip(&self.store.repository, &name, &tip)?;
                    continue;
                }
                Some(None) => continue,
                Some(Some(keep_from)) => *keep_from,
            };
            for (oid, commit) in self.store.captures().read_chain_from(tip)? {
                reach.add_capture(&self.store.repository, &oid, &mut |_| {})?;
                if capture_id(&oid, &commit) == *keep_from {
                    break;
                }
            }
        }
        let mut freed = vec![0; steps.len()];
        for (range, freed) in ranges.iter().zip(&mut freed).rev() {
            for oid in range {
                reach.add_capture(&self.store.repository, oid, &mut |oid| {
                    *freed += sizes.get(oid).copied().unwrap_or_default();
                })?;
            }
        }
        Ok(freed)
    }

    /// The commits each step takes away that no step before it does.
    fn commits_per_step(&self, steps: &[ExpiryStep]) -> Result<Vec<Vec<Oid>>, ExpireError> {
        let mut chains = HashMap::new();
        let mut ranges = Vec::new();
        for step in steps {
            let name = step.group.reference();
            if !chains.contains_key(name) {
                chains.insert(name, self.store.captures().read_chain(&step.group)?);
            }
            let Some(chain) = chains.get_mut(name) else {
                continue;
            };
            // A step that an earlier one includes removes nothing.
            let range = match &step.keep_from {
                None => std::mem::take(chain),
                Some(keep_from) => match find_cut(chain, &step.group, keep_from) {
                    Ok(cut) => chain.split_off(cut + 1),
                    Err(_) => Vec::new(),
                },
            };
            ranges.push(range.into_iter().map(|(oid, _)| oid).collect());
        }
        Ok(ranges)
    }
}

/// Where in a chain, newest first, the oldest capture that stays is.
fn find_cut(
    commits: &[(Oid, Commit)],
    group: &PinGroup,
    keep_from: &Oid,
) -> Result<usize, ExpireError> {
    let found = commits.iter().position(|(oid, commit)| capture_id(oid, commit) == *keep_from);
    let (name, capture) = (group.name().to_owned(), *keep_from);
    found.ok_or(ExpireError::NotInGroup { group: name, capture })
}

/// Returns the commit of a capture with another parent, or with none; its id stays.
pub(crate) fn rewrite_commit(
    oid: &Oid,
    commit: &Commit,
    above: Option<Oid>,
) -> Result<Commit, ObjectError> {
    let about = commit.parents.last().ok_or(ObjectError::Corrupt(*oid))?;
    let mut message = commit.message.clone();
    if commit.trailer(ID_TRAILER).is_none() {
        message.push_str(&format!("{ID_TRAILER}: {oid}\n"));
    }
    let parents = above.into_iter().chain([*about]).collect();
    Ok(Commit { tree: commit.tree, parents, seconds: commit.seconds, message })
}
