//! The end of borrowing: what captures need is copied into our own pack, and borrowed packs go.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use rayon::prelude::*;
use serde::Serialize;

use crate::file_hashing::{CurrentContent, read_current_content};
use crate::object_store::{
    Commit, ObjectError, Oid, PackFile, PackWriter, PackedObject, TreeEntry, TreeLeaf, build_trees,
    parse_tree,
};
use crate::path::RelPath;
use crate::repack::PackMaintenance;
use crate::snapshot_store::SnapshotStore;

/// Bytes of objects that are held at a time.
const BATCH_BYTES: u64 = 8 << 20;

/// What came of settling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PackReleaseReport {
    /// Objects that were copied.
    pub copied: usize,
    /// Of those, the ones that were damaged and rebuilt from the worktree.
    pub repaired: usize,
    /// Objects that were damaged and could not be rebuilt: captures lack them now.
    pub lost: Vec<Oid>,
    /// Lent packs that were given back.
    pub returned: usize,
}

/// An object that is needed, and what it must be.
type NeededObject = (Oid, Kind);

impl PackMaintenance<'_> {
    /// Copies what captures need from borrowed packs into our own and removes the borrowed ones (R10).
    ///
    /// To be called when there is time. Captures go on meanwhile, but for a moment at the end. An
    /// object that does not match its name is rebuilt from the worktree if that still has it;
    /// otherwise it is reported, and reading it is an error from then on. Killed anywhere, nothing is
    /// lost and the packs stay borrowed.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; the packs stay borrowed.
    pub fn release_borrowed_packs(&self) -> Result<PackReleaseReport, ObjectError> {
        let mut report = PackReleaseReport::default();
        if !self.store.repository.has_borrowed_packs() {
            return Ok(report);
        }
        {
            let _held = self.store.lock_objects_shared();
            self.copy_needed_objects(&mut report)?;
            // While captures run, what is known of the worktree may be in use: judged at the end.
            report.lost.clear();
        }
        fail_point!("snapshot::settling", |_| Err(io::Error::other("failpoint").into()));
        let running = self.store.baseline_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.store.objects_lock.write().unwrap_or_else(PoisonError::into_inner);
        // What captures began to rely on meanwhile: little, if anything.
        self.copy_needed_objects(&mut report)?;
        report.lost.sort_unstable();
        self.record_lost_objects(&report.lost)?;
        let own = self.own_objects()?;
        // Objects that no capture holds are deleted with them, but may be cached. If the packs were deleted
        // first, a crash would leave cached entries for objects that are gone.
        self.store.forget_dropped_objects(&|oid| own.contains(oid))?;
        drop(own);
        let packs = self.store.repository.list_packs()?;
        let borrowed: Vec<&PackFile> = packs.iter().filter(|pack| pack.is_borrowed()).collect();
        report.returned = borrowed.len();
        self.store.repository.hide_packs(&borrowed)?;
        drop((taken, running));
        self.store.repository.remove_packs(&borrowed)?;
        Ok(report)
    }

    /// Records durably what captures lack from now on, so that maintenance does not stop at it.
    fn record_lost_objects(&self, lost: &[Oid]) -> io::Result<()> {
        if lost.is_empty() {
            return Ok(());
        }
        let mut all = self.list_lost_objects()?;
        all.extend(lost);
        let temp = self.store.directory.join("lost.tmp");
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(&serde_json::to_vec(&all)?)?;
        file.sync_all()?;
        fs_err::rename(&temp, self.store.directory.join("lost.json"))?;
        fs_err::File::open(&self.store.directory)?.sync_all()
    }

    /// Objects that were damaged in borrowed packs and that some captures lack, unless they were stored again.
    pub(crate) fn list_lost_objects(&self) -> io::Result<BTreeSet<Oid>> {
        match fs_err::read(self.store.directory.join("lost.json")) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        }
    }

    /// Everything that is in packs of our own.
    fn own_objects(&self) -> io::Result<HashSet<Oid>> {
        let mut own = HashSet::new();
        for pack in self.store.repository.list_packs()?.iter().filter(|pack| !pack.is_borrowed()) {
            own.extend(pack.entries()?.into_iter().map(|entry| entry.oid));
        }
        Ok(own)
    }

    fn copy_needed_objects(&self, report: &mut PackReleaseReport) -> Result<(), ObjectError> {
        let own = self.own_objects()?;
        let mut repairs = WorktreeRepairs { store: self.store, blobs: None, trees: None };
        let mut needs = self.list_needed_objects(&own, &report.lost, &mut repairs)?;
        drop(own);
        self.sort_by_offset(&mut needs)?;
        let mut writer = self.store.repository.new_pack_writer()?;
        let mut sample = None;
        for batch in self.split_batches(&needs) {
            if let [need] = batch
                && self.copy_large_blob(need, &mut writer)?
            {
                report.copied += 1;
                sample = Some(need.0);
                continue;
            }
            let read: Vec<Option<PackedObject>> =
                batch.par_iter().map(|need| self.read_for_copy(need)).collect::<Result<_, _>>()?;
            for ((oid, kind), packed) in batch.iter().zip(read) {
                let packed = match packed {
                    Some(packed) => packed,
                    None => match repairs.rebuild_object(oid, *kind)? {
                        Some(data) => {
                            report.repaired += 1;
                            PackedObject::with_oid(*oid, *kind, &data)?
                        }
                        None => {
                            report.lost.push(*oid);
                            continue;
                        }
                    },
                };
                writer.add(&packed)?;
                report.copied += 1;
                sample = Some(*oid);
            }
        }
        match sample {
            // Captures need what is in it, so git leaves it alone from the beginning.
            Some(sample) => {
                drop(self.store.repository.publish_pack(writer, &sample)?);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sorts needs as they lie in the borrowed packs, so that each part of a pack is mapped once.
    fn sort_by_offset(&self, needs: &mut [NeededObject]) -> io::Result<()> {
        let packs = self.store.repository.list_packs()?;
        let borrowed = packs.iter().filter(|pack| pack.is_borrowed());
        let lookups: Vec<_> = borrowed.filter_map(|pack| pack.offset_lookup().ok()).collect();
        needs.sort_by_cached_key(|(oid, _)| {
            let mut places = lookups.iter().enumerate();
            places.find_map(|(number, offset)| Some((number, offset(oid)?)))
        });
        Ok(())
    }

    /// Parts the needs so that each part fits into memory.
    fn split_batches<'n>(&self, needs: &'n [NeededObject]) -> Vec<&'n [NeededObject]> {
        let mut parts = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for (at, (oid, _)) in needs.iter().enumerate() {
            let size = self.store.repository.object_size(oid).unwrap_or_default() + 256;
            if bytes + size > BATCH_BYTES && at > start {
                parts.push(&needs[start..at]);
                (start, bytes) = (at, 0);
            }
            bytes += size;
        }
        parts.push(&needs[start..]);
        parts
    }

    /// Copies a large blob without a second, compressed copy of it in memory; false if it is another object
    /// or damaged.
    fn copy_large_blob(
        &self,
        (oid, kind): &NeededObject,
        writer: &mut PackWriter,
    ) -> Result<bool, ObjectError> {
        let size = self.store.repository.object_size(oid).unwrap_or_default();
        if *kind != Kind::Blob || size <= BATCH_BYTES {
            return Ok(false);
        }
        let Ok(data) = self.store.repository.read_verified(oid, *kind) else {
            return Ok(false);
        };
        writer.add_stream(data.len() as u64, &data[..], |_| true)?;
        Ok(true)
    }

    /// Reads one borrowed object; `None` if it is damaged or missing.
    fn read_for_copy(
        &self,
        (oid, kind): &NeededObject,
    ) -> Result<Option<PackedObject>, ObjectError> {
        match self.store.repository.read_verified(oid, *kind) {
            Ok(data) => Ok(Some(PackedObject::with_oid(*oid, *kind, &data)?)),
            // Bytes that cannot be inflated count as damaged; a disk error is not distinguished
            // here, and the packs are released only after every object was looked for.
            Err(ObjectError::Corrupt(_) | ObjectError::Missing(_) | ObjectError::Io(_)) => Ok(None),
        }
    }

    /// Lists every object that a capture needs and that no pack of our own holds.
    fn list_needed_objects(
        &self,
        own: &HashSet<Oid>,
        lost: &[Oid],
        repairs: &mut WorktreeRepairs<'_>,
    ) -> Result<Vec<NeededObject>, ObjectError> {
        let mut seen: HashSet<Oid> = lost.iter().copied().collect();
        let mut needs = Vec::new();
        let mut todo: Vec<NeededObject> = Vec::new();
        todo.extend(
            self.store.repository.refs().list()?.into_values().map(|tip| (tip, Kind::Commit)),
        );
        while let Some((oid, kind)) = todo.pop() {
            if !seen.insert(oid) {
                continue;
            }
            if !own.contains(&oid) {
                needs.push((oid, kind));
            }
            if kind == Kind::Commit {
                let commit: Commit = self.store.repository.read_commit(&oid)?;
                todo.push((commit.tree, Kind::Tree));
                todo.extend(commit.parents.into_iter().map(|parent| (parent, Kind::Commit)));
            }
            if kind == Kind::Tree {
                for (_, entry) in self.read_or_repair_tree(&oid, repairs)? {
                    todo.push(match entry {
                        TreeEntry::Tree(tree) => (tree, Kind::Tree),
                        TreeEntry::Leaf(leaf) => (leaf.blob, Kind::Blob),
                    });
                }
            }
        }
        Ok(needs)
    }

    /// The lines of a tree, rebuilt if it is damaged; none if it is lost.
    fn read_or_repair_tree(
        &self,
        oid: &Oid,
        repairs: &mut WorktreeRepairs<'_>,
    ) -> Result<Vec<(Vec<u8>, TreeEntry)>, ObjectError> {
        match self.store.repository.read_tree(oid) {
            Ok(lines) => Ok(lines),
            Err(_) => match repairs.rebuild_object(oid, Kind::Tree)? {
                Some(data) => parse_tree(oid, &data),
                None => Ok(Vec::new()),
            },
        }
    }
}

/// Objects rebuilt from the worktree and its index.
struct WorktreeRepairs<'s> {
    store: &'s SnapshotStore,
    /// Where the file with some bytes was last seen.
    blobs: Option<HashMap<Oid, RelPath>>,
    trees: Option<HashMap<Oid, Vec<u8>>>,
}

impl WorktreeRepairs<'_> {
    fn rebuild_object(&mut self, oid: &Oid, kind: Kind) -> io::Result<Option<Vec<u8>>> {
        match kind {
            Kind::Blob => Ok(self.rebuild_blob(oid)),
            Kind::Tree => self.rebuild_tree(oid),
            Kind::Commit | Kind::Tag => Ok(None),
        }
    }

    fn rebuild_blob(&mut self, oid: &Oid) -> Option<Vec<u8>> {
        let store = self.store;
        let blobs = self.blobs.get_or_insert_with(|| {
            let files = store.lock_worktree_index().list_leaves();
            files.into_iter().map(|(path, leaf)| (leaf.blob, path)).collect()
        });
        let CurrentContent { image, data, .. } =
            read_current_content(&store.worktree, blobs.get(oid)?);
        image.leaf().filter(|leaf| leaf.blob == *oid).map(|_| data)
    }

    fn rebuild_tree(&mut self, oid: &Oid) -> io::Result<Option<Vec<u8>>> {
        if self.trees.is_none() {
            let files: Vec<(RelPath, TreeLeaf)> = self.store.lock_worktree_index().list_leaves();
            let mut made = Vec::new();
            build_trees(&files, &mut |_| false, &mut made)?;
            let trees = made.iter().map(|packed| Ok((packed.oid, packed.decompress()?)));
            self.trees = Some(trees.collect::<io::Result<_>>()?);
        }
        Ok(self.trees.as_ref().and_then(|trees| trees.get(oid).cloned()))
    }
}
