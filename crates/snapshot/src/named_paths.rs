//! Paths that a capture was asked for by name: files, and the directories above them.

use std::collections::{BTreeMap, BTreeSet};

use crate::coverage::CapturedDirectories;
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::worktree::{FileKind, FileStat, Worktree};

/// What named paths are.
#[derive(Default)]
pub(crate) struct InspectedPaths {
    pub(crate) files: Vec<(RelPath, FileStat)>,
    pub(crate) skipped: BTreeMap<RelPath, UncoveredReason>,
    pub(crate) absent: BTreeSet<RelPath>,
    /// Directories above the paths, or named themselves, and their permission bits.
    folders: BTreeMap<RelPath, u32>,
}

impl InspectedPaths {
    /// Captures the directories above paths: a call that creates a file may create them too.
    fn inspect_folders(&mut self, worktree: &Worktree, paths: &BTreeSet<RelPath>) {
        let above: BTreeSet<RelPath> = paths.iter().flat_map(RelPath::ancestors).collect();
        for folder in above {
            match worktree.stat(&folder) {
                Ok(Some(stat)) if stat.kind == FileKind::Directory => {
                    self.folders.insert(folder, stat.perm);
                }
                Ok(None) => {
                    self.absent.insert(folder);
                }
                // A file, or unknown: it is left out unless it is named.
                Ok(Some(_)) | Err(_) => {}
            }
        }
    }

    /// Below a link that is captured itself there is no file.
    fn mark_absent_behind_links(&mut self) {
        let Self { files, skipped, absent, .. } = self;
        let links: BTreeSet<&RelPath> = files
            .iter()
            .filter_map(|(path, stat)| (stat.kind == FileKind::Link).then_some(path))
            .collect();
        skipped.retain(|path, reason| {
            let is_absent = *reason == UncoveredReason::BehindLink
                && path.ancestors().any(|above| links.contains(&above));
            if is_absent {
                absent.insert(path.clone());
            }
            !is_absent
        });
    }

    /// The directories, as the coverage of a capture of `files` records them.
    pub(crate) fn directories<'p>(
        &self,
        files: impl Iterator<Item = &'p RelPath>,
    ) -> CapturedDirectories {
        let in_tree: BTreeSet<RelPath> = files.flat_map(RelPath::ancestors).collect();
        CapturedDirectories::collect(&self.folders, |folder| in_tree.contains(folder))
    }
}

/// Reads paths that are captured whatever the rules say.
pub(crate) fn inspect_paths(worktree: &Worktree, paths: &BTreeSet<RelPath>) -> InspectedPaths {
    let mut named = InspectedPaths::default();
    for path in paths {
        let reason = match worktree.stat(path) {
            Ok(Some(stat)) => match stat.kind {
                FileKind::File | FileKind::Link => {
                    named.files.push((path.clone(), stat));
                    continue;
                }
                FileKind::Directory => {
                    named.folders.insert(path.clone(), stat.perm);
                    continue;
                }
                FileKind::Special => UncoveredReason::Special,
            },
            Ok(None) => {
                named.absent.insert(path.clone());
                continue;
            }
            Err(error) => match rustix::io::Errno::from_io_error(&error) {
                Some(rustix::io::Errno::LOOP) => UncoveredReason::BehindLink,
                _ => UncoveredReason::Unreadable,
            },
        };
        named.skipped.insert(path.clone(), reason);
    }
    named.mark_absent_behind_links();
    named.inspect_folders(worktree, paths);
    named
}
