//! The walk: lists and stats a whole worktree in parallel and decides what is captured (R7).
//!
//! Reads no file but rules. One bad path costs that path only; it is skipped with its reason.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::Scope;

use crate::coverage::Reason;
use crate::ignore::Rules;
use crate::path::{RelPath, is_temp};
use crate::vcs::{Repo, Tracked, UserGit};
use crate::worktree::{Dir, Kind, Stat, Worktree};

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

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Files and links to capture, with what the kernel said of them, sorted by path.
    pub(crate) files: Vec<(RelPath, Stat)>,
    pub(crate) skipped: BTreeMap<RelPath, Reason>,
    pub(crate) nested: Vec<RelPath>,
    pub(crate) reserved: usize,
}

/// Walks the whole worktree.
pub(crate) fn walk(worktree: &Worktree, selection: &Selection) -> io::Result<Found> {
    let walker = Walker { worktree, selection, found: Mutex::default() };
    let root = worktree.open_dir(None)?;
    let names = root.list()?;
    rayon::scope(|scope| {
        let place = Place { path: None, rules: Rules::default(), repo: None, hidden: false };
        walker.visit(scope, place, &root, names);
    });
    let mut found = walker.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    found.nested.sort_unstable();
    Ok(found)
}

/// A directory and what applies in it.
struct Place {
    path: Option<RelPath>,
    rules: Rules,
    repo: Option<Arc<Repo>>,
    /// True inside an ignored directory that was entered for the tracked files in it.
    hidden: bool,
}

struct Walker<'w> {
    worktree: &'w Worktree,
    selection: &'w Selection,
    found: Mutex<Found>,
}

type Names = Vec<crate::worktree::Entry>;

impl<'w> Walker<'w> {
    fn enter<'s>(&'s self, scope: &Scope<'s>, place: Place) {
        let Some(path) = place.path.clone() else {
            return;
        };
        scope.spawn(move |scope| {
            let opened = self.worktree.open_dir(Some(&path));
            match opened.and_then(|dir| Ok((dir.list()?, dir))) {
                Ok((names, dir)) => self.visit(scope, place, &dir, names),
                // It was there when its parent was listed; now it is not, which is no skip.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => self.merge(Found {
                    skipped: BTreeMap::from([(path, Reason::Unreadable)]),
                    ..Found::default()
                }),
            }
        });
    }

    fn visit<'s>(&'s self, scope: &Scope<'s>, place: Place, dir: &Dir, names: Names) {
        let mut found = Found::default();
        let place = self.territory(place, dir, &names, &mut found);
        for entry in names {
            let Some(path) = child(place.path.as_ref(), &entry.name) else {
                // A git directory is passed over in silence; what only looks like one is counted.
                found.reserved += usize::from(entry.name != b".git");
                continue;
            };
            if is_temp(&entry.name) {
                continue;
            }
            if self.selection.own_data.as_ref() == Some(&path) {
                found.skipped.insert(path, Reason::OwnData);
                continue;
            }
            let kind = entry.kind.or_else(|| Some(dir.stat(&entry.name).ok()??.kind));
            match kind {
                Some(Kind::Directory) => self.directory(scope, &place, dir, path, &mut found),
                Some(Kind::File | Kind::Link | Kind::Special) => {
                    self.file(&place, dir, path, &mut found);
                }
                None => {}
            }
        }
        self.merge(found);
    }

    /// Finds out which rules apply here: those above, a nested repository's own, a `.gitignore`.
    fn territory(&self, mut place: Place, dir: &Dir, names: &Names, found: &mut Found) -> Place {
        let has = |name: &[u8]| names.iter().any(|entry| entry.name == name);
        let folder = place.path.as_ref().map_or(&b""[..], RelPath::as_bytes).to_vec();
        let repo =
            has(b".git").then(|| Repo::find(self.worktree, place.path.as_ref(), dir)).flatten();
        if let Some(repo) = repo {
            let user = Rules::default().with(&self.selection.user_excludes, &folder);
            place.rules = user.with(&repo.excludes(), &folder);
            place.repo = Some(Arc::new(repo));
            place.hidden = false;
            found.nested.extend(place.path.clone());
        }
        if has(b".gitignore") {
            let mut text = Vec::new();
            let read = dir
                .open_file(b".gitignore")
                .map(|(file, _)| file.take(1 << 20).read_to_end(&mut text));
            if matches!(read, Ok(Ok(_))) {
                place.rules = place.rules.with(&text, &folder);
            }
        }
        place
    }

    fn directory<'s>(
        &'s self,
        scope: &Scope<'s>,
        place: &Place,
        dir: &Dir,
        path: RelPath,
        found: &mut Found,
    ) {
        let Place { rules, repo, .. } = place;
        let is_repository = || {
            let inside = dir.open_dir(path.name()).and_then(|dir| dir.stat(b".git"));
            matches!(inside, Ok(Some(_)))
        };
        let generated = repo.is_none()
            && self.selection.generated.iter().any(|name| name.as_bytes() == path.name());
        if generated && !is_repository() {
            found.skipped.insert(path, Reason::Generated);
            return;
        }
        let mut hidden = place.hidden || rules.hide(path.as_bytes(), true);
        if hidden && is_repository() {
            hidden = false;
        }
        let tracked = || repo.as_ref().map_or(Tracked::No, |repo| repo.tracks_below(&path));
        if let Some(reason) = hidden.then(tracked).and_then(hidden_for) {
            found.skipped.insert(path, reason);
            return;
        }
        let (rules, repo) = (rules.clone(), repo.clone());
        self.enter(scope, Place { path: Some(path), rules, repo, hidden });
    }

    fn file(&self, place: &Place, dir: &Dir, path: RelPath, found: &mut Found) {
        let hidden = place.hidden || place.rules.hide(path.as_bytes(), false);
        let tracked = || place.repo.as_ref().map_or(Tracked::No, |repo| repo.tracks(&path));
        if let Some(reason) = hidden.then(tracked).and_then(hidden_for) {
            found.skipped.insert(path, reason);
            return;
        }
        let reason = match dir.stat(path.name()) {
            Ok(None) => return,
            Ok(Some(stat)) => match stat.kind {
                Kind::File if stat.size > self.selection.max_file_bytes => Reason::TooLarge,
                Kind::File | Kind::Link => {
                    found.files.push((path, stat));
                    return;
                }
                Kind::Special | Kind::Directory => Reason::Special,
            },
            Err(_) => Reason::Unreadable,
        };
        found.skipped.insert(path, reason);
    }

    fn merge(&self, found: Found) {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.files.extend(found.files);
        all.skipped.extend(found.skipped);
        all.nested.extend(found.nested);
        all.reserved += found.reserved;
    }
}

/// Why a path that a rule names is not captured; nothing if the user tracks it all the same.
fn hidden_for(tracked: Tracked) -> Option<Reason> {
    match tracked {
        Tracked::Yes => None,
        Tracked::No => Some(Reason::Ignored),
        Tracked::Unknown => Some(Reason::IndexUnreadable),
    }
}

fn child(folder: Option<&RelPath>, name: &[u8]) -> Option<RelPath> {
    match folder {
        Some(folder) => folder.join(name).ok(),
        None => RelPath::new(name).ok(),
    }
}
