//! The walk: lists and stats folders in parallel, decides what is captured (R7), and tells what differs
//! from the picture.
//!
//! Reads no file but rules. One bad path costs that path only; it is skipped with its reason.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::Scope;

use crate::cache::{Cached, Name};
use crate::coverage::Reason;
use crate::path::{RelPath, is_git_directory};
use crate::picture::{Node, Picture, Place, join, split};
use crate::selection::{Glimpse, Judge, Selection};
use crate::vcs::Repo;
use crate::watch::{Names, Watch};
use crate::worktree::{self, Dir, Stat, Worktree};

/// How often a folder that is moved under our eyes is opened again.
const TRIES: usize = 3;

/// What a name turned out to be.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    /// A file that the picture proves unchanged.
    Known(Cached),
    /// A file that must be read.
    Stale(Stat),
    Skipped(Reason),
    /// A folder that is entered.
    Folder,
}

/// A folder that is not as the picture has it.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) folder: Vec<u8>,
    pub(crate) place: Place,
    pub(crate) is_repo: bool,
    pub(crate) reserved: usize,
    /// Sorted.
    pub(crate) names: Vec<(Name, Sight)>,
}

/// One name that was looked at by itself; nothing if it is not there.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) folder: Vec<u8>,
    pub(crate) name: Name,
    pub(crate) sight: Option<Sight>,
}

/// What differs from the picture; what comes later is truer.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) glances: Vec<Glance>,
    pub(crate) listings: Vec<Listing>,
    /// Folders that could not be entered after all.
    pub(crate) notes: Vec<Glance>,
    /// Device and inode of files that have other names.
    pub(crate) linked: BTreeSet<(u64, u64)>,
}

impl Found {
    pub(crate) fn extend(&mut self, other: Self) {
        self.glances.extend(other.glances);
        self.listings.extend(other.listings);
        self.notes.extend(other.notes);
        self.linked.extend(other.linked);
    }

    /// The files that must be read, and what the kernel said of them, sorted by path.
    pub(crate) fn stale(&self) -> Vec<(RelPath, Stat)> {
        let listed = self.listings.iter().flat_map(|Listing { folder, names, .. }| {
            names.iter().map(move |(name, sight)| (folder, name, Some(sight)))
        });
        let glanced = self.glances.iter().map(|it| (&it.folder, &it.name, it.sight.as_ref()));
        let stale = listed.chain(glanced).filter_map(|(folder, name, sight)| match sight {
            Some(Sight::Stale(stat)) => Some((RelPath::below(folder, name).ok()?, *stat)),
            Some(Sight::Known(_) | Sight::Skipped(_) | Sight::Folder) | None => None,
        });
        let mut stale: Vec<(RelPath, Stat)> = stale.collect();
        stale.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        stale.dedup_by(|one, other| one.0 == other.0);
        stale
    }
}

/// Walks folders and compares them with a picture.
pub(crate) struct Walker<'w> {
    pub(crate) worktree: &'w Worktree,
    pub(crate) selection: &'w Selection,
    /// Paths that are selected whatever the rules say (R1).
    pub(crate) forced: &'w BTreeSet<RelPath>,
    pub(crate) picture: &'w Picture,
    /// True if a file the picture has under the same rules is selected still.
    pub(crate) shortcut: bool,
    /// Watches every folder before it is listed.
    pub(crate) watch: Option<&'w Watch>,
    pub(crate) found: Mutex<Found>,
}

impl<'w> Walker<'w> {
    /// Walks the whole worktree.
    pub(crate) fn walk(self) -> io::Result<Found> {
        let root = self.worktree.open_dir(None)?;
        // One that is not at its path tells so by itself.
        let _at_its_path = self.watch.is_none_or(|watch| watch.add(&root, b""));
        let names = root.names()?;
        rayon::scope(|scope| self.visit(scope, Vec::new(), Place::default(), &root, &names));
        Ok(self.found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at some names, and at everything below those that are folders.
    ///
    /// A folder that cannot be reached any more is passed over: who told of its names told of it too.
    /// So are names below folders that are `walked`: they are seen there, by the rules of now.
    pub(crate) fn look_at(
        self,
        names: &Names,
        walked: &mut BTreeSet<Vec<u8>>,
    ) -> io::Result<Found> {
        if names.is_empty() {
            return Ok(Found::default());
        }
        // A folder sorts before all that is in it.
        rayon::in_place_scope(|scope| {
            names.iter().try_for_each(|(folder, names)| {
                if is_in(walked, folder) {
                    return Ok(());
                }
                self.look_in(scope, folder, names, walked)
            })
        })?;
        Ok(self.found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn look_in<'s>(
        &'s self,
        scope: &Scope<'s>,
        folder: &[u8],
        names: &BTreeSet<Name>,
        walked: &mut BTreeSet<Vec<u8>>,
    ) -> io::Result<()> {
        let Some(known) = self.picture.node(folder) else {
            return Ok(());
        };
        let path = RelPath::new(folder).ok();
        let dir = match self.worktree.open_dir(path.as_ref()) {
            Ok(dir) => dir,
            Err(error) if is_unreachable(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut judge = Judge::new(self, folder, &dir, &known.place, Some(known));
        let mut glances = Vec::new();
        for name in names.iter().filter(|name| !is_git_directory(name)) {
            judge.differs = false;
            let glimpse = judge.see(name, None);
            let hidden = match &glimpse {
                Some(Glimpse::Folder(hidden)) => Some(*hidden),
                Some(_) if !judge.differs => continue,
                Some(_) | None => None,
            };
            let sight = glimpse.map(|glimpse| glimpse.settle(Some(known)));
            glances.push(Glance { folder: folder.to_vec(), name: name.clone(), sight });
            if let Some(hidden) = hidden {
                let place = Place { hidden, ..known.place.clone() };
                let below = join(folder, name);
                walked.insert(below.clone());
                self.enter(scope, below, place);
            }
        }
        let linked = judge.linked;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.glances.extend(glances);
        found.linked.extend(linked);
        Ok(())
    }

    /// Enters a folder; `place` is what applies in the one above.
    fn enter<'s>(&'s self, scope: &Scope<'s>, folder: Vec<u8>, place: Place) {
        scope.spawn(move |scope| {
            let listed = self.open(&folder).and_then(|dir| Ok((dir.names()?, dir)));
            match listed {
                Ok((names, dir)) => self.visit(scope, folder, place, &dir, &names),
                // It was there when its parent was listed; now it is not, which is no skip.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.note(&folder, None),
                Err(_) => self.note(&folder, Some(Sight::Skipped(Reason::Unreadable))),
            }
        });
    }

    /// Opens a folder and watches it. One that is moved meanwhile is looked for at its path again.
    fn open(&self, folder: &[u8]) -> io::Result<Dir> {
        let path = RelPath::new(folder).map_err(io::Error::other)?;
        for _ in 0..TRIES {
            let dir = self.worktree.open_dir(Some(&path))?;
            if self.watch.is_none_or(|watch| watch.add(&dir, folder)) {
                return Ok(dir);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Looks at every name of a folder; `above` is what applies in the folder that holds it.
    fn visit<'s>(
        &'s self,
        scope: &Scope<'s>,
        folder: Vec<u8>,
        above: Place,
        dir: &Dir,
        names: &worktree::Names,
    ) {
        let known = self.picture.node(&folder);
        let (place, is_repo) = self.territory(&folder, above, dir, names, known);
        let mut judge = Judge::new(self, &folder, dir, &place, known);
        let mut reserved = 0;
        let mut seen = Vec::with_capacity(names.iter().len());
        for (name, kind) in names.iter() {
            // A git directory is passed over in silence; what only looks like one is counted.
            if is_git_directory(name) {
                reserved += usize::from(name != b".git");
            } else if let Some(glimpse) = judge.see(name, kind) {
                seen.push((name, glimpse));
            }
        }
        let is_same = !judge.differs
            && known.is_some_and(|known| {
                (known.reserved, known.is_repo, known.items.len())
                    == (reserved, is_repo, seen.len())
            });
        for (name, glimpse) in &seen {
            if let Glimpse::Folder(hidden) = glimpse {
                let place = Place { hidden: *hidden, ..place.clone() };
                self.enter(scope, join(&folder, name), place);
            }
        }
        let linked = judge.linked;
        if is_same {
            return;
        }
        let seen = seen.into_iter().map(|(name, glimpse)| (name.into(), glimpse.settle(known)));
        let mut names: Vec<(Name, Sight)> = seen.collect();
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let listing = Listing { folder, place, is_repo, reserved, names };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.listings.push(listing);
        found.linked.extend(linked);
    }

    /// Finds out which rules apply here: those above, a nested repository's own, a `.gitignore`.
    fn territory(
        &self,
        folder: &[u8],
        above: Place,
        dir: &Dir,
        names: &worktree::Names,
        known: Option<&Node>,
    ) -> (Place, bool) {
        let has = |wanted: &[u8]| names.iter().any(|(name, _)| name == wanted);
        let known = known.map(|known| &known.place);
        let mut place = Place { above: above.rules.clone(), own: None, ..above };
        let user = &self.selection.user_excludes;
        let repo = has(b".git").then(|| Repo::find(self.worktree, folder, dir, user)).flatten();
        let is_repo = repo.is_some();
        if let Some(repo) = repo {
            let old = known.and_then(|known| known.repo.clone());
            let repo = old.filter(|old| old.is_same(&repo)).unwrap_or_else(|| Arc::new(repo));
            place.above = repo.rules().clone();
            place.repo = Some(repo);
            place.hidden = None;
        }
        if has(b".gitignore") {
            let mut text = Vec::new();
            let read = dir
                .open_file(b".gitignore")
                .map(|(file, _)| file.take(1 << 20).read_to_end(&mut text));
            place.own = matches!(read, Ok(Ok(_))).then(|| text.into());
        }
        place.rules = match (&place.own, known) {
            (None, _) => place.above.clone(),
            (own, Some(known)) if known.own == *own && known.above.is_same(&place.above) => {
                known.rules.clone()
            }
            (Some(own), _) => place.above.with(own, folder),
        };
        (place, is_repo)
    }

    /// Corrects what the folder above said of a folder.
    fn note(&self, folder: &[u8], sight: Option<Sight>) {
        if let Some((above, name)) = split(folder) {
            let glance = Glance { folder: above.to_vec(), name: name.into(), sight };
            self.found.lock().unwrap_or_else(PoisonError::into_inner).notes.push(glance);
        }
    }
}

/// Tells whether the way to a folder is gone, barred, or leads elsewhere.
fn is_unreachable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = Errno::from_io_error(error);
    matches!(code, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS))
}

/// Tells whether a folder or one above it is among `folders`.
fn is_in(folders: &BTreeSet<Vec<u8>>, folder: &[u8]) -> bool {
    let mut at = Some(folder);
    while let Some(folder) = at.filter(|_| !folders.is_empty()) {
        if folders.contains(folder) {
            return true;
        }
        at = split(folder).map(|(above, _)| above);
    }
    false
}
