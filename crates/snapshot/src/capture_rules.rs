//! The selection: which names of a folder are captured (R7), and why the others are not.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::path::{RelPath, is_temp_name};
use crate::path_image::UncoveredReason;
use crate::stat_cache::CachedFile;
use crate::user_git::{TrackedStatus, UserGitSettings};
use crate::worktree::{FileKind, FileStat, WorktreeDir};
use crate::worktree_index::{FolderRules, IndexEntry, IndexFolder};
use crate::worktree_walk::{EntryKind, WorktreeWalker};

/// What of a worktree is captured.
#[derive(Clone, Debug)]
pub struct CaptureRules {
    /// Files with more bytes are skipped, unless they are forced.
    pub max_file_bytes: u64,
    /// Names of directories that are skipped outside of any repository.
    pub generated: Vec<String>,
    /// The text of the user's excludes file; it applies in every repository.
    pub user_excludes: Vec<u8>,
    /// What the user's git settings say; without it every file of a checkout is read (R10).
    pub user_git: Option<UserGitSettings>,
    /// The data directory, if it lies in the worktree.
    pub own_data: Option<RelPath>,
}

impl Default for CaptureRules {
    fn default() -> Self {
        let generated = [
            "node_modules",
            "bower_components",
            ".venv",
            "venv",
            "__pycache__",
            ".tox",
            ".mypy_cache",
            ".pytest_cache",
            ".ruff_cache",
            "target",
            ".gradle",
            ".next",
            ".nuxt",
            ".terraform",
            ".cache",
        ];
        Self {
            max_file_bytes: 50_000_000,
            generated: generated.map(str::to_owned).to_vec(),
            user_excludes: Vec::new(),
            user_git: None,
            own_data: None,
        }
    }
}

/// What the classifier decided of a name. Unlike [`EntryKind`] it refers to an unchanged file by its
/// position, because most folders turn out to be unchanged and nothing of them is copied.
pub(crate) enum EntryDecision {
    /// The file at this position of the folder in the index.
    Known(usize),
    Stale(FileStat),
    Skipped(UncoveredReason),
    /// A folder that is entered, and whether only for files that are tracked or forced.
    Folder(Option<UncoveredReason>),
}

impl EntryDecision {
    /// Copies what the walk reports of the name.
    pub(crate) fn resolve(self, known: Option<&IndexFolder>) -> EntryKind {
        match (self, known) {
            (Self::Known(at), Some(known)) => match &known.entries[at].1 {
                IndexEntry::File(cached) => EntryKind::Known(*cached),
                IndexEntry::Skipped(reason) => EntryKind::Skipped(*reason),
                IndexEntry::Folder(_) => EntryKind::Folder,
            },
            // Only a folder that is known has known files.
            (Self::Known(_), None) => EntryKind::Skipped(UncoveredReason::Changing),
            (Self::Stale(stat), _) => EntryKind::Stale(stat),
            (Self::Skipped(reason), _) => EntryKind::Skipped(reason),
            (Self::Folder(_), _) => EntryKind::Folder,
        }
    }
}

/// Decides over the names of one folder.
pub(crate) struct EntryClassifier<'j> {
    walker: &'j WorktreeWalker<'j>,
    dir: &'j WorktreeDir,
    rules: &'j FolderRules,
    known: Option<&'j IndexFolder>,
    /// True if a file in the index is selected by the same rules as before.
    trust_index_rules: bool,
    /// The path of the current name; before it, the path of the folder.
    path: Vec<u8>,
    prefix_len: usize,
    /// True once something differs from the index.
    pub(crate) differs: bool,
    /// Device and inode of files with several names that the index did not know.
    pub(crate) hard_links: Vec<(u64, u64)>,
}

impl<'j> EntryClassifier<'j> {
    pub(crate) fn new(
        walker: &'j WorktreeWalker<'j>,
        folder: &[u8],
        dir: &'j WorktreeDir,
        place: &'j FolderRules,
        known: Option<&'j IndexFolder>,
    ) -> Self {
        let is_same = known.is_some_and(|known| known.is_complete && known.rules.is_same(place));
        let mut path = folder.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        let (lead, shortcut) = (path.len(), walker.trust_index_rules && is_same);
        let (differs, linked) = (!is_same, Vec::new());
        Self {
            walker,
            dir,
            rules: place,
            known,
            trust_index_rules: shortcut,
            path,
            prefix_len: lead,
            differs,
            hard_links: linked,
        }
    }

    /// Classifies a name; `None` if it does not exist or is one of our temporary files.
    pub(crate) fn classify(
        &mut self,
        name: &[u8],
        kind: Option<FileKind>,
    ) -> Option<EntryDecision> {
        if is_temp_name(name) {
            return None;
        }
        self.path.truncate(self.prefix_len);
        self.path.extend_from_slice(name);
        let at = self.known.and_then(|known| known.position(name).ok());
        let known = at.and_then(|at| self.known.map(|known| &known.entries[at].1));
        // Rules distinguish files and folders; some file systems and all events do not.
        let kind = match kind {
            Some(kind) => Some(kind),
            None => match self.dir.stat(name) {
                Ok(stat) => {
                    let stat = stat?;
                    self.record_hard_link(&stat, known);
                    Some(stat.kind)
                }
                Err(_) => None,
            },
        };
        let own = self.walker.selection.own_data.as_ref();
        let decision = match kind {
            _ if own.is_some_and(|own| own.as_bytes() == self.path) => {
                EntryDecision::Skipped(UncoveredReason::OwnData)
            }
            Some(FileKind::Directory) => self.classify_folder(name),
            Some(FileKind::File | FileKind::Link | FileKind::Special) | None => {
                self.classify_file(name, at, known)?
            }
        };
        self.differs |= match (&decision, known) {
            (EntryDecision::Known(_), _)
            | (EntryDecision::Folder(_), Some(IndexEntry::Folder(_))) => false,
            (EntryDecision::Skipped(reason), Some(IndexEntry::Skipped(known))) => reason != known,
            (EntryDecision::Stale(_) | EntryDecision::Skipped(_) | EntryDecision::Folder(_), _) => {
                true
            }
        };
        Some(decision)
    }

    fn classify_folder(&self, name: &[u8]) -> EntryDecision {
        let FolderRules { rules, repo, .. } = self.rules;
        let generated = || {
            let names = &self.walker.selection.generated;
            repo.is_none() && names.iter().any(|generated| generated.as_bytes() == name)
        };
        let ignored = || rules.is_ignored(&self.path, true).then_some(UncoveredReason::Ignored);
        let hidden =
            generated().then_some(UncoveredReason::Generated).or(self.rules.hidden_because);
        let Some(hidden) = hidden.or_else(ignored) else {
            return EntryDecision::Folder(None);
        };
        // A repository is content by its own rules, wherever it lies.
        let inside = self.dir.open_dir(name).and_then(|dir| {
            self.walker.watch.inspect(|watch| watch.watch_ignored_folder(&dir, &self.path));
            dir.stat(b".git")
        });
        if matches!(inside, Ok(Some(_))) {
            return EntryDecision::Folder(None);
        }
        if contains_path_below(self.walker.forced, &self.path) {
            return EntryDecision::Folder(Some(hidden));
        }
        let tracked = repo.as_ref().map_or(TrackedStatus::No, |repo| repo.tracks_below(&self.path));
        match tracked {
            TrackedStatus::Yes => EntryDecision::Folder(Some(hidden)),
            TrackedStatus::No => EntryDecision::Skipped(hidden),
            TrackedStatus::Unknown => EntryDecision::Skipped(UncoveredReason::IndexUnreadable),
        }
    }

    /// Records a file that has several names, unless the index knew.
    fn record_hard_link(&mut self, stat: &FileStat, known: Option<&IndexEntry>) {
        let is_known = match known {
            Some(IndexEntry::File(CachedFile { stat: known, .. })) => {
                known.nlink > 1 && (known.dev, known.ino) == (stat.dev, stat.ino)
            }
            Some(IndexEntry::Skipped(_) | IndexEntry::Folder(_)) | None => false,
        };
        if stat.kind == FileKind::File && stat.nlink > 1 && !is_known {
            self.hard_links.push((stat.dev, stat.ino));
        }
    }

    fn classify_file(
        &mut self,
        name: &[u8],
        at: Option<usize>,
        known: Option<&IndexEntry>,
    ) -> Option<EntryDecision> {
        let item = known;
        let known = match known {
            Some(IndexEntry::File(cached)) => Some(cached),
            Some(IndexEntry::Skipped(_) | IndexEntry::Folder(_)) | None => None,
        };
        let is_forced = || self.walker.forced.contains(&self.path[..]);
        if known.is_none() || !self.trust_index_rules {
            let FolderRules { rules, repo, hidden_because: hidden, .. } = self.rules;
            let hidden = hidden.or_else(|| {
                rules.is_ignored(&self.path, false).then_some(UncoveredReason::Ignored)
            });
            let tracked =
                || repo.as_ref().map_or(TrackedStatus::No, |repo| repo.tracks(&self.path));
            if let Some(reason) = hidden
                && !is_forced()
            {
                match tracked() {
                    TrackedStatus::Yes => {}
                    TrackedStatus::No => return Some(EntryDecision::Skipped(reason)),
                    TrackedStatus::Unknown => {
                        return Some(EntryDecision::Skipped(UncoveredReason::IndexUnreadable));
                    }
                }
            }
        }
        let stat = match self.dir.stat(name) {
            Ok(stat) => stat?,
            Err(_) => return Some(EntryDecision::Skipped(UncoveredReason::Unreadable)),
        };
        self.record_hard_link(&stat, item);
        let is_forced = || self.walker.forced.contains(&self.path[..]);
        Some(match (stat.kind, at, known) {
            (FileKind::Directory, ..) => self.classify_folder(name),
            (FileKind::Special, ..) => EntryDecision::Skipped(UncoveredReason::Special),
            (FileKind::File, ..) if self.is_large(&stat) && !is_forced() => {
                EntryDecision::Skipped(UncoveredReason::TooLarge)
            }
            (_, Some(at), Some(cached)) if cached.proves_unchanged(&stat) => {
                EntryDecision::Known(at)
            }
            (FileKind::File | FileKind::Link, ..) => EntryDecision::Stale(stat),
        })
    }

    fn is_large(&self, stat: &FileStat) -> bool {
        stat.size > self.walker.selection.max_file_bytes
    }
}

/// True if a set of paths has one below `folder`.
fn contains_path_below(paths: &BTreeSet<RelPath>, folder: &[u8]) -> bool {
    let from = [folder, b"/"].concat();
    let mut after = paths.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded));
    after.next().is_some_and(|path| path.as_bytes().starts_with(&from))
}
