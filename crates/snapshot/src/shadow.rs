//! A store of one worktree, open: the repository, what is remembered of the files, and the locks.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::journal::Journal;
use crate::object::{Oid, Repository};
use crate::path::RelPath;
use crate::picture::Picture;
use crate::selection::Selection;
use crate::worktree::{RootError, Worktree};

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The worktree is not usable.
    #[error(transparent)]
    Root(#[from] RootError),
    /// Another process keeps the store (R11): ask it, or wait until it ends.
    #[error("the snapshot store is kept by another process ({0})")]
    Kept(String),
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
    /// What the last one saw; taken out by the one that runs.
    picture: Mutex<Picture>,
    pub(crate) journal: Mutex<Journal>,
    /// Read by whoever relies on objects being there; written by whoever takes some away.
    pub(crate) objects: RwLock<()>,
    /// The kernel's lock on the store, freed when this process ends, however it ends.
    _keeper: std::fs::File,
}

/// What is known from captures before.
#[derive(Default)]
pub(crate) struct Memory {
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
        let keeper = keep(&folder)?;
        let repository = Repository::open(&folder.join("git"))?;
        if selection.own_data.is_none() {
            selection.own_data = inside(&worktree, &folder);
        }
        let forced = match fs_err::read(folder.join("forced.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let picture = Picture::load(&folder.join("stat-cache"));
        let memory = Memory { forced: Arc::new(forced) };
        Ok(Self {
            folder,
            worktree,
            selection,
            repository,
            memory: Mutex::new(memory),
            chain: Mutex::default(),
            baseline: Mutex::default(),
            picture: Mutex::new(picture),
            journal: Mutex::default(),
            objects: RwLock::default(),
            _keeper: keeper,
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

    /// Makes sure that no object goes while the answer is held.
    pub(crate) fn hold_objects(&self) -> RwLockReadGuard<'_, ()> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the picture out, so that nobody meets a half-changed one; the caller puts it back.
    pub(crate) fn take_picture(&self) -> Picture {
        std::mem::take(&mut *self.picture())
    }

    /// Forgets whatever is remembered of objects that are not `kept`: they left the store.
    pub(crate) fn forget_dropped(&self, kept: &dyn Fn(&Oid) -> bool) -> io::Result<()> {
        let mut picture = self.picture();
        if picture.is_kept(kept) {
            return Ok(());
        }
        picture.shrink(|_, _, cached| kept(&cached.leaf.blob));
        picture.save(&self.folder.join("stat-cache"), true)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // A hint for the next process; without it files are read again.
        self.picture().save(&self.folder.join("stat-cache"), true).ok();
    }
}

/// Becomes the keeper of the store: the only writer of its packs, references and stat cache (R11).
fn keep(folder: &Path) -> Result<std::fs::File, OpenError> {
    let path = folder.join("keeper");
    let mut options = fs_err::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
    let (mut file, _) = file.into_parts();
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            return Err(OpenError::Kept(fs_err::read_to_string(&path).unwrap_or_default()));
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    file.set_len(0)?;
    // For messages only: who holds the lock is the kernel's to say.
    write!(file, "process {}", std::process::id())?;
    Ok(file)
}

fn inside(worktree: &Worktree, folder: &Path) -> Option<RelPath> {
    use std::os::unix::ffi::OsStrExt;
    let relative = folder.strip_prefix(worktree.path()).ok()?;
    RelPath::new(relative.as_os_str().as_bytes()).ok()
}
