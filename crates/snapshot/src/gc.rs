//! Upkeep: expired groups go, what nobody pins goes with them, small packs become one.
//!
//! References go first and durably, then a new pack becomes durable, and only then old packs go: killed
//! anywhere, the store holds everything that is pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::PoisonError;

use serde::Serialize;
use turnstone_core::time::Millis;

use crate::capture::CaptureError;
use crate::group::Group;
use crate::object::{ObjectError, Oid, PackFile, TreeEntry};
use crate::shadow::Shadow;

/// No group younger than this is dropped: its owner may not have written it down yet (R9).
const YOUNG: i64 = 3_600_000;
/// Packs with more bytes are not merged with others; they would be copied again and again.
const LARGE: u64 = 64 << 20;
/// So many packs are merged before the next capture.
const MANY: usize = 128;

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Groups that are not live any more, by name.
    pub dropped_groups: Vec<String>,
    /// Objects nobody pins.
    pub dropped_objects: usize,
    /// Objects that stay.
    pub kept_objects: usize,
    /// Bytes of packs before.
    pub bytes_before: u64,
    /// Bytes of packs after; as before if nothing was done.
    pub bytes_after: u64,
}

/// What takes space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Number of packs.
    pub packs: usize,
    /// Bytes of packs.
    pub bytes: u64,
    /// Of those, the bytes of packs on loan from the user's repository (R10).
    pub lent: u64,
    /// Number of pin groups.
    pub groups: usize,
}

impl Shadow {
    /// Says what takes space in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn usage(&self) -> io::Result<Usage> {
        let packs = self.repository.packs()?;
        let sum = |packs: &mut dyn Iterator<Item = &PackFile>| packs.map(|pack| pack.bytes).sum();
        let (bytes, lent) =
            (sum(&mut packs.iter()), sum(&mut packs.iter().filter(|it| it.is_lent())));
        let groups = self.repository.list_refs()?.len();
        Ok(Usage { packs: packs.len(), bytes, lent, groups })
    }

    /// Drops the groups that are not `live`, unless they are young, and every object nobody pins.
    ///
    /// With `dry_run` nothing is changed and the report says what would be. Captures wait for it.
    ///
    /// # Errors
    ///
    /// An object that is pinned cannot be read: then nothing is dropped.
    pub fn gc(
        &self,
        live: &BTreeSet<Group>,
        now: Millis,
        dry_run: bool,
    ) -> Result<GcReport, ObjectError> {
        if !dry_run {
            self.settle()?;
        }
        let running = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let live: BTreeSet<&str> = live.iter().map(Group::reference).collect();
        let mut expired = BTreeMap::new();
        let mut kept = BTreeSet::new();
        for (name, tip) in self.repository.list_refs()? {
            let capture = self.repository.read_commit(&tip)?;
            let time = crate::chain::time_of(&capture);
            if live.contains(name.as_str()) || now.since(time) < YOUNG {
                self.reach(&tip, &mut kept)?;
            } else {
                let group = capture.trailer("Turnstone-Group").unwrap_or(&name).to_owned();
                expired.insert(name, group);
            }
        }
        let (lost, known) = (self.list_lost()?, self.repository.known());
        kept.retain(|oid| !lost.contains(oid) || known(oid));
        let packs = self.repository.packs()?;
        let mut present = BTreeSet::new();
        // Of a loan, only what is needed will ever be ours.
        for pack in packs.iter().filter(|pack| !pack.is_lent()) {
            present.extend(pack.objects()?);
        }
        let bytes = |packs: &[PackFile]| packs.iter().map(|pack| pack.bytes).sum();
        let mut report = GcReport {
            dropped_groups: expired.values().cloned().collect(),
            dropped_objects: present.difference(&kept).count(),
            kept_objects: kept.len(),
            bytes_before: bytes(&packs),
            bytes_after: bytes(&packs),
        };
        if !dry_run && report.dropped_objects + report.dropped_groups.len() > 0 {
            self.repository.remove_refs(&expired.into_keys().collect())?;
            self.repository.repack(&kept, &packs)?;
            self.forget_dropped(&|oid| kept.contains(oid))?;
            report.bytes_after = bytes(&self.repository.packs()?);
        }
        drop((taken, running));
        Ok(report)
    }

    /// Merges small packs into one, so that reading stays cheap.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; nothing is lost then.
    pub fn merge_packs(&self) -> io::Result<()> {
        let taken = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let mut packs = self.repository.packs()?;
        // What is lent is not ours to copy as it is: it is settled, or stays.
        packs.retain(|pack| pack.bytes <= LARGE && !pack.is_lent());
        if packs.len() > 1 {
            let mut objects = BTreeSet::new();
            for pack in &packs {
                objects.extend(pack.objects()?);
            }
            self.repository.repack(&objects, &packs)?;
        }
        drop(taken);
        Ok(())
    }

    /// Merges packs when there are many; a process can see a fixed number of them only.
    pub(crate) fn merge_many(&self) -> Result<(), CaptureError> {
        if self.repository.packs()?.len() > MANY {
            self.merge_packs()?;
        }
        Ok(())
    }

    /// Collects every object that a commit needs.
    fn reach(&self, tip: &Oid, kept: &mut BTreeSet<Oid>) -> Result<(), ObjectError> {
        let mut commits = vec![*tip];
        let mut trees = Vec::new();
        while let Some(oid) = commits.pop() {
            if kept.insert(oid) {
                let commit = self.repository.read_commit(&oid)?;
                trees.push(commit.tree);
                commits.extend(commit.parents);
            }
        }
        while let Some(oid) = trees.pop() {
            if !kept.insert(oid) {
                continue;
            }
            for (_, entry) in self.repository.read_tree(&oid)? {
                match entry {
                    TreeEntry::Tree(tree) => trees.push(tree),
                    TreeEntry::Leaf(leaf) => {
                        kept.insert(leaf.blob);
                    }
                }
            }
        }
        Ok(())
    }
}
