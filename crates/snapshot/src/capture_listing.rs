//! Lists for people: captures of every group, files of a capture, and what a short name means.

use std::collections::BTreeMap;

use serde::Serialize;
use turnstone_core::time::EpochMillis;

use crate::capture::Capture;
use crate::capture_catalog::CaptureCatalog;
use crate::capture_chain::{capture_id, capture_time};
use crate::object_store::{Commit, FileMode, ObjectError, ObjectRepository, Oid, TreeEntry};
use crate::path::RelPath;
use crate::path_image::{PathImage, present_image};
use crate::restore::GROUP_PREFIX;
use crate::snapshot_handle::{PREVIEW_GROUP, SnapshotError};

/// Shorter prefixes are not accepted.
const MIN_PREFIX_LEN: usize = 4;

/// A capture, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedCapture {
    /// Names the capture.
    pub id: Oid,
    /// Its content.
    pub tree: Oid,
    /// When it was made.
    pub time: EpochMillis,
    /// The pin group that keeps it.
    pub group: String,
    /// How the changed files were found; `named` if it holds some paths only.
    pub mode: String,
    /// Files in it, if that was written down.
    pub files: Option<usize>,
}

impl ListedCapture {
    fn new(oid: Oid, commit: &Commit) -> Self {
        let id = capture_id(&oid, commit);
        let text = |name: &str| commit.trailer(name).map(str::to_owned);
        Self {
            id,
            tree: commit.tree,
            time: capture_time(commit),
            group: text("Turnstone-Group").unwrap_or_default(),
            mode: text("Turnstone-Mode").unwrap_or_default(),
            files: text("Turnstone-Files").and_then(|text| text.parse().ok()),
        }
    }

    /// True if it was made on the way to something else: to look, or to guard a restore.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.group == PREVIEW_GROUP || self.group.starts_with(GROUP_PREFIX)
    }

    /// True if it keeps what a restore displaced.
    #[must_use]
    pub fn is_guard(&self) -> bool {
        self.group.starts_with(GROUP_PREFIX)
    }

    /// True if it holds some paths only.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.mode == "named"
    }
}

/// A file of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedFile {
    /// The file, below the root.
    pub path: RelPath,
    /// What git remembers of its mode.
    pub mode: FileMode,
    /// Its permission bits; zero for a link.
    pub perm: u32,
    /// Its bytes.
    pub blob: Oid,
    /// Their size in bytes.
    pub size: u64,
}

impl CaptureCatalog<'_> {
    /// Lists the captures of every group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_all(&self) -> Result<Vec<ListedCapture>, ObjectError> {
        let mut found: Vec<_> = self.list_chains()?.into_values().flatten().collect();
        // Of one moment and one group, the later one comes first as the chain has it.
        found.sort_by_key(|capture| std::cmp::Reverse(capture.time));
        Ok(found)
    }

    /// Lists the captures of every group by the name of the group, newest first as the chain has it.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_chains(&self) -> Result<BTreeMap<String, Vec<ListedCapture>>, ObjectError> {
        let mut found = BTreeMap::<String, Vec<ListedCapture>>::new();
        for tip in self.repository.refs().list()?.into_values() {
            let commits = self.read_chain_from(tip)?;
            let listed = commits.iter().map(|(oid, commit)| ListedCapture::new(*oid, commit));
            let listed: Vec<ListedCapture> = listed.collect();
            let group = listed.first().map(|newest| newest.group.clone()).unwrap_or_default();
            found.entry(group).or_default().extend(listed);
        }
        Ok(found)
    }

    /// Finds the capture that a tree, a capture's id, or a unique prefix of either names.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NoCapture`], and [`SnapshotError::Ambiguous`] if captures with other content share the prefix.
    pub fn find(&self, text: &str) -> Result<Capture, SnapshotError> {
        let none = || {
            let root = self.root.to_owned();
            SnapshotError::NoCapture { text: text.to_owned(), root }
        };
        let wanted = text.to_ascii_lowercase();
        if wanted.len() < MIN_PREFIX_LEN {
            return Err(none());
        }
        // A complete id needs no list.
        if let Ok(id) = wanted.parse::<Oid>() {
            match self.get(&id) {
                // It names a tree, or nothing.
                Err(ObjectError::Missing(_) | ObjectError::Corrupt(_)) => {}
                found => return Ok(found?),
            }
        }
        let begins = |oid: &Oid| oid.to_string().starts_with(&wanted);
        let mut found = self.list_all()?;
        found.retain(|capture| begins(&capture.tree) || begins(&capture.id));
        // Whole captures say more of the same content than those of some paths.
        found.sort_by_key(ListedCapture::is_partial);
        let first = found.first().ok_or_else(none)?;
        if found.iter().any(|capture| capture.tree != first.tree) {
            let mut candidates: Vec<Oid> = found.iter().map(|capture| capture.tree).collect();
            candidates.sort_unstable();
            candidates.dedup();
            return Err(SnapshotError::Ambiguous { text: text.to_owned(), candidates });
        }
        Ok(self.get(&first.id)?)
    }

    /// Lists the files of a capture, in git's order.
    ///
    /// # Errors
    ///
    /// A tree cannot be read whole.
    pub fn list_files(&self, capture: &Capture) -> Result<Vec<ListedFile>, ObjectError> {
        let mut found = Vec::new();
        list_below(self.repository, capture, (&capture.tree, None), &mut found)?;
        Ok(found)
    }
}

fn list_below(
    repository: &ObjectRepository,
    capture: &Capture,
    (tree, above): (&Oid, Option<&RelPath>),
    found: &mut Vec<ListedFile>,
) -> Result<(), ObjectError> {
    for (name, entry) in repository.read_tree(tree)? {
        let path = match above {
            Some(above) => above.join(&name),
            None => RelPath::new(name),
        };
        let path = path.map_err(|_| ObjectError::Corrupt(*tree))?;
        match entry {
            TreeEntry::Tree(below) => {
                list_below(repository, capture, (&below, Some(&path)), found)?;
            }
            TreeEntry::Leaf(leaf) => {
                let perm = match present_image(capture, &path, leaf) {
                    PathImage::Present { perm, .. } => perm,
                    PathImage::Directory { .. }
                    | PathImage::Absent
                    | PathImage::Uncovered { .. } => 0,
                };
                let size = repository.object_size(&leaf.blob)?;
                found.push(ListedFile { path, mode: leaf.mode, perm, blob: leaf.blob, size });
            }
        }
    }
    Ok(())
}
