//! Coverage of a worktree index: rebuilt only when one of its lists changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::index_folder::{IndexEntry, IndexFolders, WorktreeIndex, join_name};
use super::index_totals::{IndexTotals, permission_bits};
use crate::coverage::{CaptureCoverage, CaptureScope, CapturedDirectories, CapturedPermissions};
use crate::object_store::{FileMode, Oid};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;

/// A coverage, and its commit in the store once it is there.
#[derive(Clone)]
pub(super) struct DescribedCoverage {
    coverage: Arc<CaptureCoverage>,
    pub(super) commit: Option<Oid>,
    /// The forced paths it was made for.
    forced: Arc<BTreeSet<RelPath>>,
    /// Those of them that can only be reached through a link.
    behind_links: Vec<RelPath>,
}

impl WorktreeIndex {
    /// What the index covers, and the commit of that coverage if it is stored already.
    pub(crate) fn coverage(
        &mut self,
        forced: &Arc<BTreeSet<RelPath>>,
    ) -> (Arc<CaptureCoverage>, Option<Oid>) {
        refresh_usual_permissions(&mut self.totals, &self.folders);
        refresh_usual_directory(&mut self.totals, &self.folders);
        let looked = match &self.described {
            Some(last) if Arc::ptr_eq(&last.forced, forced) => self.totals.has_kind_changes,
            _ => true,
        };
        let (absent, behind) = match (&self.described, looked && !forced.is_empty()) {
            (Some(last), false) if !looked => {
                (last.coverage.absent.clone(), last.behind_links.clone())
            }
            (_, false) => (Vec::new(), Vec::new()),
            (_, true) => find_missing_forced(&self.folders, forced),
        };
        let is_new = self.described.as_ref().is_none_or(|last| {
            self.totals.is_coverage_stale
                || last.coverage.absent != absent
                || last.behind_links != behind
        });
        if is_new {
            let coverage = build_coverage(&self.totals, absent, &behind);
            let same = self.described.take().filter(|last| *last.coverage == coverage);
            let (coverage, commit) = match same {
                Some(last) => (last.coverage, last.commit),
                None => (Arc::new(coverage), None),
            };
            self.described = Some(DescribedCoverage {
                coverage,
                commit,
                forced: forced.clone(),
                behind_links: behind,
            });
        }
        (self.totals.is_coverage_stale, self.totals.has_kind_changes) = (false, false);
        let last = self.described.as_mut();
        last.map_or_else(Default::default, |last| {
            last.forced = forced.clone();
            (last.coverage.clone(), last.commit)
        })
    }

    /// The forced paths when the coverage was last built.
    pub(crate) fn last_forced_paths(&self) -> Arc<BTreeSet<RelPath>> {
        self.described.as_ref().map(|last| last.forced.clone()).unwrap_or_default()
    }

    /// The paths that were forced since the coverage was last built, and those that no longer are.
    pub(crate) fn differently_forced_paths(&self, forced: &BTreeSet<RelPath>) -> Vec<RelPath> {
        let before = self.last_forced_paths();
        if std::ptr::eq(&raw const *before, forced) {
            return Vec::new();
        }
        before.symmetric_difference(forced).cloned().collect()
    }

    /// Notes that the coverage is in the store as this commit.
    pub(crate) fn set_coverage_commit(&mut self, commit: Oid) {
        if let Some(last) = &mut self.described {
            last.commit = Some(commit);
        }
    }
}

/// Looks which permission bits are usual; all files are asked if the answer is another.
fn refresh_usual_permissions(totals: &mut IndexTotals, folders: &IndexFolders) {
    let usual = totals.most_common_permissions();
    if usual == totals.usual_permissions {
        return;
    }
    totals.usual_permissions = usual;
    totals.unusual_permissions.clear();
    totals.is_coverage_stale = true;
    for (folder, node) in folders {
        for (name, item) in &node.entries {
            if let IndexEntry::File(cached) = item
                && let Some(perm) =
                    permission_bits(cached).filter(|perm| !totals.is_usual_permission(*perm))
                && let Ok(path) = RelPath::in_folder(folder, name)
            {
                totals.unusual_permissions.insert(path, perm);
            }
        }
    }
}

/// Looks which bits directories usually have; all are asked if the answer is another.
fn refresh_usual_directory(totals: &mut IndexTotals, folders: &IndexFolders) {
    let usual = totals.most_common_directory();
    if usual == totals.usual_directory {
        return;
    }
    totals.usual_directory = usual;
    totals.is_coverage_stale = true;
    let unusual = folders.iter().filter_map(|(folder, node)| {
        let perm = node.perm.filter(|perm| *perm != usual)?;
        Some((RelPath::new(&folder[..]).ok()?, perm))
    });
    totals.unusual_directories = unusual.collect();
}

fn build_coverage(
    totals: &IndexTotals,
    absent: Vec<RelPath>,
    behind: &[RelPath],
) -> CaptureCoverage {
    let mut skipped = totals.skipped.clone();
    skipped.extend(behind.iter().map(|path| (path.clone(), UncoveredReason::BehindLink)));
    let nested = totals.repos.keys().filter_map(|folder| RelPath::new(&folder[..]).ok());
    let [file, exec] = totals.usual_permissions;
    let other =
        totals.unusual_permissions.iter().map(|(path, perm)| (path.clone(), *perm)).collect();
    CaptureCoverage {
        scope: CaptureScope::Whole,
        skipped: skipped.into_iter().collect(),
        absent,
        nested: nested.collect(),
        reserved: totals.reserved,
        permissions: CapturedPermissions { file, exec, other },
        large: Vec::new(),
        directories: Some(CapturedDirectories {
            usual: totals.usual_directory,
            other: totals
                .unusual_directories
                .iter()
                .map(|(path, perm)| (path.clone(), *perm))
                .collect(),
            bare: totals.bare_directories.iter().cloned().collect(),
        }),
        unfinished: Vec::new(),
    }
}

/// Which forced paths are not there, and which lie behind a link.
fn find_missing_forced(
    folders: &IndexFolders,
    forced: &BTreeSet<RelPath>,
) -> (Vec<RelPath>, Vec<RelPath>) {
    let (mut absent, mut behind) = (Vec::new(), Vec::new());
    for path in forced {
        match classify_absence(folders, path) {
            ForcedPathAbsence::Absent => absent.push(path.clone()),
            ForcedPathAbsence::BehindLink => behind.push(path.clone()),
            ForcedPathAbsence::Covered => {}
        }
    }
    (absent, behind)
}

fn classify_absence(folders: &IndexFolders, path: &RelPath) -> ForcedPathAbsence {
    let mut folder = Vec::new();
    let mut parts = path.parts().peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match folders.get(&folder).and_then(|node| node.find(part)) {
            // A directory is not a file; what is below has other names.
            None => return ForcedPathAbsence::Absent,
            Some(IndexEntry::Folder(_)) if is_last => return ForcedPathAbsence::Absent,
            Some(IndexEntry::Folder(_)) => folder = join_name(&folder, part),
            Some(IndexEntry::File(_) | IndexEntry::Skipped(_)) if is_last => {
                return ForcedPathAbsence::Covered;
            }
            Some(IndexEntry::File(cached)) if cached.leaf.mode == FileMode::Link => {
                return ForcedPathAbsence::BehindLink;
            }
            Some(IndexEntry::File(_)) => return ForcedPathAbsence::Absent,
            // Nothing is below a file, whatever kept it from being read.
            Some(IndexEntry::Skipped(
                UncoveredReason::Special | UncoveredReason::TooLarge | UncoveredReason::Changing,
            )) => {
                return ForcedPathAbsence::Absent;
            }
            Some(IndexEntry::Skipped(_)) => return ForcedPathAbsence::Covered,
        }
    }
    ForcedPathAbsence::Covered
}

/// Why a forced path is not captured.
enum ForcedPathAbsence {
    Absent,
    BehindLink,
    /// It is captured, or skipped for a reason that the coverage states.
    Covered,
}
