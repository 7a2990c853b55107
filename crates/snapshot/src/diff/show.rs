//! Changes made visible: status, counted lines, patches, within bounds.

use serde::Serialize;

use super::patch::{self, Patch};
use super::rename::{Pairs, Rename};
use super::trees::Change;
use crate::capture::Capture;
use crate::coverage::Reason;
use crate::image::Image;
use crate::object::{Leaf, LeafMode, ObjectError};
use crate::path::RelPath;
use crate::shadow::Shadow;

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
        }
    }
}

impl DiffOptions {
    /// Tells whether a path is asked for.
    pub(super) fn covers(&self, path: &RelPath) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope == path || scope.is_above(path))
    }

    /// Tells whether a path, or one below it, is asked for.
    pub(super) fn reaches(&self, path: &RelPath) -> bool {
        self.covers(path) || self.scope.as_ref().is_some_and(|scope| path.is_above(scope))
    }
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
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
pub struct FileDiff {
    /// Where.
    pub path: RelPath,
    /// How.
    pub status: Status,
    /// Lines only the second side has; zero where lines were not compared.
    pub additions: usize,
    /// Lines only the first side has.
    pub deletions: usize,
    /// The change as text.
    pub patch: Patch,
}

/// Everything that differs.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The files, in git's order.
    pub files: Vec<FileDiff>,
    /// Paths one side has and the other does not cover: nothing can be said of them.
    pub not_covered: Vec<(RelPath, Reason)>,
    /// Deleted files and the added ones they may have become; each is among the files as well.
    pub renames: Vec<Rename>,
    /// True if there were more files than are compared with each other: renames may be missing.
    pub renames_cut: bool,
}

impl Diff {
    /// All patches one after the other; `git apply` takes it. Binary files are not in it.
    #[must_use]
    pub fn patch(&self) -> Vec<u8> {
        let text = |file: &FileDiff| match &file.patch {
            Patch::Text(text) => text.clone(),
            Patch::Binary | Patch::TooLarge => Vec::new(),
        };
        self.files.iter().flat_map(text).collect()
    }
}

/// One side of a file: what it is, and its bytes.
pub(crate) type Bytes = Option<(Leaf, Vec<u8>)>;

/// Why the second side of a file has no bytes.
pub(crate) enum Unread {
    Object(ObjectError),
    Uncovered(Reason),
    /// It has more bytes than are compared.
    TooLarge,
}

impl Shadow {
    /// Compares two captures.
    ///
    /// # Errors
    ///
    /// An object cannot be read; there is no difference then, not an empty one.
    pub fn diff(
        &self,
        one: &Capture,
        other: &Capture,
        options: &DiffOptions,
    ) -> Result<Diff, ObjectError> {
        let _held = self.hold_objects();
        let changes = self.changes(one, other)?;
        self.show(changes, options, |_, leaf| self.bytes_of(leaf).map_err(Unread::Object))
    }

    /// Shows changes; `read` finds the bytes of what they led to.
    pub(crate) fn show(
        &self,
        changes: Vec<Change>,
        options: &DiffOptions,
        read: impl Fn(&RelPath, Option<Leaf>) -> Result<Bytes, Unread>,
    ) -> Result<Diff, ObjectError> {
        let mut diff = Diff::default();
        let (mut pairs, mut room) = (Pairs::default(), options.max_total_bytes);
        for Change { path, before, after } in changes {
            if !options.covers(&path) {
                continue;
            }
            if let (Image::Uncovered { reason }, _) | (_, Image::Uncovered { reason }) =
                (before, after)
            {
                diff.not_covered.push((path, reason));
                continue;
            }
            let file = match read(&path, after.leaf()) {
                Ok(new) => {
                    let old = self.bytes_of(before.leaf())?;
                    if options.renames {
                        pairs.add(&path, &old, &new);
                    }
                    compare(path, &old, &new, options)
                }
                Err(Unread::Object(error)) => return Err(error),
                Err(Unread::Uncovered(reason)) => {
                    diff.not_covered.push((path, reason));
                    continue;
                }
                Err(Unread::TooLarge) => {
                    let status = before.leaf().map_or(Status::Added, |_| Status::Modified);
                    let patch = Patch::TooLarge;
                    Some(FileDiff { path, status, additions: 0, deletions: 0, patch })
                }
            };
            diff.files.extend(file.map(|file| file.within(&mut room)));
        }
        (diff.renames, diff.renames_cut) = pairs.find();
        Ok(diff)
    }

    pub(crate) fn bytes_of(&self, leaf: Option<Leaf>) -> Result<Bytes, ObjectError> {
        leaf.map(|leaf| Ok((leaf, self.repository.read(&leaf.blob)?.1))).transpose()
    }
}

impl FileDiff {
    /// Leaves the patch out if there is no room for it, else takes the room.
    fn within(mut self, room: &mut usize) -> Self {
        if let Patch::Text(text) = &self.patch {
            match room.checked_sub(text.len()) {
                Some(rest) => *room = rest,
                None => self.patch = Patch::TooLarge,
            }
        }
        self
    }
}

/// Compares one file; nothing if both sides are the same.
fn compare(path: RelPath, old: &Bytes, new: &Bytes, options: &DiffOptions) -> Option<FileDiff> {
    let is_link = |leaf: &Leaf| leaf.mode == LeafMode::Link;
    let status = match (old, new) {
        (None, None) => return None,
        (None, Some(_)) => Status::Added,
        (Some(_), None) => Status::Deleted,
        (Some((one, _)), Some((other, _))) if one == other => return None,
        (Some((one, _)), Some((other, _))) if is_link(one) != is_link(other) => Status::Type,
        (Some(_), Some(_)) => Status::Modified,
    };
    let (old, new) = (side(old), side(new));
    let (patch, additions, deletions) = patch::make(&path, old, new, options);
    Some(FileDiff { path, status, additions, deletions, patch })
}

fn side(bytes: &Bytes) -> Option<(Leaf, &[u8])> {
    bytes.as_ref().map(|(leaf, data)| (*leaf, &data[..]))
}
