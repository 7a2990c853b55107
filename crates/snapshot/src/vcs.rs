//! The user's repository: what it excludes and what it tracks. Read here, written nowhere (R10).

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ignore::Rules;
use crate::worktree::{Dir, Kind, Stat, Worktree};

/// A repository whose files lie in the worktree.
#[derive(Debug)]
pub(crate) struct Repo {
    /// Its own directory; for a linked worktree not the one that is shared.
    git_dir: PathBuf,
    /// What leads from the root of the worktree to its files: nothing, or a path and a slash.
    lead: Vec<u8>,
    /// The patterns of `info/exclude`, which linked worktrees share.
    excludes: Vec<u8>,
    /// What applies at its root before any `.gitignore`.
    rules: Rules,
    index: Mutex<Index>,
}

/// What is known of the user's index.
#[derive(Debug, Default)]
struct Index {
    /// The index file when it was last looked at.
    stamp: Option<Stat>,
    /// Read when the first question comes, which is when the first hidden path is met.
    tracked: Option<Arc<Tracked>>,
}

/// What changed in a repository in a way that may select or hide files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Nothing.
    Nothing,
    /// These paths, from the root of the worktree, are tracked now or are not any more.
    Tracked(Vec<Vec<u8>>),
    /// Its excludes.
    Excludes,
}

impl Repo {
    /// Finds the repository whose files begin in `folder`, which is open and holds a `.git`.
    ///
    /// `user` are the patterns of the user's own excludes file.
    pub(crate) fn find(worktree: &Worktree, folder: &[u8], dir: &Dir, user: &[u8]) -> Option<Self> {
        let at = worktree.path().join(OsStr::from_bytes(folder));
        let git_dir = match dir.stat(b".git").ok()??.kind {
            Kind::Directory => at.join(".git"),
            Kind::File => {
                let mut text = Vec::new();
                dir.open_file(b".git").ok()?.0.take(4096).read_to_end(&mut text).ok()?;
                at.join(path_of(text.strip_prefix(b"gitdir: ")?))
            }
            Kind::Link | Kind::Special => return None,
        };
        let lead = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
        let excludes = read_excludes(&git_dir);
        let rules = Rules::default().with(user, folder).with(&excludes, folder);
        let index = Index { stamp: stamp(&git_dir.join("index")), tracked: None };
        Some(Self { git_dir, lead, excludes, rules, index: Mutex::new(index) })
    }

    /// Tells whether both are the same repository with the same excludes.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.git_dir, &self.lead, &self.excludes)
            == (&other.git_dir, &other.lead, &other.excludes)
    }

    /// What applies at its root before any `.gitignore`.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Tells whether [`Self::refresh`] would find something.
    pub(crate) fn is_moved(&self) -> bool {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.stamp != stamp(&self.git_dir.join("index"))
            || read_excludes(&self.git_dir) != self.excludes
    }

    /// Looks whether the repository selects other files than when it was last asked.
    pub(crate) fn refresh(&self) -> Moved {
        if read_excludes(&self.git_dir) != self.excludes {
            return Moved::Excludes;
        }
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamp(&self.git_dir.join("index"));
        if now == index.stamp {
            return Moved::Nothing;
        }
        index.stamp = now;
        let Some(before) = index.tracked.take() else {
            return Moved::Nothing;
        };
        let after = Arc::new(Tracked::read(&self.git_dir.join("index")));
        index.tracked = Some(after.clone());
        drop(index);
        let moved = before.differing(&after).into_iter();
        let moved: Vec<_> = moved.map(|path| [&self.lead[..], &path].concat()).collect();
        if moved.is_empty() { Moved::Nothing } else { Moved::Tracked(moved) }
    }

    /// Tells whether the user's index holds this file: then no rule hides it.
    pub(crate) fn tracks(&self, path: &[u8]) -> bool {
        path.get(self.lead.len()..).is_some_and(|path| self.tracked().contains(path))
    }

    /// Tells whether the user's index holds a file below this directory.
    pub(crate) fn tracks_below(&self, path: &[u8]) -> bool {
        path.get(self.lead.len()..).is_some_and(|path| self.tracked().contains_below(path))
    }

    fn tracked(&self) -> Arc<Tracked> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || Arc::new(Tracked::read(&self.git_dir.join("index")));
        index.tracked.get_or_insert_with(read).clone()
    }
}

/// The paths of an index, sorted, in one piece of memory.
#[derive(Debug, Default)]
struct Tracked {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Tracked {
    /// Reads an index; nothing is tracked if it cannot be read, as in a repository of another hash.
    fn read(path: &Path) -> Self {
        let hash = gix::hash::Kind::Sha1;
        let options = gix::index::decode::Options::default();
        let Ok(index) = gix::index::File::at(path, hash, true, options) else {
            return Self::default();
        };
        let mut tracked = Self::default();
        for entry in index.entries() {
            tracked.bytes.extend_from_slice(entry.path(&index));
            tracked.ends.push(tracked.bytes.len() as u32);
        }
        tracked
    }

    fn get(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from as usize..self.ends[at] as usize]
    }

    /// The first path that is not before `path`.
    fn seek(&self, path: &[u8]) -> Option<&[u8]> {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle) < path { low = middle + 1 } else { high = middle }
        }
        (low < self.ends.len()).then(|| self.get(low))
    }

    fn contains(&self, path: &[u8]) -> bool {
        self.seek(path) == Some(path)
    }

    fn contains_below(&self, path: &[u8]) -> bool {
        let from = [path, b"/"].concat();
        self.seek(&from).is_some_and(|found| found.starts_with(&from))
    }

    /// The paths that are in one of both only.
    fn differing(&self, other: &Self) -> Vec<Vec<u8>> {
        let (mut one, mut two, mut found) = (0, 0, Vec::new());
        while one < self.ends.len() || two < other.ends.len() {
            let here = (one < self.ends.len()).then(|| self.get(one));
            let there = (two < other.ends.len()).then(|| other.get(two));
            match (here, there) {
                (Some(here), Some(there)) if here == there => (one, two) = (one + 1, two + 1),
                (Some(here), there) if there.is_none_or(|there| here < there) => {
                    found.push(here.to_vec());
                    one += 1;
                }
                (_, Some(there)) => {
                    found.push(there.to_vec());
                    two += 1;
                }
                (_, None) => break,
            }
        }
        found
    }
}

fn read_excludes(git_dir: &Path) -> Vec<u8> {
    let common = match fs_err::read(git_dir.join("commondir")) {
        Ok(text) => git_dir.join(path_of(&text)),
        Err(_) => git_dir.to_owned(),
    };
    fs_err::read(common.join("info/exclude")).unwrap_or_default()
}

fn stamp(path: &Path) -> Option<Stat> {
    rustix::fs::stat(path).ok().map(|stat| Stat::from(&stat))
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(paths: &[&str]) -> Tracked {
        let mut tracked = Tracked::default();
        for path in paths {
            tracked.bytes.extend_from_slice(path.as_bytes());
            tracked.ends.push(tracked.bytes.len() as u32);
        }
        tracked
    }

    #[test]
    fn what_an_index_holds_is_found_and_what_changed_is_told() {
        let one = tracked(&["a", "a-b", "a/x", "b"]);
        let two = tracked(&["a-b", "a/x", "a/y", "c"]);

        assert!(one.contains(b"a") && one.contains(b"a/x") && !one.contains(b"a/"));
        assert!(one.contains_below(b"a") && !one.contains_below(b"b"));
        assert!(!tracked(&[]).contains(b"a"));
        assert_eq!(one.differing(&two), [&b"a"[..], b"a/y", b"b", b"c"]);
        assert!(one.differing(&one).is_empty());
    }
}
