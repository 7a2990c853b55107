//! A capture and the files on disk, side by side; nothing is stored.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use turnstone_core::change::FileChange;
use turnstone_core::time::EpochMillis;

use super::file_diffs::{CaptureDiff, CaptureDiffs, DiffOptions, DiffSide, UnreadSide, build_diff};
use super::tree_diff::{LeafChange, compare_trees, to_path_changes};
use crate::capture::Capture;
use crate::coverage::{CaptureCoverage, CaptureScope};
use crate::file_hashing::{CurrentContent, HashedFiles, read_current_content};
use crate::object_store::{ObjectError, ObjectRepository, Oid, TreeEntry, TreeLeaf, hash_tree};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::stat_cache::CachedFile;
use crate::worktree::{RootError, Worktree};
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

impl CaptureDiffs<'_> {
    /// Compares a capture with the files on disk as they are now.
    ///
    /// Looks at what a capture would take and stores nothing. A file that the rules leave out today,
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
            CaptureScope::Whole => self.worktree_changes(capture, options)?,
            CaptureScope::Named => self.named_path_changes(capture, options)?,
        };
        let worktree = &self.store.worktree;
        let read = |path: &RelPath, _| read_worktree_side(worktree, path, options);
        Ok(build_diff(&self.store.repository, changes, options, read)?)
    }

    /// Walks the worktree as a capture does and finds the files whose bytes are others.
    fn worktree_changes(
        &self,
        capture: &Capture,
        options: &DiffOptions,
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
        let (coverage, _) = worktree_index.coverage(&forced);
        Ok(to_path_changes(capture, &worktree_as_capture(coverage), leaves))
    }

    /// Looks at the paths a capture was asked to take, and at no other.
    fn named_path_changes(
        &self,
        capture: &Capture,
        options: &DiffOptions,
    ) -> Result<Vec<FileChange>, DiffError> {
        let mut leaves = Vec::new();
        compare_trees(&self.store.repository, None, (Some(&capture.tree), None), &mut leaves)?;
        leaves.extend(capture.coverage.absent.iter().map(|path| (path.clone(), None, None)));
        leaves.retain(|(path, ..)| options.includes(path));
        let mut coverage = CaptureCoverage::default();
        for (path, _, after) in &mut leaves {
            match read_current_content(&self.store.worktree, path) {
                CurrentContent::Present(_, leaf, _) => *after = Some(leaf),
                CurrentContent::Absent => {}
                CurrentContent::Uncovered(reason) => coverage.skipped.push((path.clone(), reason)),
            }
        }
        leaves.retain(|(_, before, after)| before != after);
        coverage.skipped.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(to_path_changes(capture, &worktree_as_capture(Arc::new(coverage)), leaves))
    }
}

/// Looks at the files that nothing proves unchanged, and keeps what they are, not their bytes.
fn hash_without_storing(worktree: &Worktree, found: &ScanDelta) -> HashedFiles {
    let stale: Vec<RelPath> = found.stale_files().into_iter().map(|(path, _)| path).collect();
    let looked: Vec<(RelPath, CurrentContent)> = stale
        .into_par_iter()
        .map(|path| match read_current_content(worktree, &path) {
            CurrentContent::Present(stat, leaf, _) => {
                (path, CurrentContent::Present(stat, leaf, Vec::new()))
            }
            other @ (CurrentContent::Absent | CurrentContent::Uncovered(_)) => (path, other),
        })
        .collect();
    let mut hashed = HashedFiles::default();
    for (path, look) in looked {
        match look {
            CurrentContent::Present(stat, leaf, _) => {
                hashed.read.push((path, CachedFile { stat, leaf, racy: true }));
            }
            CurrentContent::Absent => hashed.absent.push(path),
            CurrentContent::Uncovered(reason) => drop(hashed.skipped.insert(path, reason)),
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
        && stat.size > options.max_file_bytes as u64
    {
        return Err(UnreadSide::TooLarge);
    }
    match read_current_content(worktree, path) {
        CurrentContent::Present(_, leaf, data) => Ok(Some((leaf, data))),
        // A link that replaced its directory is reported as a separate change.
        CurrentContent::Absent | CurrentContent::Uncovered(UncoveredReason::BehindLink) => Ok(None),
        CurrentContent::Uncovered(reason) => Err(UnreadSide::Uncovered(reason)),
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
                Ok(compare_trees(self.repository, Some(path), (Some(&tree), None), found)?)
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
