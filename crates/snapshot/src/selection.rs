//! The selection: which names of a folder are captured (R7), and why the others are not.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::cache::Cached;
use crate::coverage::Reason;
use crate::path::{RelPath, is_temp};
use crate::picture::{Item, Node, Place};
use crate::vcs::{Tracked, UserGit};
use crate::walk::{Sight, Walker};
use crate::worktree::{Dir, Kind, Stat};

/// What of a worktree is captured.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Files with more bytes are skipped, unless they are forced.
    pub max_file_bytes: u64,
    /// Names of directories that are skipped outside of any repository.
    pub generated: Vec<String>,
    /// The text of the user's excludes file; it applies in every repository.
    pub user_excludes: Vec<u8>,
    /// What the user's git settings say; without it every file of a checkout is read (R10).
    pub user_git: Option<UserGit>,
    /// The data directory, if it lies in the worktree.
    pub own_data: Option<RelPath>,
}

impl Default for Selection {
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

/// What a name turned out to be, before it is written down.
pub(crate) enum Glimpse {
    /// The file the picture has at this place of the folder.
    Known(usize),
    Stale(Stat),
    Skipped(Reason),
    /// A folder that is entered, and whether only for files that are tracked or forced.
    Folder(Option<Reason>),
}

impl Glimpse {
    /// Writes it down.
    pub(crate) fn settle(self, known: Option<&Node>) -> Sight {
        match (self, known) {
            (Self::Known(at), Some(known)) => match &known.items[at].1 {
                Item::File(cached) => Sight::Known(*cached),
                Item::Skipped(reason) => Sight::Skipped(*reason),
                Item::Folder(_) => Sight::Folder,
            },
            // Only a folder that is known has known files.
            (Self::Known(_), None) => Sight::Skipped(Reason::Changing),
            (Self::Stale(stat), _) => Sight::Stale(stat),
            (Self::Skipped(reason), _) => Sight::Skipped(reason),
            (Self::Folder(_), _) => Sight::Folder,
        }
    }
}

/// Decides over the names of one folder.
pub(crate) struct Judge<'j> {
    walker: &'j Walker<'j>,
    dir: &'j Dir,
    place: &'j Place,
    known: Option<&'j Node>,
    /// True if a file the picture has here is selected by the same rules as then.
    shortcut: bool,
    /// The path of the name at hand; before it, the path of the folder.
    path: Vec<u8>,
    lead: usize,
    /// True once something is not as the picture has it.
    pub(crate) differs: bool,
    /// Device and inode of files found to have other names, which the picture did not know.
    pub(crate) linked: Vec<(u64, u64)>,
}

impl<'j> Judge<'j> {
    pub(crate) fn new(
        walker: &'j Walker<'j>,
        folder: &[u8],
        dir: &'j Dir,
        place: &'j Place,
        known: Option<&'j Node>,
    ) -> Self {
        let is_same = known.is_some_and(|known| known.whole && known.place.is_same(place));
        let mut path = folder.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        let (lead, shortcut) = (path.len(), walker.shortcut && is_same);
        let (differs, linked) = (!is_same, Vec::new());
        Self { walker, dir, place, known, shortcut, path, lead, differs, linked }
    }

    /// Looks at a name; nothing if it is not there, or is nobody's business.
    pub(crate) fn see(&mut self, name: &[u8], kind: Option<Kind>) -> Option<Glimpse> {
        if is_temp(name) {
            return None;
        }
        self.path.truncate(self.lead);
        self.path.extend_from_slice(name);
        let at = self.known.and_then(|known| known.seek(name).ok());
        let known = at.and_then(|at| self.known.map(|known| &known.items[at].1));
        // Rules tell files from folders, and some file systems and all events do not.
        let kind = match kind {
            Some(kind) => Some(kind),
            None => match self.dir.stat(name) {
                Ok(stat) => {
                    let stat = stat?;
                    self.note_linked(&stat, known);
                    Some(stat.kind)
                }
                Err(_) => None,
            },
        };
        let own = self.walker.selection.own_data.as_ref();
        let glimpse = match kind {
            _ if own.is_some_and(|own| own.as_bytes() == self.path) => {
                Glimpse::Skipped(Reason::OwnData)
            }
            Some(Kind::Directory) => self.folder(name),
            Some(Kind::File | Kind::Link | Kind::Special) | None => self.file(name, at, known)?,
        };
        self.differs |= match (&glimpse, known) {
            (Glimpse::Known(_), _) | (Glimpse::Folder(_), Some(Item::Folder(_))) => false,
            (Glimpse::Skipped(reason), Some(Item::Skipped(known))) => reason != known,
            (Glimpse::Stale(_) | Glimpse::Skipped(_) | Glimpse::Folder(_), _) => true,
        };
        Some(glimpse)
    }

    fn folder(&self, name: &[u8]) -> Glimpse {
        let Place { rules, repo, .. } = self.place;
        let generated = || {
            let names = &self.walker.selection.generated;
            repo.is_none() && names.iter().any(|generated| generated.as_bytes() == name)
        };
        let ignored = || rules.hide(&self.path, true).then_some(Reason::Ignored);
        let hidden = generated().then_some(Reason::Generated).or(self.place.hidden);
        let Some(hidden) = hidden.or_else(ignored) else {
            return Glimpse::Folder(None);
        };
        // A repository is content by its own rules, wherever it lies.
        let inside = self.dir.open_dir(name).and_then(|dir| {
            self.walker.watch.inspect(|watch| watch.add_border(&dir, &self.path));
            dir.stat(b".git")
        });
        if matches!(inside, Ok(Some(_))) {
            return Glimpse::Folder(None);
        }
        if has_below(self.walker.forced, &self.path) {
            return Glimpse::Folder(Some(hidden));
        }
        let tracked = repo.as_ref().map_or(Tracked::No, |repo| repo.tracks_below(&self.path));
        match tracked {
            Tracked::Yes => Glimpse::Folder(Some(hidden)),
            Tracked::No => Glimpse::Skipped(hidden),
            Tracked::Unknown => Glimpse::Skipped(Reason::IndexUnreadable),
        }
    }

    /// Notes a file that has other names, unless the picture knew.
    fn note_linked(&mut self, stat: &Stat, known: Option<&Item>) {
        let is_known = match known {
            Some(Item::File(Cached { stat: known, .. })) => {
                known.nlink > 1 && (known.dev, known.ino) == (stat.dev, stat.ino)
            }
            Some(Item::Skipped(_) | Item::Folder(_)) | None => false,
        };
        if stat.kind == Kind::File && stat.nlink > 1 && !is_known {
            self.linked.push((stat.dev, stat.ino));
        }
    }

    fn file(&mut self, name: &[u8], at: Option<usize>, known: Option<&Item>) -> Option<Glimpse> {
        let item = known;
        let known = match known {
            Some(Item::File(cached)) => Some(cached),
            Some(Item::Skipped(_) | Item::Folder(_)) | None => None,
        };
        let is_forced = || self.walker.forced.contains(&self.path[..]);
        if known.is_none() || !self.shortcut {
            let Place { rules, repo, hidden, .. } = self.place;
            let hidden =
                hidden.or_else(|| rules.hide(&self.path, false).then_some(Reason::Ignored));
            let tracked = || repo.as_ref().map_or(Tracked::No, |repo| repo.tracks(&self.path));
            if let Some(reason) = hidden
                && !is_forced()
            {
                match tracked() {
                    Tracked::Yes => {}
                    Tracked::No => return Some(Glimpse::Skipped(reason)),
                    Tracked::Unknown => return Some(Glimpse::Skipped(Reason::IndexUnreadable)),
                }
            }
        }
        let stat = match self.dir.stat(name) {
            Ok(stat) => stat?,
            Err(_) => return Some(Glimpse::Skipped(Reason::Unreadable)),
        };
        self.note_linked(&stat, item);
        let is_forced = || self.walker.forced.contains(&self.path[..]);
        Some(match (stat.kind, at, known) {
            (Kind::Directory, ..) => self.folder(name),
            (Kind::Special, ..) => Glimpse::Skipped(Reason::Special),
            (Kind::File, ..) if self.is_large(&stat) && !is_forced() => {
                Glimpse::Skipped(Reason::TooLarge)
            }
            (_, Some(at), Some(cached)) if cached.proves(&stat) => Glimpse::Known(at),
            (Kind::File | Kind::Link, ..) => Glimpse::Stale(stat),
        })
    }

    fn is_large(&self, stat: &Stat) -> bool {
        stat.size > self.walker.selection.max_file_bytes
    }
}

/// Tells whether a set of paths has one below `folder`.
fn has_below(paths: &BTreeSet<RelPath>, folder: &[u8]) -> bool {
    let from = [folder, b"/"].concat();
    let mut after = paths.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded));
    after.next().is_some_and(|path| path.as_bytes().starts_with(&from))
}
