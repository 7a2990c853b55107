//! A capture and the files on disk, side by side; nothing is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use turnstone_core::change::FileChange;
use turnstone_core::time::EpochMillis;

use super::file_diffs::{CaptureDiff, CaptureDiffs, DiffOptions, DiffSide, UnreadSide, build_diff};
use super::tree_diff::{
    LeafChange, TreeDifference, compare_trees, list_tree_leaves, to_path_changes,
};
use crate::capture::Capture;
use crate::coverage::{CaptureCoverage, CaptureScope};
use crate::file_hashing::{CurrentContent, HashedFiles, read_current_content};
use crate::object_store::{ObjectError, ObjectRepository, Oid, TreeEntry, TreeLeaf, hash_tree};
use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason, folder_image, missing_image, present_image};
use crate::stat_cache::CachedFile;
use crate::worktree::{FileKind, FileStat, RootError, Worktree};
use crate::worktree_walk::{ScanDelta, WorktreeWalker};

/// Why the files on disk could not be compared. There is no difference then, not an empty one.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The worktree is not the one that was opened.
    #[error(transparent)]
    Root(#[from] RootError),
    /// An object cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The root could not be listed.
    #[error("the worktree could not be compared")]
    Io(#[from] io::Error),
}

/// A path whose file on disk differs from a capture.
#[derive(Clone, Debug)]
pub struct SizedFileChange {
    /// What the capture and the disk hold; the bytes on disk need not be in the store.
    pub change: FileChange,
    /// The size of the file on disk; zero if there is none, or a directory.
    pub size: u64,
}

impl CaptureDiffs<'_> {
    /// Lists the paths whose file, directory or permission bits on disk differ from a capture. Of a
    /// capture of named paths only these are compared.
    ///
    /// # Errors
    ///
    /// See [`DiffError`].
    pub fn list_worktree_changes(
        &self,
        capture: &Capture,
    ) -> Result<Vec<SizedFileChange>, DiffError> {
        let _held = self.store.lock_objects_shared();
        self.store.worktree.check_root()?;
        let options = DiffOptions::default();
        let changes = match capture.coverage.scope {
            CaptureScope::Whole => self.worktree_changes(capture, &options, true)?,
            CaptureScope::Named => self.named_path_changes(capture, &options, true)?,
        };
        let stat_of = |path: &RelPath| self.store.worktree.stat(path).ok().flatten();
        let sized = |change: FileChange| SizedFileChange {
            size: stat_of(&change.path)
                .filter(|stat| stat.kind != FileKind::Directory)
                .map_or(0, |stat| stat.size),
            change,
        };
        Ok(changes.into_iter().map(sized).collect())
    }

    /// Compares a capture with the files on disk as they are now.
    ///
    /// Reads what a capture would take and stores nothing. A file that the rules leave out today,
    /// or that cannot be read, is not covered: it is neither added nor deleted (R1). Of a capture of
    /// named paths only these are compared.
    ///
    /// # Errors
    ///
    /// See [`DiffError`].
    pub fn with_worktree(
        &self,
        capture: &Capture,
        options: &DiffOptions,
    ) -> Result<CaptureDiff, DiffError> {
        let _held = self.store.lock_objects_shared();
        self.store.worktree.check_root()?;
        let changes = match capture.coverage.scope {
            CaptureScope::Whole => self.worktree_changes(capture, options, false)?,
            CaptureScope::Named => self.named_path_changes(capture, options, false)?,
        };
        let worktree = &self.store.worktree;
        let read = |path: &RelPath, _| read_worktree_side(worktree, path, options);
        Ok(build_diff(&self.store.repository, changes, options, read)?)
    }

    /// Walks the worktree as a capture does and finds the files whose bytes are others; with
    /// permissions, also files and directories whose bits are, and directories that came or went.
    fn worktree_changes(
        &self,
        capture: &Capture,
        options: &DiffOptions,
        with_permissions: bool,
    ) -> Result<Vec<FileChange>, DiffError> {
        let forced = self.store.lock_state().forced.clone();
        // Only the stat cache is reused: rules and repositories are read again, and nothing that
        // a capture relies on is touched.
        let mut worktree_index = self.store.lock_worktree_index().clone();
        worktree_index.retain_stat_cache(|_, _, _| true);
        let walker = WorktreeWalker {
            worktree: &self.store.worktree,
            selection: &self.store.selection,
            forced: &forced,
            index: &worktree_index,
            trust_index_rules: false,
            watch: None,
            delta: Mutex::default(),
        };
        let found = walker.walk()?;
        let hashed = hash_without_storing(&self.store.worktree, &found);
        worktree_index.apply_scan(found, hashed, true);
        let mut files: Vec<(RelPath, TreeLeaf)> = worktree_index.list_leaves();
        files.retain(|(path, _)| options.includes(path));
        let mut leaves = Vec::new();
        let comparison = TreeComparison { repository: &self.store.repository, options };
        comparison.compare_folder((None, Some(&capture.tree)), &files, &mut leaves)?;
        leaves.retain(|(path, ..)| options.includes(path));
        if with_permissions {
            // Tells which directories hold no file; the trees themselves are not needed.
            worktree_index.build_trees(&|_| true, &mut Vec::new())?;
        }
        let (coverage, _) = worktree_index.coverage(&forced);
        let disk = worktree_as_capture(coverage);
        if !with_permissions {
            return Ok(to_path_changes(capture, &disk, leaves));
        }
        let sides = ComparedFiles {
            before: list_tree_leaves(&self.store.repository, &capture.tree)?,
            after: files.into_iter().collect(),
        };
        // These come first: where a file became a directory, or the reverse, they say both sides.
        let folders = worktree_index.list_folders();
        let mut changes = sides.directory_changes(capture, &disk, &folders);
        changes.retain(|change| options.includes(&change.path));
        changes.extend(to_path_changes(capture, &disk, leaves));
        changes.extend(sides.permission_changes(capture, &disk));
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes.dedup_by(|one, other| one.path == other.path);
        Ok(changes)
    }

    /// Reads only the paths that a capture was asked to take.
    fn named_path_changes(
        &self,
        capture: &Capture,
        options: &DiffOptions,
        with_permissions: bool,
    ) -> Result<Vec<FileChange>, DiffError> {
        let mut found = TreeDifference::default();
        compare_trees(&self.store.repository, None, (Some(&capture.tree), None), &mut found)?;
        let TreeDifference { leaves, folders } = found;
        let coverage = &capture.coverage;
        let bare = coverage.directories.iter().flat_map(|directories| &directories.bare);
        let missing = coverage.absent.iter().chain(bare).cloned();
        let files = leaves.into_iter().filter_map(|(path, leaf, _)| Some((path, leaf?)));
        let before = files
            .map(|(path, leaf)| (present_image(capture, &path, leaf), path))
            .chain(folders.into_iter().map(|path| (folder_image(capture, &path), path)))
            .chain(missing.map(|path| (missing_image(capture, &path), path)));
        let mut changes: Vec<FileChange> = before
            .filter(|(_, path)| options.includes(path))
            .map(|(before, path)| FileChange {
                before,
                after: read_current_content(&self.store.worktree, &path).image,
                path,
            })
            .collect();
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes.retain(|change| match with_permissions {
            true => change.before != change.after,
            false => change.before.leaf() != change.after.leaf(),
        });
        Ok(changes)
    }
}

/// All files of a capture and of the disk.
struct ComparedFiles {
    before: BTreeMap<RelPath, TreeLeaf>,
    after: BTreeMap<RelPath, TreeLeaf>,
}

impl ComparedFiles {
    /// Lists files whose bytes are the same and whose permission bits are not.
    fn permission_changes(&self, capture: &Capture, disk: &Capture) -> Vec<FileChange> {
        let same = self.before.iter().filter(|(path, leaf)| self.after.get(*path) == Some(*leaf));
        let images = same.map(|(path, leaf)| FileChange {
            path: path.clone(),
            before: present_image(capture, path, *leaf),
            after: present_image(disk, path, *leaf),
        });
        images.filter(|change| change.before != change.after).collect()
    }

    /// Lists directories that came, went, changed their bits, or are something else on one side;
    /// `folders` are those of the disk. A capture that does not record directories says nothing of them.
    fn directory_changes(
        &self,
        capture: &Capture,
        disk: &Capture,
        folders: &BTreeMap<RelPath, u32>,
    ) -> Vec<FileChange> {
        let Some(directories) = &capture.coverage.directories else { return Vec::new() };
        let in_tree: BTreeSet<RelPath> = self.before.keys().flat_map(RelPath::ancestors).collect();
        let recorded = in_tree.iter().chain(&directories.bare);
        let paths: BTreeSet<RelPath> = recorded.chain(folders.keys()).cloned().collect();
        let before = |path: &RelPath| match self.before.get(path) {
            _ if in_tree.contains(path) => folder_image(capture, path),
            Some(leaf) => present_image(capture, path, *leaf),
            None => missing_image(capture, path),
        };
        let after = |path: &RelPath| match (folders.get(path), self.after.get(path)) {
            (Some(perm), _) => PathImage::Directory { perm: *perm },
            (None, Some(leaf)) => present_image(disk, path, *leaf),
            (None, None) => missing_image(disk, path),
        };
        let changes = paths.into_iter().map(|path| FileChange {
            before: before(&path),
            after: after(&path),
            path,
        });
        let is_known = |change: &FileChange| change.before != change.after && change.is_covered();
        changes.filter(is_known).collect()
    }
}

/// Reads the files that nothing proves unchanged, and keeps their images, not their bytes.
fn hash_without_storing(worktree: &Worktree, found: &ScanDelta) -> HashedFiles {
    let stale: Vec<RelPath> = found.stale_files().into_iter().map(|(path, _)| path).collect();
    let looked: Vec<(RelPath, PathImage, Option<FileStat>)> = stale
        .into_par_iter()
        .map(|path| {
            let CurrentContent { image, stat, .. } = read_current_content(worktree, &path);
            (path, image, stat)
        })
        .collect();
    let mut hashed = HashedFiles::default();
    for (path, image, stat) in looked {
        match (image.leaf(), stat, image.uncovered_reason()) {
            (Some(leaf), Some(stat), _) => {
                hashed.read.push((path, CachedFile { stat, leaf, racy: true }));
            }
            (.., Some(reason)) => drop(hashed.skipped.insert(path, reason)),
            (.., None) => hashed.absent.push(path),
        }
    }
    hashed
}

/// Reads a file again to show it: what is shown is what is there now.
fn read_worktree_side(
    worktree: &Worktree,
    path: &RelPath,
    options: &DiffOptions,
) -> Result<DiffSide, UnreadSide> {
    if let Ok(Some(stat)) = worktree.stat(path)
        && stat.size > options.max_content_bytes() as u64
    {
        return Err(UnreadSide::TooLarge);
    }
    let CurrentContent { image, data, .. } = read_current_content(worktree, path);
    match image.uncovered_reason() {
        // A link that replaced its directory is reported as a separate change.
        None | Some(UncoveredReason::BehindLink) => Ok(image.leaf().map(|leaf| (leaf, data))),
        Some(reason) => Err(UnreadSide::Uncovered(reason)),
    }
}

/// The comparison of a tree in the store with files on disk.
struct TreeComparison<'s> {
    repository: &'s ObjectRepository,
    options: &'s DiffOptions,
}

impl TreeComparison<'_> {
    /// Finds the files that differ between a tree and sorted files; equal directories are not opened.
    fn compare_folder(
        &self,
        at: (Option<&RelPath>, Option<&Oid>),
        files: &[(RelPath, TreeLeaf)],
        found: &mut Vec<LeafChange>,
    ) -> Result<(), DiffError> {
        let (folder, tree) = at;
        let entries = tree.map(|tree| self.repository.read_tree(tree)).transpose()?;
        let mut entries: BTreeMap<Vec<u8>, TreeEntry> = entries.into_iter().flatten().collect();
        let prefix = folder.map_or(0, |folder| folder.as_bytes().len() + 1);
        let mut rest = files;
        while let Some((name, present, after)) = take_first_name(rest, prefix) {
            rest = after;
            let before = entries.remove(name);
            let path = child_path(folder, name, tree)?;
            self.compare_entry(&path, before.as_ref(), present, found)?;
        }
        for (name, entry) in entries {
            let path = child_path(folder, &name, tree)?;
            if self.options.may_include(&path) {
                self.compare_entry(&path, Some(&entry), DiskEntry::Nothing, found)?;
            }
        }
        Ok(())
    }

    fn compare_entry(
        &self,
        path: &RelPath,
        before: Option<&TreeEntry>,
        present: DiskEntry<'_>,
        found: &mut Vec<LeafChange>,
    ) -> Result<(), DiffError> {
        let (old, below) = match before {
            Some(TreeEntry::Leaf(leaf)) => (Some(*leaf), None),
            Some(TreeEntry::Tree(tree)) => (None, Some(*tree)),
            None => (None, None),
        };
        let (new, inside) = match present {
            DiskEntry::File(leaf) => (Some(leaf), &[][..]),
            DiskEntry::Folder(files) => (None, files),
            DiskEntry::Nothing => (None, &[][..]),
        };
        if old != new {
            found.push((path.clone(), old, new));
        }
        let prefix = path.as_bytes().len() + 1;
        let is_same = |tree: &Oid| Ok::<_, io::Error>(hash_tree(inside, prefix)? == *tree);
        match below {
            Some(tree) if inside.is_empty() => {
                let mut gone = TreeDifference::default();
                compare_trees(self.repository, Some(path), (Some(&tree), None), &mut gone)?;
                found.extend(gone.leaves);
                Ok(())
            }
            Some(tree) if is_same(&tree)? => Ok(()),
            None if inside.is_empty() => Ok(()),
            below => self.compare_folder((Some(path), below.as_ref()), inside, found),
        }
    }
}

/// The worktree as if it had been captured.
fn worktree_as_capture(coverage: Arc<CaptureCoverage>) -> Capture {
    let nothing = Oid([0; 20]);
    Capture { id: nothing, tree: nothing, coverage, time: EpochMillis(0) }
}

/// What is at a name on disk.
#[derive(Clone, Copy)]
enum DiskEntry<'f> {
    File(TreeLeaf),
    Folder(&'f [(RelPath, TreeLeaf)]),
    Nothing,
}

type SortedFiles<'f> = &'f [(RelPath, TreeLeaf)];

/// Takes the first name after `prefix` bytes off sorted files.
fn take_first_name(
    files: SortedFiles<'_>,
    prefix: usize,
) -> Option<(&[u8], DiskEntry<'_>, SortedFiles<'_>)> {
    let (path, leaf) = files.first()?;
    let name = &path.as_bytes()[prefix..];
    let Some(slash) = name.iter().position(|byte| *byte == b'/') else {
        return Some((name, DiskEntry::File(*leaf), &files[1..]));
    };
    let directory = &path.as_bytes()[..=prefix + slash];
    let count = files.partition_point(|(path, _)| path.as_bytes().starts_with(directory));
    let (inside, after) = files.split_at(count);
    Some((&name[..slash], DiskEntry::Folder(inside), after))
}

fn child_path(
    folder: Option<&RelPath>,
    name: &[u8],
    tree: Option<&Oid>,
) -> Result<RelPath, ObjectError> {
    let path = match folder {
        Some(folder) => folder.join(name),
        None => RelPath::new(name),
    };
    path.map_err(|_| ObjectError::Corrupt(tree.copied().unwrap_or(Oid([0; 20]))))
}
