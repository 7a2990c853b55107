//! A capture and the files on disk, side by side; nothing is stored.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use turnstone_core::time::Millis;

use super::show::{Bytes, Diff, DiffOptions, Unread};
use super::trees::{Change, Leaves, images};
use crate::cache::Cached;
use crate::capture::Capture;
use crate::coverage::{Coverage, Reason, Scope};
use crate::hash::{Hashed, Look, look};
use crate::object::{Leaf, ObjectError, Oid, TreeEntry, name_tree};
use crate::path::RelPath;
use crate::shadow::Shadow;
use crate::walk::{Found, Walker};
use crate::worktree::RootError;

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

impl Shadow {
    /// Compares a capture with the files on disk as they are now.
    ///
    /// Looks at what a capture would take and stores nothing. A file that the rules leave out today,
    /// or that cannot be read, is not covered: it is neither added nor deleted (R1). Of a capture of
    /// named paths only these are compared.
    ///
    /// # Errors
    ///
    /// See [`DiffError`].
    pub fn diff_worktree(
        &self,
        capture: &Capture,
        options: &DiffOptions,
    ) -> Result<Diff, DiffError> {
        let _held = self.hold_objects();
        self.worktree.check()?;
        let changes = match capture.coverage.scope {
            Scope::Whole => self.disk_changes(capture, options)?,
            Scope::Named => self.named_changes(capture, options)?,
        };
        Ok(self.show(changes, options, |path, _| self.bytes_on_disk(path, options))?)
    }

    /// Walks the worktree as a capture does and finds the files whose bytes are others.
    fn disk_changes(
        &self,
        capture: &Capture,
        options: &DiffOptions,
    ) -> Result<Vec<Change>, DiffError> {
        let forced = self.memory().forced.clone();
        // Only what spares reading files: rules and repositories are looked at anew, and nothing that
        // a capture relies on is touched.
        let mut picture = self.picture().clone();
        picture.shrink(|_, _, _| true);
        let walker = Walker {
            worktree: &self.worktree,
            selection: &self.selection,
            forced: &forced,
            picture: &picture,
            shortcut: false,
            watch: None,
            found: Mutex::default(),
        };
        let found = walker.walk()?;
        let hashed = self.look_at_stale(&found);
        picture.absorb(found, hashed, true);
        let mut files = picture.leaves();
        files.retain(|(path, _)| options.covers(path));
        let mut leaves = Vec::new();
        self.compare_files((None, Some(&capture.tree)), &files, options, &mut leaves)?;
        leaves.retain(|(path, ..)| options.covers(path));
        let (coverage, _) = picture.cover(&forced);
        Ok(images(capture, &now(coverage), leaves))
    }

    /// Looks at the files that nothing proves unchanged, and keeps what they are, not their bytes.
    fn look_at_stale(&self, found: &Found) -> Hashed {
        let stale: Vec<RelPath> = found.stale().into_iter().map(|(path, _)| path).collect();
        let looked: Vec<(RelPath, Look)> = stale
            .into_par_iter()
            .map(|path| match look(&self.worktree, &path) {
                Look::Present(stat, leaf, _) => (path, Look::Present(stat, leaf, Vec::new())),
                other @ (Look::Absent | Look::Uncovered(_)) => (path, other),
            })
            .collect();
        let mut hashed = Hashed::default();
        for (path, look) in looked {
            match look {
                Look::Present(stat, leaf, _) => {
                    hashed.read.push((path, Cached { stat, leaf, racy: true }));
                }
                Look::Absent => hashed.absent.push(path),
                Look::Uncovered(reason) => drop(hashed.skipped.insert(path, reason)),
            }
        }
        hashed
    }

    /// Looks at the paths a capture was asked to take, and at no other.
    fn named_changes(
        &self,
        capture: &Capture,
        options: &DiffOptions,
    ) -> Result<Vec<Change>, DiffError> {
        let mut leaves = Vec::new();
        self.compare(None, Some(&capture.tree), None, &mut leaves)?;
        leaves.extend(capture.coverage.absent.iter().map(|path| (path.clone(), None, None)));
        leaves.retain(|(path, ..)| options.covers(path));
        let mut coverage = Coverage::default();
        for (path, _, after) in &mut leaves {
            match look(&self.worktree, path) {
                Look::Present(_, leaf, _) => *after = Some(leaf),
                Look::Absent => {}
                Look::Uncovered(reason) => coverage.skipped.push((path.clone(), reason)),
            }
        }
        leaves.retain(|(_, before, after)| before != after);
        coverage.skipped.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(images(capture, &now(Arc::new(coverage)), leaves))
    }

    /// Finds the files that differ between a tree and sorted files; equal directories are not opened.
    fn compare_files(
        &self,
        at: (Option<&RelPath>, Option<&Oid>),
        files: &[(RelPath, Leaf)],
        options: &DiffOptions,
        found: &mut Vec<Leaves>,
    ) -> Result<(), DiffError> {
        let (folder, tree) = at;
        let entries = tree.map(|tree| self.repository.read_tree(tree)).transpose()?;
        let mut entries: BTreeMap<Vec<u8>, TreeEntry> = entries.into_iter().flatten().collect();
        let prefix = folder.map_or(0, |folder| folder.as_bytes().len() + 1);
        let mut rest = files;
        while let Some((name, present, after)) = next(rest, prefix) {
            rest = after;
            let before = entries.remove(name);
            self.compare_one(
                &child(folder, name, tree)?,
                before.as_ref(),
                present,
                options,
                found,
            )?;
        }
        for (name, entry) in entries {
            let path = child(folder, &name, tree)?;
            if options.reaches(&path) {
                self.compare_one(&path, Some(&entry), Present::Nothing, options, found)?;
            }
        }
        Ok(())
    }

    fn compare_one(
        &self,
        path: &RelPath,
        before: Option<&TreeEntry>,
        present: Present<'_>,
        options: &DiffOptions,
        found: &mut Vec<Leaves>,
    ) -> Result<(), DiffError> {
        let (old, below) = match before {
            Some(TreeEntry::Leaf(leaf)) => (Some(*leaf), None),
            Some(TreeEntry::Tree(tree)) => (None, Some(*tree)),
            None => (None, None),
        };
        let (new, inside) = match present {
            Present::File(leaf) => (Some(leaf), &[][..]),
            Present::Below(files) => (None, files),
            Present::Nothing => (None, &[][..]),
        };
        if old != new {
            found.push((path.clone(), old, new));
        }
        let prefix = path.as_bytes().len() + 1;
        let is_same = |tree: &Oid| Ok::<_, io::Error>(name_tree(inside, prefix)? == *tree);
        match below {
            Some(tree) if inside.is_empty() => {
                Ok(self.compare(Some(path), Some(&tree), None, found)?)
            }
            Some(tree) if is_same(&tree)? => Ok(()),
            None if inside.is_empty() => Ok(()),
            below => self.compare_files((Some(path), below.as_ref()), inside, options, found),
        }
    }

    /// Reads a file again to show it: what is shown is what is there now.
    fn bytes_on_disk(&self, path: &RelPath, options: &DiffOptions) -> Result<Bytes, Unread> {
        if let Ok(Some(stat)) = self.worktree.stat(path)
            && stat.size > options.max_file_bytes as u64
        {
            return Err(Unread::TooLarge);
        }
        match look(&self.worktree, path) {
            Look::Present(_, leaf, data) => Ok(Some((leaf, data))),
            // A link that took the place of its directory is a change of its own.
            Look::Absent | Look::Uncovered(Reason::BehindLink) => Ok(None),
            Look::Uncovered(reason) => Err(Unread::Uncovered(reason)),
        }
    }
}

/// The worktree as if it had been captured.
fn now(coverage: Arc<Coverage>) -> Capture {
    let nothing = Oid([0; 20]);
    Capture { id: nothing, tree: nothing, coverage, time: Millis(0) }
}

/// What is at a name on disk.
#[derive(Clone, Copy)]
enum Present<'f> {
    File(Leaf),
    Below(&'f [(RelPath, Leaf)]),
    Nothing,
}

type Files<'f> = &'f [(RelPath, Leaf)];

/// Takes the first name after `prefix` bytes off sorted files.
fn next(files: Files<'_>, prefix: usize) -> Option<(&[u8], Present<'_>, Files<'_>)> {
    let (path, leaf) = files.first()?;
    let name = &path.as_bytes()[prefix..];
    let Some(slash) = name.iter().position(|byte| *byte == b'/') else {
        return Some((name, Present::File(*leaf), &files[1..]));
    };
    let directory = &path.as_bytes()[..=prefix + slash];
    let count = files.partition_point(|(path, _)| path.as_bytes().starts_with(directory));
    let (inside, after) = files.split_at(count);
    Some((&name[..slash], Present::Below(inside), after))
}

fn child(
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
