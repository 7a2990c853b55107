//! Coverage: what a capture did not take, why, and what git's trees cannot say of what it took.

use serde::{Deserialize, Serialize};

use crate::path::RelPath;
use crate::path_image::UncoveredReason;

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
    /// Permission bits.
    pub permissions: CapturedPermissions,
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

    /// The permission bits of a captured file.
    #[must_use]
    pub fn permission_bits(&self, path: &RelPath, executable: bool) -> u32 {
        let CapturedPermissions { file, exec, other } = &self.permissions;
        let usual = if executable { *exec } else { *file };
        let found = other.binary_search_by(|(other, _)| other.cmp(path));
        found.map_or(usual, |index| other[index].1)
    }

    /// How many paths were skipped for `reason`.
    #[must_use]
    pub fn count_skipped(&self, reason: UncoveredReason) -> usize {
        self.skipped.iter().filter(|(_, found)| *found == reason).count()
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
            let mut counts = std::collections::BTreeMap::<u32, usize>::new();
            for (_, perm) in files.clone().filter(|(_, perm)| (perm & 0o100 != 0) == executable) {
                *counts.entry(perm).or_default() += 1;
            }
            counts.into_iter().max_by_key(|(_, count)| *count).map_or(default, |(perm, _)| perm)
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
