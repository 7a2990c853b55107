//! The user's repository: what it excludes and what it tracks. Read here, written nowhere (R10).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::path::RelPath;
use crate::worktree::{Dir, Kind, Worktree};

/// A repository whose files lie in the worktree.
#[derive(Debug)]
pub(crate) struct Repo {
    /// Its own directory; for a linked worktree not the one that is shared.
    git_dir: PathBuf,
    /// Bytes of a path, from the root of the worktree, that lead to its files.
    prefix: usize,
    tracked: OnceLock<BTreeSet<Vec<u8>>>,
}

impl Repo {
    /// Finds the repository whose files begin in `dir`, which lies at `path` and holds a `.git`.
    pub(crate) fn find(worktree: &Worktree, path: Option<&RelPath>, dir: &Dir) -> Option<Self> {
        let folder = match path {
            Some(path) => worktree.path().join(OsStr::from_bytes(path.as_bytes())),
            None => worktree.path().to_owned(),
        };
        let git_dir = match dir.stat(b".git").ok()??.kind {
            Kind::Directory => folder.join(".git"),
            Kind::File => {
                let mut text = Vec::new();
                dir.open_file(b".git").ok()?.0.take(4096).read_to_end(&mut text).ok()?;
                folder.join(path_of(text.strip_prefix(b"gitdir: ")?))
            }
            Kind::Link | Kind::Special => return None,
        };
        let prefix = path.map_or(0, |path| path.as_bytes().len() + 1);
        Some(Self { git_dir, prefix, tracked: OnceLock::new() })
    }

    /// The patterns of `info/exclude`, which linked worktrees share.
    pub(crate) fn excludes(&self) -> Vec<u8> {
        fs_err::read(self.common_dir().join("info/exclude")).unwrap_or_default()
    }

    /// Its own directory.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The directory that linked worktrees share.
    pub(crate) fn common_dir(&self) -> PathBuf {
        match fs_err::read(self.git_dir.join("commondir")) {
            Ok(text) => self.git_dir.join(path_of(&text)),
            Err(_) => self.git_dir.clone(),
        }
    }

    /// Tells whether the user's index holds this file: then no rule hides it.
    pub(crate) fn tracks(&self, path: &RelPath) -> bool {
        path.as_bytes().get(self.prefix..).is_some_and(|path| self.tracked().contains(path))
    }

    /// Tells whether the user's index holds a file below this directory.
    pub(crate) fn tracks_below(&self, path: &RelPath) -> bool {
        let Some(path) = path.as_bytes().get(self.prefix..) else {
            return false;
        };
        let from = [path, b"/"].concat();
        let mut after =
            self.tracked().range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded));
        after.next().is_some_and(|found| found.starts_with(&from))
    }

    /// The paths of the index; none if it cannot be read, as in a repository of another hash.
    fn tracked(&self) -> &BTreeSet<Vec<u8>> {
        self.tracked.get_or_init(|| read_index(&self.git_dir.join("index")).unwrap_or_default())
    }
}

fn read_index(path: &Path) -> Option<BTreeSet<Vec<u8>>> {
    let hash = gix::hash::Kind::Sha1;
    let index = gix::index::File::at(path, hash, true, gix::index::decode::Options::default());
    let index = index.ok()?;
    Some(index.entries().iter().map(|entry| entry.path(&index).to_vec()).collect())
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii_end()))
}
