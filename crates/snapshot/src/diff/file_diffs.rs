//! Changes made visible: status, counted lines, patches, within bounds.

use serde::Serialize;

use turnstone_core::change::FileChange;

use super::patch::{self, PatchBody};
use super::rename::{DetectedRename, RenameDetector};
use super::tree_diff::capture_changes;
use crate::capture::Capture;
use crate::object_store::{FileMode, ObjectError, ObjectRepository, TreeLeaf};
use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason};
use crate::snapshot_store::SnapshotStore;

/// What of a difference is shown, and how.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// Only what lies at this path or below; nothing: everything.
    pub scope: Option<RelPath>,
    /// Unchanged lines around a change.
    pub context: usize,
    /// A file with more bytes on either side is not compared line by line.
    pub max_file_bytes: usize,
    /// A file with more lines that may have moved, on both sides together, is not compared line by
    /// line: that takes time that grows faster than the file.
    pub max_lines: usize,
    /// A patch with more bytes is left out.
    pub max_patch_bytes: usize,
    /// Once all patches together would have more bytes, a patch is left out.
    pub max_total_bytes: usize,
    /// Pairs deleted files with added ones that look like them, for display only.
    pub renames: bool,
    /// Writes the bytes of files that are no text, or too large to be compared as text, into the patch.
    pub binary_patches: bool,
    /// A file with more bytes on either side is not written into the patch.
    pub max_binary_bytes: usize,
    /// Text in another encoding than UTF-8 is no text: for callers that keep patches as strings.
    pub only_utf8_is_text: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            scope: None,
            context: 3,
            max_file_bytes: 16 << 20,
            max_lines: 200_000,
            max_patch_bytes: 4 << 20,
            max_total_bytes: 64 << 20,
            renames: false,
            binary_patches: false,
            max_binary_bytes: 64 << 20,
            only_utf8_is_text: false,
        }
    }
}

impl DiffOptions {
    /// A file with more bytes is not read.
    pub(super) fn max_content_bytes(&self) -> usize {
        if self.binary_patches {
            self.max_file_bytes.max(self.max_binary_bytes)
        } else {
            self.max_file_bytes
        }
    }

    /// True if a path is asked for.
    pub(super) fn includes(&self, path: &RelPath) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope == path || scope.is_ancestor_of(path))
    }

    /// True if a path, or one below it, is asked for.
    pub(super) fn may_include(&self, path: &RelPath) -> bool {
        self.includes(path) || self.scope.as_ref().is_some_and(|scope| path.is_ancestor_of(scope))
    }
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffStatus {
    /// It was not there before.
    Added,
    /// Its bytes or its mode are others.
    Modified,
    /// It is not there any more.
    Deleted,
    /// A file became a link, or a link a file.
    Type,
}

/// One file that differs.
#[derive(Clone, Debug)]
pub struct PathDiff {
    /// The file, below the root.
    pub path: RelPath,
    /// Whether it was added, changed or deleted.
    pub status: DiffStatus,
    /// Lines only the second side has; zero where lines were not compared.
    pub additions: usize,
    /// Lines only the first side has.
    pub deletions: usize,
    /// The change as text.
    pub patch: PatchBody,
}

/// Everything that differs.
#[derive(Clone, Debug, Default)]
pub struct CaptureDiff {
    /// The files, in git's order.
    pub files: Vec<PathDiff>,
    /// Paths that one side has and the other does not cover.
    pub not_covered: Vec<(RelPath, UncoveredReason)>,
    /// Deleted files and the added ones they may have become; each is among the files as well.
    pub renames: Vec<DetectedRename>,
    /// True if there were more files than are compared with each other: renames may be missing.
    pub renames_cut: bool,
}

impl CaptureDiff {
    /// All patches one after the other; `git apply` takes it. Binary files are in it if they were asked for.
    #[must_use]
    pub fn patch(&self) -> Vec<u8> {
        let text = |file: &PathDiff| match &file.patch {
            PatchBody::Text(text) | PatchBody::BinaryPatch(text) => text.clone(),
            PatchBody::Binary | PatchBody::TooLarge => Vec::new(),
        };
        self.files.iter().flat_map(text).collect()
    }
}

/// One side of a file: what it is, and its bytes.
pub(crate) type DiffSide = Option<(TreeLeaf, Vec<u8>)>;

/// Why the second side of a file has no bytes.
pub(crate) enum UnreadSide {
    Object(ObjectError),
    Uncovered(UncoveredReason),
    /// It has more bytes than are compared.
    TooLarge,
}

/// Differences between captures, and between a capture and the worktree. Nothing is stored.
pub struct CaptureDiffs<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl CaptureDiffs<'_> {
    /// Compares two captures.
    ///
    /// # Errors
    ///
    /// An object cannot be read; there is no difference then, not an empty one.
    pub fn between(
        &self,
        one: &Capture,
        other: &Capture,
        options: &DiffOptions,
    ) -> Result<CaptureDiff, ObjectError> {
        let _held = self.store.lock_objects_shared();
        let repository = &self.store.repository;
        let changes = capture_changes(repository, one, other)?;
        build_diff(repository, changes, options, |_, leaf| read_stored_side(repository, leaf))
    }

    /// Compares the two sides of each change, in the order given; a path may occur more than once.
    ///
    /// # Errors
    ///
    /// An object cannot be read; there is no difference then, not an empty one.
    pub fn of_changes(
        &self,
        changes: &[FileChange],
        options: &DiffOptions,
    ) -> Result<CaptureDiff, ObjectError> {
        let _held = self.store.lock_objects_shared();
        let repository = &self.store.repository;
        let read = |_: &RelPath, leaf| read_stored_side(repository, leaf);
        build_diff(repository, changes.to_vec(), options, read)
    }
}

/// Compares the sides of changes; `read` returns the bytes of the second side.
pub(super) fn build_diff(
    repository: &ObjectRepository,
    changes: Vec<FileChange>,
    options: &DiffOptions,
    read: impl Fn(&RelPath, Option<TreeLeaf>) -> Result<DiffSide, UnreadSide>,
) -> Result<CaptureDiff, ObjectError> {
    let mut diff = CaptureDiff::default();
    let (mut pairs, mut room) = (RenameDetector::default(), options.max_total_bytes);
    for FileChange { path, before, after } in changes {
        if !options.includes(&path) {
            continue;
        }
        if let (PathImage::Uncovered { reason }, _) | (_, PathImage::Uncovered { reason }) =
            (before, after)
        {
            diff.not_covered.push((path, reason));
            continue;
        }
        let file = match read(&path, after.leaf()) {
            Ok(new) => {
                let old = read_leaf_bytes(repository, before.leaf())?;
                if options.renames {
                    pairs.add(&path, &old, &new);
                }
                compare_sides(path, &old, &new, options)
            }
            Err(UnreadSide::Object(error)) => return Err(error),
            Err(UnreadSide::Uncovered(reason)) => {
                diff.not_covered.push((path, reason));
                continue;
            }
            Err(UnreadSide::TooLarge) => {
                let status = before.leaf().map_or(DiffStatus::Added, |_| DiffStatus::Modified);
                let patch = PatchBody::TooLarge;
                Some(PathDiff { path, status, additions: 0, deletions: 0, patch })
            }
        };
        diff.files.extend(file.map(|file| file.fit_to_limit(&mut room)));
    }
    (diff.renames, diff.renames_cut) = pairs.detect();
    Ok(diff)
}

fn read_leaf_bytes(
    repository: &ObjectRepository,
    leaf: Option<TreeLeaf>,
) -> Result<DiffSide, ObjectError> {
    leaf.map(|leaf| Ok((leaf, repository.read(&leaf.blob)?.1))).transpose()
}

fn read_stored_side(
    repository: &ObjectRepository,
    leaf: Option<TreeLeaf>,
) -> Result<DiffSide, UnreadSide> {
    read_leaf_bytes(repository, leaf).map_err(UnreadSide::Object)
}

impl PathDiff {
    /// Leaves the patch out if there is no room for it, else takes the room.
    fn fit_to_limit(mut self, room: &mut usize) -> Self {
        if let PatchBody::Text(text) | PatchBody::BinaryPatch(text) = &self.patch {
            match room.checked_sub(text.len()) {
                Some(rest) => *room = rest,
                None => self.patch = PatchBody::TooLarge,
            }
        }
        self
    }
}

/// Compares one file; `None` if both sides are the same.
fn compare_sides(
    path: RelPath,
    old: &DiffSide,
    new: &DiffSide,
    options: &DiffOptions,
) -> Option<PathDiff> {
    let is_link = |leaf: &TreeLeaf| leaf.mode == FileMode::Link;
    let status = match (old, new) {
        (None, None) => return None,
        (None, Some(_)) => DiffStatus::Added,
        (Some(_), None) => DiffStatus::Deleted,
        (Some((one, _)), Some((other, _))) if one == other => return None,
        (Some((one, _)), Some((other, _))) if is_link(one) != is_link(other) => DiffStatus::Type,
        (Some(_), Some(_)) => DiffStatus::Modified,
    };
    let (old, new) = (as_patch_side(old), as_patch_side(new));
    let (patch, additions, deletions) = patch::build_patch(&path, old, new, options);
    Some(PathDiff { path, status, additions, deletions, patch })
}

fn as_patch_side(bytes: &DiffSide) -> Option<(TreeLeaf, &[u8])> {
    bytes.as_ref().map(|(leaf, data)| (*leaf, &data[..]))
}
