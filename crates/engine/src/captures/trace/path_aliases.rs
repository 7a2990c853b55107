//! Other names of touched paths: a directory that was moved or is mounted elsewhere, and hard links.
//!
//! A trace names a path as the command saw it. If the same directory is in the root under another name, its
//! identity tells; only the directories of changes that no name explains are looked up.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use turnstone_core::change::FileChange;
use turnstone_core::model::FileIdentity;
use turnstone_core::rel_path::RelPath;
use turnstone_process::trace::Touch;

use super::touch_paths::{directory_identity, target_identity};

/// Where directories and files that a trace identifies are in a root.
#[derive(Default)]
pub(super) struct PathAliases {
    /// The names of directories below the root, the root itself by none.
    directories: BTreeMap<FileIdentity, Option<RelPath>>,
    /// Files with several names, by what identifies them on this device: those of changes.
    links: BTreeMap<(u64, u64), Vec<RelPath>>,
}

impl PathAliases {
    /// Looks up the directories of `changes`, which are below `root`, and those of their names that `touches`
    /// may mean.
    pub(super) fn find(root: &Path, changes: &[&FileChange], touches: &[Touch]) -> Self {
        let mut found = Self::default();
        if changes.is_empty() || touches.is_empty() {
            return found;
        }
        found.add_directories(root, changes);
        found.add_removed_directories(touches);
        let linked: BTreeSet<(u64, u64)> = touches
            .iter()
            .filter_map(|touch| touch.target.as_ref())
            .filter(|target| target.links > 1 && !target.is_directory)
            .map(|target| (target.device, target.inode))
            .collect();
        found.add_links(root, changes, &linked);
        found
    }

    /// The paths of the root that a touch means besides its own name.
    pub(super) fn of_touch(&self, touch: &Touch) -> Vec<RelPath> {
        let mut paths = Vec::new();
        if let Some(directory) = self.directories.get(&directory_identity(&touch.parent)) {
            paths.extend(join(directory.as_ref(), touch.path.file_name()));
        }
        if let Some(target) = &touch.target {
            let links = self.links.get(&(target.device, target.inode));
            paths.extend(links.into_iter().flatten().cloned());
        }
        paths
    }

    /// Adds the directories above each change that are there now. A link is not followed: what it leads to is
    /// elsewhere.
    fn add_directories(&mut self, root: &Path, changes: &[&FileChange]) {
        self.directories.extend(read_identity(root).map(|identity| (identity, None)));
        let above: BTreeSet<RelPath> =
            changes.iter().flat_map(|change| change.path.ancestors()).collect();
        let mut real = BTreeSet::new();
        // Sorted: each directory comes before those below it.
        for path in above {
            let is_reached = path.parent().is_none_or(|parent| real.contains(&parent));
            let place = root.join(OsStr::from_bytes(path.as_bytes()));
            if let Some(identity) = is_reached.then(|| read_identity(&place)).flatten() {
                real.insert(path.clone());
                self.directories.insert(identity, Some(path));
            }
        }
    }

    /// Adds directories that the command itself removed or moved: the touch that did tells where they were.
    fn add_removed_directories(&mut self, touches: &[Touch]) {
        let is_directory = |touch: &&Touch| touch.target.as_ref().is_some_and(|it| it.is_directory);
        // Those above are removed last.
        for touch in touches.iter().rev().filter(is_directory) {
            let above = self.directories.get(&directory_identity(&touch.parent));
            let path = above.and_then(|above| join(above.as_ref(), touch.path.file_name()));
            if let (Some(path), Some(target)) = (path, &touch.target) {
                self.directories.entry(target_identity(target)).or_insert(Some(path));
            }
        }
    }

    fn add_links(&mut self, root: &Path, changes: &[&FileChange], linked: &BTreeSet<(u64, u64)>) {
        if linked.is_empty() {
            return;
        }
        for change in changes {
            let path = root.join(OsStr::from_bytes(change.path.as_bytes()));
            let Ok(meta) = fs_err::symlink_metadata(path) else { continue };
            let identity = (meta.dev(), meta.ino());
            if linked.contains(&identity) {
                self.links.entry(identity).or_default().push(change.path.clone());
            }
        }
    }
}

/// What identifies a directory; `None` if there is none, or it cannot be examined: it is found by its name only.
fn read_identity(path: &Path) -> Option<FileIdentity> {
    let meta = fs_err::symlink_metadata(path).ok().filter(std::fs::Metadata::is_dir)?;
    let born = meta.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let born = born.and_then(|time| i64::try_from(time.as_nanos()).ok());
    Some(FileIdentity { device: meta.dev(), inode: meta.ino(), born })
}

fn join(directory: Option<&RelPath>, name: Option<&OsStr>) -> Option<RelPath> {
    let name = name?.as_bytes();
    match directory {
        Some(directory) => directory.join(name).ok(),
        None => RelPath::new(name).ok(),
    }
}
