//! A store of one worktree, open: the repository, what is remembered of the files, and the locks.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::Cache;
use crate::object::Repository;
use crate::path::RelPath;
use crate::walk::Selection;
use crate::worktree::{RootError, Worktree};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The worktree is not usable.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The store directory cannot be read or written.
    #[error("the snapshot store could not be opened")]
    Io(#[from] io::Error),
}

/// The shadow repository of one worktree.
///
/// Captures of named paths never wait for a capture of the whole worktree (R6).
pub struct Shadow {
    pub(crate) folder: PathBuf,
    pub(crate) worktree: Worktree,
    pub(crate) selection: Selection,
    pub(crate) repository: Repository,
    pub(crate) memory: Mutex<Memory>,
    /// Held from reading a group's reference to writing it.
    pub(crate) chain: Mutex<()>,
    /// Held by the one capture of the whole worktree that runs.
    pub(crate) baseline: Mutex<()>,
}

/// What is known from captures before.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) cache: Arc<Cache>,
    /// Paths a caller forced, for ever (R1).
    pub(crate) forced: Arc<BTreeSet<RelPath>>,
}

impl Shadow {
    /// Opens the store in `folder`, made if it is not there, for `worktree`.
    ///
    /// What a crash left half written is swept; a store that never got finished is finished.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(
        folder: &Path,
        worktree: Worktree,
        mut selection: Selection,
    ) -> Result<Self, OpenError> {
        worktree.check()?;
        fs_err::create_dir_all(folder)?;
        let folder = fs_err::canonicalize(folder)?;
        let repository = Repository::open(&folder.join("git"))?;
        if selection.own_data.is_none() {
            selection.own_data = inside(&worktree, &folder);
        }
        let forced = match fs_err::read(folder.join("forced.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let cache = Arc::new(Cache::load(&folder.join("stat-cache")));
        let memory = Memory {
            cache,
            forced: Arc::new(forced),
        };
        Ok(Self {
            folder,
            worktree,
            selection,
            repository,
            memory: Mutex::new(memory),
            chain: Mutex::default(),
            baseline: Mutex::default(),
        })
    }

    /// The bare repository, for plain git.
    #[must_use]
    pub fn git_dir(&self) -> &Path {
        self.repository.git_dir()
    }

    /// The worktree this store belongs to.
    #[must_use]
    pub fn worktree(&self) -> &Worktree {
        &self.worktree
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn inside(worktree: &Worktree, folder: &Path) -> Option<RelPath> {
    use std::os::unix::ffi::OsStrExt;
    let relative = folder.strip_prefix(worktree.path()).ok()?;
    RelPath::new(relative.as_os_str().as_bytes()).ok()
}
