//! Captures of what a tool wrote: the bytes are those of the tool, and not those on the disk, where somebody may have
//! saved the file again.

use std::collections::BTreeSet;
use std::io;

use gix::objs::Kind;
use turnstone_core::time::EpochMillis;

use crate::capture::{CaptureError, CaptureOutcome};
use crate::coverage::{CaptureCoverage, CaptureScope, CapturedPermissions};
use crate::named_paths::inspect_paths;
use crate::object_store::{FileMode, PackedObject, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason};
use crate::pin_group::PinGroup;
use crate::restore::WrittenPath;
use crate::snapshot_store::SnapshotStore;

/// The paths of a capture, by what is there.
#[derive(Default)]
struct WrittenContent {
    leaves: Vec<(RelPath, TreeLeaf)>,
    bits: Vec<(RelPath, u32)>,
    absent: BTreeSet<RelPath>,
    skipped: Vec<(RelPath, UncoveredReason)>,
}

impl WrittenContent {
    fn add(&mut self, path: &RelPath, image: &PathImage) {
        match *image {
            PathImage::Present { leaf, perm } => {
                if leaf.mode != FileMode::Link {
                    self.bits.push((path.clone(), perm));
                }
                self.leaves.push((path.clone(), leaf));
            }
            PathImage::Absent => drop(self.absent.insert(path.clone())),
            // Tools write files: what else there is was not looked at.
            PathImage::Directory { .. } => {
                self.skipped.push((path.clone(), UncoveredReason::Special));
            }
            PathImage::Uncovered { reason } => self.skipped.push((path.clone(), reason)),
        }
    }
}

/// Captures paths as a tool left them, whatever is on the disk now; only the directories above are looked at.
///
/// # Errors
///
/// See [`CaptureError`]. Bytes that are not those of their image are an error, too.
pub(crate) fn capture_written(
    store: &SnapshotStore,
    group: &PinGroup,
    written: &[WrittenPath],
    now: EpochMillis,
) -> Result<CaptureOutcome, CaptureError> {
    store.packs().merge_packs_if_many()?;
    let held = store.lock_objects_shared();
    store.check_root()?;
    let paths: BTreeSet<RelPath> = written.iter().map(|one| one.path.clone()).collect();
    let above = inspect_paths(&store.worktree, &paths);
    let is_stored = store.repository.existence_check();
    let mut writer = store.repository.new_pack_writer()?;
    let mut content = WrittenContent::default();
    for one in written {
        if let Some(packed) = packed_bytes(one)?
            && !is_stored(&packed.oid)
            && !writer.has(&packed.oid)
        {
            writer.add(&packed)?;
        }
        content.add(&one.path, &one.image);
    }
    let directories = above.directories(content.leaves.iter().map(|(path, _)| path));
    let is_above = |path: &RelPath| !paths.contains(path);
    content.absent.extend(above.absent.into_iter().filter(is_above));
    content.leaves.sort_by(|one, other| one.0.cmp(&other.0));
    content.bits.sort();
    content.skipped.sort_by(|one, other| one.0.cmp(&other.0));
    let bits = content.bits.iter().map(|(path, bits)| (path, *bits));
    let coverage = CaptureCoverage {
        scope: CaptureScope::Named,
        directories: Some(directories),
        skipped: content.skipped,
        absent: content.absent.into_iter().collect(),
        permissions: CapturedPermissions::collect(bits),
        ..CaptureCoverage::default()
    };
    let captured = store.write_named_capture(&content.leaves, coverage, false, writer, group, now);
    drop(held);
    captured
}

/// The bytes of a path as an object; `None` if the store has them already.
fn packed_bytes(one: &WrittenPath) -> io::Result<Option<PackedObject>> {
    let (PathImage::Present { leaf, .. }, Some(bytes)) = (&one.image, &one.bytes) else {
        return Ok(None);
    };
    let packed = PackedObject::new(Kind::Blob, bytes)?;
    match packed.oid == leaf.blob {
        true => Ok(Some(packed)),
        false => Err(io::Error::other("the bytes of a written file are not those of its image")),
    }
}
