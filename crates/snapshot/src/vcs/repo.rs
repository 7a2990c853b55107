//! A repository whose files lie in the worktree.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::index::{Damaged, Index, parse};
use super::{Config, file};
use crate::path::RelPath;
use crate::worktree::{Dir, Kind, Worktree};

/// Whether the user's index lists a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracked {
    /// It does: then no rule hides it.
    Yes,
    /// It does not.
    No,
    /// The index cannot be read, which is not a no.
    Unknown,
}

/// A repository whose files lie in the worktree.
#[derive(Debug)]
pub(crate) struct Repo {
    /// Its own directory; for a linked worktree not the one that is shared.
    git_dir: PathBuf,
    /// Bytes of a path, from the root of the worktree, that lead to its files.
    prefix: usize,
    /// Read when it is first asked for; nothing if it cannot be.
    index: OnceLock<Option<Index>>,
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
        Some(Self { git_dir, prefix, index: OnceLock::new() })
    }

    /// How many bytes of a path, from the root of the worktree, lead to the repository's files.
    pub(crate) fn prefix(&self) -> usize {
        self.prefix
    }

    /// The directory linked worktrees share: objects, configuration, excludes.
    pub(crate) fn common_dir(&self) -> io::Result<PathBuf> {
        Ok(match file::read(&self.git_dir.join("commondir"))? {
            Some((text, _)) => self.git_dir.join(path_of(&text)),
            None => self.git_dir.clone(),
        })
    }

    /// The patterns of `info/exclude`, which linked worktrees share.
    pub(crate) fn excludes(&self) -> Vec<u8> {
        let read = |common: PathBuf| file::read_or_empty(&common.join("info/exclude"));
        self.common_dir().and_then(read).unwrap_or_default()
    }

    /// The attributes of `info/attributes`.
    pub(crate) fn attributes(&self) -> io::Result<Vec<u8>> {
        file::read_or_empty(&self.common_dir()?.join("info/attributes"))
    }

    /// The configuration of the repository and of this worktree of it.
    pub(crate) fn config(&self) -> io::Result<Config> {
        let shared = Config::parse(&file::read_or_empty(&self.common_dir()?.join("config"))?)?;
        if !shared.per_worktree {
            return Ok(shared);
        }
        let own = file::read_or_empty(&self.git_dir.join("config.worktree"))?;
        Ok(shared.and(Config::parse(&own)?))
    }

    /// Tells whether the user's index holds this file: then no rule hides it.
    pub(crate) fn tracks(&self, path: &RelPath) -> Tracked {
        self.ask(path, Index::holds)
    }

    /// Tells whether the user's index holds a file below this directory.
    pub(crate) fn tracks_below(&self, path: &RelPath) -> Tracked {
        self.ask(path, Index::holds_below)
    }

    fn ask(&self, path: &RelPath, question: impl Fn(&Index, &[u8]) -> bool) -> Tracked {
        let path = path.as_bytes().get(self.prefix..).unwrap_or_default();
        match self.index().map(|index| question(index, path)) {
            Some(true) => Tracked::Yes,
            Some(false) => Tracked::No,
            None => Tracked::Unknown,
        }
    }

    /// The user's index: empty if there is none, nothing if it cannot be read.
    pub(crate) fn index(&self) -> Option<&Index> {
        self.index.get_or_init(|| self.read_index().ok()).as_ref()
    }

    fn read_index(&self) -> io::Result<Index> {
        let width = self.config()?.id_bytes;
        let Some((index, link)) = read_half(&self.git_dir.join("index"), width)? else {
            return Ok(Index::default());
        };
        let Some(link) = link else {
            return Ok(index);
        };
        let name = format!("sharedindex.{}", link.base);
        let base = read_half(&self.git_dir.join(name), width)?;
        let (base, _) = base.ok_or_else(|| damaged(Damaged("its shared half is missing")))?;
        link.join(&base, &index).map_err(damaged)
    }
}

type Half = (Index, Option<super::split::Link>);

fn read_half(path: &Path, width: usize) -> io::Result<Option<Half>> {
    let Some((bytes, stat)) = file::read(path)? else {
        return Ok(None);
    };
    let (mut index, link) = parse(&bytes, width).map_err(damaged)?;
    index.time = stat.mtime;
    Ok(Some((index, link)))
}

fn damaged(error: Damaged) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii_end()))
}
