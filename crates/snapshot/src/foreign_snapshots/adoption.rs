//! Copying what a step of OpenCode found and left: two captures of the files that it names.
//!
//! The captures are like those of a tool that names its paths, and a set of them is written as one pack. Trees hold
//! no permission bits: both sides get those of the file on disk, so that an undo changes only the executable bit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use gix::objs::Kind;
use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use super::objects::{ForeignEntry, ForeignObjectError, ForeignObjects};
use crate::capture::{CaptureContent, CaptureError, CaptureMode};
use crate::capture_chain::{build_capture_commit, build_coverage_commit};
use crate::coverage::{CaptureCoverage, CaptureScope, CapturedPermissions};
use crate::object_store::{FileMode, Oid, PackWriter, PackedObject, TreeLeaf, build_trees};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::pin_group::PinGroup;
use crate::snapshot_store::SnapshotStore;
use crate::worktree::FileKind;

/// A step as its program recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// The tree before it.
    pub before: Oid,
    /// The tree after it.
    pub after: Oid,
    /// The files it changed.
    pub paths: Vec<RecordedPath>,
}

/// A file of a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordedPath {
    /// Where it is in the worktree of the store.
    pub path: RelPath,
    /// Where it is in the trees.
    pub in_tree: RelPath,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdoptedStep {
    /// The captures of its files, before and after.
    Captured {
        /// The one before.
        before: Oid,
        /// The one after.
        after: Oid,
    },
    /// No repository has this tree any more.
    Missing {
        /// The tree.
        tree: Oid,
    },
}

/// What is being written.
struct AdoptionRun<'s> {
    store: &'s SnapshotStore,
    foreign: ForeignObjects,
    /// Tells what the store has already.
    is_stored: Box<dyn Fn(&Oid) -> bool>,
    writer: PackWriter,
    group: &'s PinGroup,
    now: EpochMillis,
    /// The newest commit of the group.
    tip: Option<Oid>,
}

/// Copies what steps recorded in other repositories into `group` of a store: all of them in one pack, or nothing. A
/// step without its trees gets no captures; a file without its bytes is not covered.
///
/// # Errors
///
/// See [`CaptureError`]; nothing is copied then. Nothing is evicted to make room.
pub(crate) fn adopt_steps(
    store: &SnapshotStore,
    repositories: &[PathBuf],
    steps: &[RecordedStep],
    group: &PinGroup,
    now: EpochMillis,
) -> Result<Vec<AdoptedStep>, CaptureError> {
    let held = store.lock_objects_shared();
    let chain = store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
    let tip = store.repository.refs().find(group.reference())?;
    let writer = store.repository.new_pack_writer()?;
    let foreign = ForeignObjects::open(repositories);
    let is_stored = Box::new(store.repository.existence_check());
    let mut run = AdoptionRun { store, foreign, is_stored, writer, group, now, tip };
    let mut adopted = Vec::with_capacity(steps.len());
    for step in steps {
        adopted.push(run.adopt(step)?);
    }
    let AdoptionRun { writer, tip: newest, .. } = run;
    if let Some(newest) = newest.filter(|newest| Some(*newest) != tip) {
        store.budget().check(writer.estimated_bytes(), false)?;
        let kept = store.repository.publish_pack(writer, &newest)?;
        store.repository.refs().write(group.reference(), &newest)?;
        drop(kept);
    }
    drop((chain, held));
    Ok(adopted)
}

impl AdoptionRun<'_> {
    fn adopt(&mut self, step: &RecordedStep) -> Result<AdoptedStep, CaptureError> {
        for tree in [step.before, step.after] {
            if !self.foreign.has_tree(&tree) {
                return Ok(AdoptedStep::Missing { tree });
            }
        }
        let paths: BTreeSet<&RecordedPath> = step.paths.iter().collect();
        let before = self.capture(&step.before, &paths)?;
        let after = self.capture(&step.after, &paths)?;
        Ok(AdoptedStep::Captured { before, after })
    }

    /// Writes the capture of some files of a tree.
    fn capture(
        &mut self,
        tree: &Oid,
        paths: &BTreeSet<&RecordedPath>,
    ) -> Result<Oid, CaptureError> {
        let (mut leaves, mut skipped, mut absent) =
            (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for RecordedPath { path, in_tree } in paths {
            match self.copy_file(tree, path, in_tree)? {
                Ok(Some(leaf)) => drop(leaves.insert(path.clone(), leaf)),
                Ok(None) => drop(absent.insert(path.clone())),
                Err(reason) => drop(skipped.insert(path.clone(), reason)),
            }
        }
        let leaves: Vec<(RelPath, TreeLeaf)> = leaves.into_iter().collect();
        let coverage = CaptureCoverage {
            scope: CaptureScope::Named,
            skipped: skipped.into_iter().collect(),
            absent: absent.into_iter().collect(),
            permissions: self.permissions_on_disk(&leaves),
            ..CaptureCoverage::default()
        };
        let mut made = Vec::new();
        let tree = build_trees(&leaves, &mut |oid| (self.is_stored)(oid), &mut made)?;
        let coverage_commit = build_coverage_commit(&coverage, &self.is_stored, &mut made)?;
        for packed in &made {
            self.add(packed)?;
        }
        let files = leaves.len();
        let content = CaptureContent { tree, coverage: Arc::new(coverage), coverage_commit, files };
        let commit =
            build_capture_commit(&content, self.tip, CaptureMode::Named, self.group, self.now);
        let packed = PackedObject::new(Kind::Commit, &commit.encode())?;
        self.add(&packed)?;
        self.tip = Some(packed.oid);
        Ok(packed.oid)
    }

    fn add(&mut self, packed: &PackedObject) -> Result<(), CaptureError> {
        if !self.writer.has(&packed.oid) {
            self.writer.add(packed)?;
        }
        Ok(())
    }

    /// Copies the bytes of a file into the pack; why the file is not covered, if it cannot be.
    fn copy_file(
        &mut self,
        tree: &Oid,
        path: &RelPath,
        in_tree: &RelPath,
    ) -> Result<Result<Option<TreeLeaf>, UncoveredReason>, CaptureError> {
        let own_data = self.store.selection.own_data.as_ref();
        if own_data.is_some_and(|own| own == path || own.is_ancestor_of(path)) {
            return Ok(Err(UncoveredReason::OwnData));
        }
        let leaf = match self.foreign.find_entry(tree, in_tree) {
            Ok(ForeignEntry::Leaf(leaf)) => leaf,
            Ok(ForeignEntry::None) => return Ok(Ok(None)),
            Ok(ForeignEntry::Repository) => return Ok(Err(UncoveredReason::GitDirectory)),
            Err(error) => return Ok(Err(error.into())),
        };
        if !(self.is_stored)(&leaf.blob) && !self.writer.has(&leaf.blob) {
            let limit = self.store.selection.max_file_bytes;
            match self.foreign.read(&leaf.blob, Kind::Blob, limit) {
                Ok(data) => {
                    self.writer.add(&PackedObject::with_oid(leaf.blob, Kind::Blob, &data)?)?
                }
                Err(error) => return Ok(Err(error.into())),
            }
        }
        Ok(Ok(Some(leaf)))
    }

    /// The permission bits of the files on disk, with the executable bits of the tree.
    fn permissions_on_disk(&self, leaves: &[(RelPath, TreeLeaf)]) -> CapturedPermissions {
        let bits = leaves.iter().filter_map(|(path, leaf)| {
            let stat = self.store.worktree.stat(path).ok().flatten()?;
            let is_file = stat.kind == FileKind::File && leaf.mode != FileMode::Link;
            let bits = match (leaf.mode == FileMode::Exec, stat.perm & 0o100 != 0) {
                // Who may read it may run it, as in git.
                (true, false) => stat.perm | (stat.perm & 0o444) >> 2,
                (false, true) => stat.perm & !0o111,
                (true, true) | (false, false) => stat.perm,
            };
            is_file.then_some((path, bits))
        });
        let bits: Vec<(&RelPath, u32)> = bits.collect();
        CapturedPermissions::collect(bits.into_iter())
    }
}

impl From<ForeignObjectError> for UncoveredReason {
    fn from(error: ForeignObjectError) -> Self {
        match error {
            ForeignObjectError::Missing => Self::Missing,
            ForeignObjectError::TooLarge => Self::TooLarge,
        }
    }
}
