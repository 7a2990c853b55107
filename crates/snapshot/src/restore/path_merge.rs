//! One path: its three-way steps are followed in memory; bytes and permission bits are merged apart.

use gix::objs::Kind;
use turnstone_core::change::{ThreeWayStep, merge_permission_bits};

use super::plan::RestoreError;
use super::report::ConflictReason;
use super::text_merge::{TextMerge, find_added_text, merge_text};
use crate::object_store::{FileMode, ObjectRepository, Oid, TreeLeaf, hash_object};
use crate::path_image::{PathImage, UncoveredReason};

/// The state of a path after some steps of its target.
pub(super) struct DerivedState {
    pub(super) state: PathImage,
    /// The bytes, unless the store has them.
    pub(super) data: Option<Vec<u8>>,
    pub(super) merged: bool,
}

/// Why a step cannot be followed.
pub(super) enum LinkFailure {
    Conflict(ConflictReason),
    NotCovered(UncoveredReason),
}

/// A regular file: the name of its bytes, and its permission bits.
#[derive(Clone, Copy)]
struct RegularFile {
    leaf: TreeLeaf,
    perm: u32,
}

impl RegularFile {
    fn of(image: PathImage) -> Option<Self> {
        match image {
            PathImage::Present { leaf, perm } if leaf.mode != FileMode::Link => {
                Some(Self { leaf, perm })
            }
            PathImage::Present { .. }
            | PathImage::Directory { .. }
            | PathImage::Absent
            | PathImage::Uncovered { .. } => None,
        }
    }
}

/// Follows the steps of targets; reads the bytes of merges from the store.
pub(super) struct PathMerger<'s> {
    pub(super) repository: &'s ObjectRepository,
}

impl PathMerger<'_> {
    /// Follows steps from `at`, until one cannot be followed.
    pub(super) fn follow_links(
        &self,
        at: &mut DerivedState,
        links: &[ThreeWayStep],
    ) -> Result<Result<(), LinkFailure>, RestoreError> {
        for link in links {
            let base = match &link.base {
                Some(base) => self.derive_state(base, &link.base_by)?.map(Some),
                None => Ok(None),
            };
            let (base, target) = match (base, self.derive_state(&link.target, &link.target_by)?) {
                (Ok(base), Ok(target)) => (base, target),
                (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
            };
            if let Err(why) = self.apply_link(at, base.as_ref(), target)? {
                return Ok(Err(LinkFailure::Conflict(why)));
            }
        }
        Ok(Ok(()))
    }

    /// Where steps lead from an image.
    fn derive_state(
        &self,
        image: &PathImage,
        by: &[ThreeWayStep],
    ) -> Result<Result<DerivedState, LinkFailure>, RestoreError> {
        if let Some(reason) = image.uncovered_reason() {
            return Ok(Err(LinkFailure::NotCovered(reason)));
        }
        let mut at = DerivedState { state: *image, data: None, merged: false };
        Ok(self.follow_links(&mut at, by)?.map(|()| at))
    }

    /// Follows one step: restores, merges, finds it done already, or returns why it cannot be followed.
    fn apply_link(
        &self,
        at: &mut DerivedState,
        base: Option<&DerivedState>,
        target: DerivedState,
    ) -> Result<Result<(), ConflictReason>, RestoreError> {
        let (now, wanted) = (at.state, target.state);
        let Some(base) = base else {
            if now != wanted {
                *at = target;
            }
            return Ok(Ok(()));
        };
        let was = base.state;
        // Done already, or a step without effect: what is there now came later and stays.
        if now == wanted || was == wanted {
            return Ok(Ok(()));
        }
        let files = [now, was, wanted].map(RegularFile::of);
        match (files, now, was, wanted) {
            ([Some(now), Some(was), Some(wanted)], ..) => {
                return self.merge_files(at, base, target, [now, was, wanted]);
            }
            (
                _,
                PathImage::Directory { perm: now },
                PathImage::Directory { perm: was },
                PathImage::Directory { perm: wanted },
            ) => {
                at.state = PathImage::Directory { perm: merge_permission_bits(now, was, wanted) };
            }
            _ if now == was => *at = target,
            _ if is_reached(now, was, wanted) => {}
            ([Some(now), Some(was), None], .., PathImage::Absent)
                if now.leaf.blob != was.leaf.blob =>
            {
                return self.keep_added_text(at, base, now);
            }
            _ => return Ok(Err(find_reason(now, was, wanted))),
        }
        Ok(Ok(()))
    }

    /// Merges a file: its bytes and its permission bits have nothing to do with each other.
    fn merge_files(
        &self,
        at: &mut DerivedState,
        base: &DerivedState,
        target: DerivedState,
        [now, was, wanted]: [RegularFile; 3],
    ) -> Result<Result<(), ConflictReason>, RestoreError> {
        let perm = merge_permission_bits(now.perm, was.perm, wanted.perm);
        let [ours, old, theirs] = [now, was, wanted].map(|file| file.leaf.blob);
        let blob = if ours == old {
            (at.data, at.merged) = (target.data, target.merged);
            theirs
        } else if ours == theirs || old == theirs {
            ours
        } else {
            let read = |side: &DerivedState| self.read_bytes(side);
            let bytes = match merge_text(&read(base)?, &read(at)?, &read(&target)?) {
                TextMerge::Text(bytes) => bytes,
                TextMerge::Overlap => return Ok(Err(ConflictReason::Overlap)),
                TextMerge::NotText => return Ok(Err(ConflictReason::NotMergeable)),
            };
            let blob = hash_object(Kind::Blob, &bytes)?;
            (at.data, at.merged) = (Some(bytes), true);
            blob
        };
        at.state = PathImage::Present { leaf: TreeLeaf { blob, mode: mode_of(perm) }, perm };
        Ok(Ok(()))
    }

    /// Takes the text that was there first out of a file that is to go; text added since stays.
    fn keep_added_text(
        &self,
        at: &mut DerivedState,
        base: &DerivedState,
        now: RegularFile,
    ) -> Result<Result<(), ConflictReason>, RestoreError> {
        let Some(added) = find_added_text(&self.read_bytes(base)?, &self.read_bytes(at)?) else {
            return Ok(Err(ConflictReason::ChangedSinceCreation));
        };
        let RegularFile { leaf: TreeLeaf { mode, .. }, perm } = now;
        let blob = hash_object(Kind::Blob, &added)?;
        at.state = PathImage::Present { leaf: TreeLeaf { blob, mode }, perm };
        (at.data, at.merged) = (Some(added), true);
        Ok(Ok(()))
    }

    fn read_bytes(&self, side: &DerivedState) -> Result<Vec<u8>, RestoreError> {
        match &side.data {
            Some(data) => Ok(data.clone()),
            None => self.read_state_bytes(side.state),
        }
    }

    /// Reads the bytes of a file or link from the store.
    pub(super) fn read_state_bytes(&self, state: PathImage) -> Result<Vec<u8>, RestoreError> {
        match state.leaf() {
            Some(leaf) => Ok(self.repository.read_verified(&leaf.blob, Kind::Blob)?),
            None => Ok(Vec::new()),
        }
    }
}

/// What git remembers of these permission bits.
const fn mode_of(perm: u32) -> FileMode {
    if perm & 0o100 == 0 { FileMode::File } else { FileMode::Exec }
}

/// True if a path holds what is wanted but for its permission bits, which are its maker's own.
fn is_reached(now: PathImage, was: PathImage, wanted: PathImage) -> bool {
    match wanted {
        PathImage::Present { .. } => content_of(now) == content_of(wanted),
        PathImage::Directory { .. } => now.is_directory(),
        // A directory that took the place of a file that is to go: the file is gone.
        PathImage::Absent => now.is_directory() && !was.is_directory(),
        PathImage::Uncovered { .. } => false,
    }
}

/// The bytes of a file or link, and whether it is a link.
fn content_of(image: PathImage) -> Option<(Oid, bool)> {
    image.leaf().map(|leaf| (leaf.blob, leaf.mode == FileMode::Link))
}

/// Why a path that holds `now` instead of `was` is not brought to `wanted`.
fn find_reason(now: PathImage, was: PathImage, wanted: PathImage) -> ConflictReason {
    let is_same_kind =
        now.is_directory() == was.is_directory() && content_of(now) == content_of(was);
    if now == PathImage::Absent {
        ConflictReason::Removed
    } else if was == PathImage::Absent {
        ConflictReason::Recreated
    } else if is_same_kind {
        ConflictReason::ModeChanged
    } else if wanted == PathImage::Absent && RegularFile::of(now).is_some() {
        ConflictReason::ChangedSinceCreation
    } else if std::mem::discriminant(&now) != std::mem::discriminant(&was)
        || RegularFile::of(now).is_some() != RegularFile::of(was).is_some()
    {
        ConflictReason::KindChanged
    } else {
        ConflictReason::NotMergeable
    }
}
