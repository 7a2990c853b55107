//! The walk: lists and stats folders in parallel, decides what is captured (R7), and reports what differs
//! from the index.
//!
//! Reads no file but rules. One bad path costs that path only; it is skipped with its reason.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::Scope;

use crate::capture_rules::{CaptureRules, EntryClassifier, EntryDecision};
use crate::file_watch::{FileWatcher, NamesByFolder};
use crate::path::{RelPath, is_git_directory};
use crate::path_image::UncoveredReason;
use crate::stat_cache::{CachedFile, EntryName};
use crate::user_git::UserRepository;
use crate::worktree::{self, FileStat, Worktree, WorktreeDir};
use crate::worktree_index::{FolderRules, IndexFolder, WorktreeIndex, join_name, split_parent};

/// How often a folder that is moved under our eyes is opened again.
const OPEN_ATTEMPTS: usize = 3;

/// What a walk found at a name.
#[derive(Clone, Debug)]
pub(crate) enum EntryKind {
    /// A file that the index proves unchanged.
    Known(CachedFile),
    /// A file that must be read.
    Stale(FileStat),
    Skipped(UncoveredReason),
    /// A folder that is entered.
    Folder,
}

/// A folder that differs from the index.
#[derive(Debug)]
pub(crate) struct FolderListing {
    pub(crate) folder: Vec<u8>,
    pub(crate) rules: FolderRules,
    pub(crate) is_repo: bool,
    pub(crate) reserved: usize,
    /// Its permission bits.
    pub(crate) perm: u32,
    /// Sorted.
    pub(crate) entries: Vec<(EntryName, EntryKind)>,
}

/// One name that was checked on its own; `kind` is `None` if it does not exist.
#[derive(Debug)]
pub(crate) struct NamedEntry {
    pub(crate) folder: Vec<u8>,
    pub(crate) name: EntryName,
    pub(crate) kind: Option<EntryKind>,
}

/// What differs from the index; later entries supersede earlier ones.
#[derive(Debug, Default)]
pub(crate) struct ScanDelta {
    pub(crate) entries: Vec<NamedEntry>,
    pub(crate) listings: Vec<FolderListing>,
    /// Folders that could not be entered after all.
    pub(crate) corrections: Vec<NamedEntry>,
    /// Device and inode of files that have other names.
    pub(crate) hard_links: BTreeSet<(u64, u64)>,
}

impl ScanDelta {
    pub(crate) fn extend(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.listings.extend(other.listings);
        self.corrections.extend(other.corrections);
        self.hard_links.extend(other.hard_links);
    }

    /// The files that must be read, with their stat, sorted by path.
    pub(crate) fn stale_files(&self) -> Vec<(RelPath, FileStat)> {
        let listed =
            self.listings.iter().flat_map(|FolderListing { folder, entries: names, .. }| {
                names.iter().map(move |(name, kind)| (folder, name, Some(kind)))
            });
        let single = self.entries.iter().map(|it| (&it.folder, &it.name, it.kind.as_ref()));
        let stale = listed.chain(single).filter_map(|(folder, name, kind)| match kind {
            Some(EntryKind::Stale(stat)) => Some((RelPath::in_folder(folder, name).ok()?, *stat)),
            Some(EntryKind::Known(_) | EntryKind::Skipped(_) | EntryKind::Folder) | None => None,
        });
        let mut stale: Vec<(RelPath, FileStat)> = stale.collect();
        stale.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        stale.dedup_by(|one, other| one.0 == other.0);
        stale
    }
}

/// Walks folders and compares them with an index.
pub(crate) struct WorktreeWalker<'w> {
    pub(crate) worktree: &'w Worktree,
    pub(crate) selection: &'w CaptureRules,
    /// Paths that are selected whatever the rules say (R1).
    pub(crate) forced: &'w BTreeSet<RelPath>,
    pub(crate) index: &'w WorktreeIndex,
    /// True if a file in the index is still selected when its rules are the same.
    pub(crate) trust_index_rules: bool,
    /// Watches every folder before it is listed.
    pub(crate) watch: Option<&'w FileWatcher>,
    pub(crate) delta: Mutex<ScanDelta>,
}

/// A folder, open, with what was read of it.
struct OpenFolder {
    dir: WorktreeDir,
    names: worktree::DirectoryNames,
    perm: u32,
}

impl OpenFolder {
    fn read(dir: WorktreeDir) -> io::Result<Self> {
        Ok(Self { names: dir.names()?, perm: dir.permission_bits()?, dir })
    }
}

impl<'w> WorktreeWalker<'w> {
    /// Walks the whole worktree.
    pub(crate) fn walk(self) -> io::Result<ScanDelta> {
        let root = self.worktree.open_dir(None)?;
        // A folder that is not at its path is noticed there.
        let _at_its_path = self.watch.is_none_or(|watch| watch.watch_folder(&root, b""));
        let root = OpenFolder::read(root)?;
        rayon::scope(|scope| self.scan_folder(scope, Vec::new(), FolderRules::default(), &root));
        Ok(self.delta.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks some names, and everything below those that are folders.
    ///
    /// A folder that can no longer be reached is skipped: its removal has an event too.
    /// So are names below folders that are `walked`: they are seen there, by the rules of now.
    pub(crate) fn scan_names(
        self,
        names: &NamesByFolder,
        walked: &mut BTreeSet<Vec<u8>>,
    ) -> io::Result<ScanDelta> {
        if names.is_empty() {
            return Ok(ScanDelta::default());
        }
        // A folder sorts before all that is in it.
        rayon::in_place_scope(|scope| {
            names.iter().try_for_each(|(folder, names)| {
                if is_at_or_below(walked, folder) {
                    return Ok(());
                }
                self.scan_folder_names(scope, folder, names, walked)
            })
        })?;
        Ok(self.delta.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn scan_folder_names<'s>(
        &'s self,
        scope: &Scope<'s>,
        folder: &[u8],
        names: &BTreeSet<EntryName>,
        walked: &mut BTreeSet<Vec<u8>>,
    ) -> io::Result<()> {
        let Some(known) = self.index.folder(folder) else {
            return Ok(());
        };
        let path = RelPath::new(folder).ok();
        let dir = match self.worktree.open_dir(path.as_ref()) {
            Ok(dir) => dir,
            Err(error) if is_unreachable(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut judge = EntryClassifier::new(self, folder, &dir, &known.rules, Some(known));
        let mut entries = Vec::new();
        for name in names.iter().filter(|name| !is_git_directory(name)) {
            judge.differs = false;
            let decision = judge.classify(name, None);
            let hidden = match &decision {
                Some(EntryDecision::Folder(hidden)) => Some(*hidden),
                Some(_) if !judge.differs => continue,
                Some(_) | None => None,
            };
            let kind = decision.map(|decision| decision.resolve(Some(known)));
            entries.push(NamedEntry { folder: folder.to_vec(), name: name.clone(), kind });
            if let Some(hidden) = hidden {
                let place = FolderRules { hidden_because: hidden, ..known.rules.clone() };
                let below = join_name(folder, name);
                walked.insert(below.clone());
                self.enter_folder(scope, below, place);
            }
        }
        let linked = judge.hard_links;
        let mut found = self.delta.lock().unwrap_or_else(PoisonError::into_inner);
        found.entries.extend(entries);
        found.hard_links.extend(linked);
        Ok(())
    }

    /// Enters a folder; `place` is what applies in the one above.
    fn enter_folder<'s>(&'s self, scope: &Scope<'s>, folder: Vec<u8>, place: FolderRules) {
        scope.spawn(move |scope| {
            let listed = self.open_watched_folder(&folder).and_then(OpenFolder::read);
            match listed {
                Ok(listed) => self.scan_folder(scope, folder, place, &listed),
                // It was there when its parent was listed; now it is not, which is no skip.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.correct_parent_entry(&folder, None)
                }
                Err(_) => self.correct_parent_entry(
                    &folder,
                    Some(EntryKind::Skipped(UncoveredReason::Unreadable)),
                ),
            }
        });
    }

    /// Opens a folder and watches it. One that is moved meanwhile is looked for at its path again.
    fn open_watched_folder(&self, folder: &[u8]) -> io::Result<WorktreeDir> {
        let path = RelPath::new(folder).map_err(io::Error::other)?;
        for _ in 0..OPEN_ATTEMPTS {
            let dir = self.worktree.open_dir(Some(&path))?;
            if self.watch.is_none_or(|watch| watch.watch_folder(&dir, folder)) {
                return Ok(dir);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Checks every name of a folder; `above` has the rules of its parent.
    fn scan_folder<'s>(
        &'s self,
        scope: &Scope<'s>,
        folder: Vec<u8>,
        above: FolderRules,
        OpenFolder { dir, names, perm }: &OpenFolder,
    ) {
        let perm = *perm;
        let known = self.index.folder(&folder);
        let (place, is_repo) = self.resolve_folder_rules(&folder, above, dir, names, known);
        let mut judge = EntryClassifier::new(self, &folder, dir, &place, known);
        let mut reserved = 0;
        let mut seen = Vec::with_capacity(names.iter().len());
        for (name, kind) in names.iter() {
            // A git directory is passed over in silence; what only looks like one is counted.
            if is_git_directory(name) {
                reserved += usize::from(name != b".git");
            } else if let Some(decision) = judge.classify(name, kind) {
                seen.push((name, decision));
            }
        }
        let is_same = !judge.differs
            && known.is_some_and(|known| {
                (known.reserved, known.is_repo, known.entries.len(), known.perm)
                    == (reserved, is_repo, seen.len(), Some(perm))
            });
        for (name, decision) in &seen {
            if let EntryDecision::Folder(hidden) = decision {
                let place = FolderRules { hidden_because: *hidden, ..place.clone() };
                self.enter_folder(scope, join_name(&folder, name), place);
            }
        }
        let linked = judge.hard_links;
        if is_same {
            return;
        }
        let seen = seen.into_iter().map(|(name, decision)| (name.into(), decision.resolve(known)));
        let mut names: Vec<(EntryName, EntryKind)> = seen.collect();
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let listing =
            FolderListing { folder, rules: place, is_repo, reserved, perm, entries: names };
        let mut found = self.delta.lock().unwrap_or_else(PoisonError::into_inner);
        found.listings.push(listing);
        found.hard_links.extend(linked);
    }

    /// Finds out which rules apply here: those above, a nested repository's own, a `.gitignore`.
    fn resolve_folder_rules(
        &self,
        folder: &[u8],
        above: FolderRules,
        dir: &WorktreeDir,
        names: &worktree::DirectoryNames,
        known: Option<&IndexFolder>,
    ) -> (FolderRules, bool) {
        let has = |wanted: &[u8]| names.iter().any(|(name, _)| name == wanted);
        let known = known.map(|known| &known.rules);
        let mut place = FolderRules { inherited: above.rules.clone(), gitignore: None, ..above };
        let user = &self.selection.user_excludes;
        let repo =
            has(b".git").then(|| UserRepository::find(self.worktree, folder, dir, user)).flatten();
        let is_repo = repo.is_some();
        if let Some(repo) = repo {
            let old = known.and_then(|known| known.repo.clone());
            let repo = old.filter(|old| old.is_same(&repo)).unwrap_or_else(|| Arc::new(repo));
            place.inherited = repo.rules().clone();
            place.repo = Some(repo);
            place.hidden_because = None;
        }
        if has(b".gitignore") {
            let mut text = Vec::new();
            let read = dir
                .open_file(b".gitignore")
                .map(|(file, _)| file.take(1 << 20).read_to_end(&mut text));
            place.gitignore = matches!(read, Ok(Ok(_))).then(|| text.into());
        }
        place.rules = match (&place.gitignore, known) {
            (None, _) => place.inherited.clone(),
            (own, Some(known))
                if known.gitignore == *own && known.inherited.is_same_chain(&place.inherited) =>
            {
                known.rules.clone()
            }
            (Some(own), _) => place.inherited.with_patterns(own, folder),
        };
        (place, is_repo)
    }

    /// Corrects the entry of a folder in its parent.
    fn correct_parent_entry(&self, folder: &[u8], kind: Option<EntryKind>) {
        if let Some((above, name)) = split_parent(folder) {
            let entry = NamedEntry { folder: above.to_vec(), name: name.into(), kind };
            self.delta.lock().unwrap_or_else(PoisonError::into_inner).corrections.push(entry);
        }
    }
}

/// True if the way to a folder is gone, barred, or leads elsewhere.
fn is_unreachable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = Errno::from_io_error(error);
    matches!(code, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS))
}

/// True if a folder or one above it is among `folders`.
fn is_at_or_below(folders: &BTreeSet<Vec<u8>>, folder: &[u8]) -> bool {
    let mut at = Some(folder);
    while let Some(folder) = at.filter(|_| !folders.is_empty()) {
        if folders.contains(folder) {
            return true;
        }
        at = split_parent(folder).map(|(above, _)| above);
    }
    false
}
