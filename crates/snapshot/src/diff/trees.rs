//! Two trees, side by side.

use serde::Serialize;

use super::patch::{self, Patch};
use crate::capture::Capture;
use crate::coverage::Reason;
use crate::image::Image;
use crate::object::{Leaf, LeafMode, ObjectError, Oid, TreeEntry};
use crate::path::RelPath;
use crate::shadow::Shadow;

/// How a difference is shown.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// Unchanged lines around a change.
    pub context: usize,
    /// A file with more bytes on either side is not compared line by line.
    pub max_file_bytes: usize,
    /// A patch with more bytes is left out.
    pub max_patch_bytes: usize,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self { context: 3, max_file_bytes: 16 << 20, max_patch_bytes: 4 << 20 }
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
    /// Lines only the second capture has; zero where lines were not compared.
    pub additions: usize,
    /// Lines only the first capture has.
    pub deletions: usize,
    /// The change as text.
    pub patch: Patch,
}

/// Everything that differs.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The files, in git's order.
    pub files: Vec<FileDiff>,
    /// Paths in one capture that the other does not cover: nothing can be said of them.
    pub not_covered: Vec<(RelPath, Reason)>,
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

/// A path at which two trees differ.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) path: RelPath,
    pub(crate) before: Image,
    pub(crate) after: Image,
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
        let mut diff = Diff::default();
        for change in self.changes(one, other)? {
            let Change { path, before, after } = change;
            match (before, after) {
                (Image::Uncovered { reason }, _) | (_, Image::Uncovered { reason }) => {
                    diff.not_covered.push((path, reason));
                }
                _ => diff.files.push(self.diff_file(path, before.leaf(), after.leaf(), options)?),
            }
        }
        Ok(diff)
    }

    /// Lists the paths at which two captures differ, in git's order.
    pub(crate) fn changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<Change>, ObjectError> {
        let mut leaves = Vec::new();
        self.compare(None, Some(&one.tree), Some(&other.tree), &mut leaves)?;
        leaves.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let image = |capture: &Capture, path: &RelPath, leaf: Option<Leaf>| match leaf {
            Some(leaf) => Image::present(capture, path, leaf),
            None => Image::missing(capture, path),
        };
        let changes = leaves.into_iter().map(|(path, before, after)| Change {
            before: image(one, &path, before),
            after: image(other, &path, after),
            path,
        });
        Ok(changes.collect())
    }

    /// Finds the files that differ below two trees; equal trees are not opened.
    fn compare(
        &self,
        path: Option<&RelPath>,
        before: Option<&Oid>,
        after: Option<&Oid>,
        found: &mut Vec<(RelPath, Option<Leaf>, Option<Leaf>)>,
    ) -> Result<(), ObjectError> {
        if before == after {
            return Ok(());
        }
        let read = |tree: Option<&Oid>| match tree {
            Some(tree) => self.repository.read_tree(tree),
            None => Ok(Vec::new()),
        };
        let (mut old, new) = (read(before)?, read(after)?);
        old.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut pairs: Vec<(Vec<u8>, Option<TreeEntry>, Option<TreeEntry>)> = Vec::new();
        for (name, entry) in new {
            let index = old.binary_search_by(|(other, _)| other.cmp(&name)).ok();
            pairs.push((name, index.map(|index| old.remove(index).1), Some(entry)));
        }
        pairs.extend(old.into_iter().map(|(name, entry)| (name, Some(entry), None)));
        let broken = || ObjectError::Corrupt(*before.or(after).unwrap_or(&Oid([0; 20])));
        for (name, before, after) in pairs {
            if before == after {
                continue;
            }
            let child = match path {
                Some(path) => path.join(&name),
                None => RelPath::new(name),
            };
            let child = child.map_err(|_| broken())?;
            let leaves = (leaf(before.as_ref()), leaf(after.as_ref()));
            if leaves != (None, None) {
                found.push((child.clone(), leaves.0, leaves.1));
            }
            self.compare(Some(&child), tree(before.as_ref()), tree(after.as_ref()), found)?;
        }
        Ok(())
    }

    fn diff_file(
        &self,
        path: RelPath,
        before: Option<Leaf>,
        after: Option<Leaf>,
        options: &DiffOptions,
    ) -> Result<FileDiff, ObjectError> {
        let status = match (before, after) {
            (None, _) => Status::Added,
            (_, None) => Status::Deleted,
            (Some(one), Some(other)) if is_link(one) != is_link(other) => Status::Type,
            _ => Status::Modified,
        };
        let read = |leaf: Option<Leaf>| match leaf {
            Some(leaf) => self.repository.read(&leaf.blob).map(|(_, data)| data),
            None => Ok(Vec::new()),
        };
        let (old, new) = (read(before)?, read(after)?);
        let before = before.map(|leaf| (leaf, &old[..]));
        let after = after.map(|leaf| (leaf, &new[..]));
        let (patch, additions, deletions) = patch::make(&path, before, after, options);
        Ok(FileDiff { path, status, additions, deletions, patch })
    }
}

fn is_link(leaf: Leaf) -> bool {
    leaf.mode == LeafMode::Link
}

fn leaf(entry: Option<&TreeEntry>) -> Option<Leaf> {
    match entry {
        Some(TreeEntry::Leaf(leaf)) => Some(*leaf),
        Some(TreeEntry::Tree(_)) | None => None,
    }
}

fn tree(entry: Option<&TreeEntry>) -> Option<&Oid> {
    match entry {
        Some(TreeEntry::Tree(tree)) => Some(tree),
        Some(TreeEntry::Leaf(_)) | None => None,
    }
}
