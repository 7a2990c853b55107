//! Coverage: what a capture did not take, why, and what git's trees cannot store of the rest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason};

/// What a capture looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureScope {
    /// The whole worktree.
    #[default]
    Whole,
    /// The named paths only.
    Named,
}

/// The permission bits of captured files: the two usual ones, and who differs (R18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPermissions {
    /// Bits of most files that may not be run.
    pub file: u32,
    /// Bits of most files that may be run.
    pub exec: u32,
    /// The others, sorted by path.
    pub other: Vec<(RelPath, u32)>,
}

/// The directories of a capture that do not follow from its tree and the usual permission bits (R18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedDirectories {
    /// Permission bits of most directories.
    pub usual: u32,
    /// Those with other bits, sorted by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other: Vec<(RelPath, u32)>,
    /// Those that hold no captured file, sorted by path; the others are in the tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bare: Vec<RelPath>,
}

impl CapturedDirectories {
    /// Lists what the tree does not show: `all` are the directories and their bits, `in_tree` tells
    /// which of them hold a captured file.
    pub(crate) fn collect(
        all: &BTreeMap<RelPath, u32>,
        in_tree: impl Fn(&RelPath) -> bool,
    ) -> Self {
        let usual = most_common(all.values().copied()).unwrap_or(DEFAULT_DIRECTORY_BITS);
        let other = all.iter().filter(|(_, perm)| **perm != usual);
        let bare = all.keys().filter(|path| !in_tree(path));
        Self {
            usual,
            other: other.map(|(path, perm)| (path.clone(), *perm)).collect(),
            bare: bare.cloned().collect(),
        }
    }

    /// The permission bits of a directory of the capture.
    fn bits(&self, path: &RelPath) -> u32 {
        let found = self.other.binary_search_by(|(other, _)| other.cmp(path));
        found.map_or(self.usual, |index| self.other[index].1)
    }
}

/// The bits of a directory where there is none to learn them from.
pub(crate) const DEFAULT_DIRECTORY_BITS: u32 = 0o755;

/// The bits that occur most often.
fn most_common(all: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts = BTreeMap::<u32, usize>::new();
    for perm in all {
        *counts.entry(perm).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(perm, _)| perm)
}

/// What a capture covers. Equal facts give equal bytes, so an unchanged coverage is stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureCoverage {
    /// What it looked at.
    pub scope: CaptureScope,
    /// What it skipped, sorted by path; a directory includes everything below it.
    pub skipped: Vec<(RelPath, UncoveredReason)>,
    /// Forced and named paths that were looked for and were not there, sorted.
    pub absent: Vec<RelPath>,
    /// Repositories inside, taken as content by their own rules, sorted.
    pub nested: Vec<RelPath>,
    /// How many names were passed over because they are a git directory's where case does not matter.
    pub reserved: usize,
    /// Permission bits of files.
    pub permissions: CapturedPermissions,
    /// Directories; `None` in captures of versions that did not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directories: Option<CapturedDirectories>,
    /// Files that may have been unfinished, sorted: another process had them open for writing, or they
    /// had been emptied a moment before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<RelPath>,
    /// The files over the size limit, sorted by path, with the stats by which a change is noticed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub large: Vec<(RelPath, LargeFileStat)>,
}

/// What is known of a file that is too large to capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeFileStat {
    /// Its length in bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds.
    pub modified: i64,
    /// Its inode.
    pub inode: u64,
}

impl CaptureCoverage {
    /// Why `path` is not covered; `None` if it is, and its absence from the tree is an absence.
    #[must_use]
    pub fn uncovered_reason(&self, path: &RelPath) -> Option<UncoveredReason> {
        if self.absent.binary_search(path).is_ok() {
            return None;
        }
        let exact = |path: &RelPath| {
            let index = self.skipped.binary_search_by(|(skipped, _)| skipped.cmp(path)).ok()?;
            Some(self.skipped[index].1)
        };
        let found = exact(path).or_else(|| path.ancestors().find_map(|above| exact(&above)));
        found.or_else(|| (self.scope == CaptureScope::Named).then_some(UncoveredReason::NotNamed))
    }

    /// The image of a directory that holds no captured file; `None` if no such directory is recorded.
    #[must_use]
    pub fn bare_directory(&self, path: &RelPath) -> Option<PathImage> {
        let directories = self.directories.as_ref()?;
        directories.bare.binary_search(path).ok()?;
        Some(PathImage::Directory { perm: directories.bits(path) })
    }

    /// The image of a directory that is in the capture's tree; `None` if directories are not recorded.
    #[must_use]
    pub fn tree_directory(&self, path: &RelPath) -> Option<PathImage> {
        let perm = self.directories.as_ref()?.bits(path);
        Some(PathImage::Directory { perm })
    }

    /// The permission bits of a captured file.
    #[must_use]
    pub fn permission_bits(&self, path: &RelPath, executable: bool) -> u32 {
        let CapturedPermissions { file, exec, other } = &self.permissions;
        let usual = if executable { *exec } else { *file };
        let found = other.binary_search_by(|(other, _)| other.cmp(path));
        found.map_or(usual, |index| other[index].1)
    }
}

impl Default for CapturedPermissions {
    fn default() -> Self {
        Self { file: 0o644, exec: 0o755, other: Vec::new() }
    }
}

impl CapturedPermissions {
    /// Finds the usual bits and lists the rest; `files` is sorted by path.
    pub(crate) fn collect<'a>(files: impl Iterator<Item = (&'a RelPath, u32)> + Clone) -> Self {
        let usual = |executable: bool, default: u32| {
            let bits = files.clone().map(|(_, perm)| perm);
            most_common(bits.filter(|perm| (perm & 0o100 != 0) == executable)).unwrap_or(default)
        };
        let (file, exec) = (usual(false, 0o644), usual(true, 0o755));
        let other = files.filter(|(_, perm)| *perm != if perm & 0o100 != 0 { exec } else { file });
        Self { file, exec, other: other.map(|(path, perm)| (path.clone(), perm)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    /// Proves R1.
    #[test]
    fn path_below_skipped_directory_is_uncovered_not_absent() {
        let coverage = CaptureCoverage {
            skipped: vec![
                (path("a.log"), UncoveredReason::Ignored),
                (path("target"), UncoveredReason::Generated),
            ],
            absent: vec![path("target/looked-for")],
            ..CaptureCoverage::default()
        };

        assert_eq!(
            coverage.uncovered_reason(&path("target/x/y")),
            Some(UncoveredReason::Generated)
        );
        assert_eq!(coverage.uncovered_reason(&path("a.log")), Some(UncoveredReason::Ignored));
        assert_eq!(coverage.uncovered_reason(&path("target/looked-for")), None);
        assert_eq!(coverage.uncovered_reason(&path("targets")), None);
    }

    /// Proves R1, R18.
    #[test]
    fn directories_are_known_only_where_they_are_recorded() {
        let all = [("d", 0o755), ("d/empty", 0o755), ("secret", 0o700)];
        let all = all.map(|(text, perm)| (path(text), perm)).into();
        let directories =
            Some(CapturedDirectories::collect(&all, |folder| *folder != path("d/empty")));
        let coverage = CaptureCoverage { directories, ..CaptureCoverage::default() };

        let image = |perm| Some(PathImage::Directory { perm });
        assert_eq!(coverage.bare_directory(&path("d/empty")), image(0o755));
        assert_eq!(coverage.bare_directory(&path("d")), None, "the tree has it");
        assert_eq!(coverage.tree_directory(&path("d")), image(0o755));
        assert_eq!(coverage.tree_directory(&path("secret")), image(0o700));
        let text = serde_json::to_string(&coverage).unwrap();
        assert_eq!(serde_json::from_str::<CaptureCoverage>(&text).unwrap(), coverage);

        let before = r#"{"scope":"whole","skipped":[],"absent":[],"nested":[],"reserved":0,
            "permissions":{"file":420,"exec":493,"other":[]}}"#;
        let old: CaptureCoverage = serde_json::from_str(before).unwrap();
        assert_eq!((old.tree_directory(&path("d")), old.bare_directory(&path("d"))), (None, None));
    }

    /// Proves R18.
    #[test]
    fn only_unusual_permission_bits_are_listed() {
        let files = [("a", 0o664), ("b", 0o600), ("c", 0o664), ("d", 0o775)];
        let files: Vec<_> = files.into_iter().map(|(text, perm)| (path(text), perm)).collect();

        let permissions =
            CapturedPermissions::collect(files.iter().map(|(path, perm)| (path, *perm)));

        assert_eq!((permissions.file, permissions.exec), (0o664, 0o775));
        assert_eq!(permissions.other, [(path("b"), 0o600)]);
    }
}
