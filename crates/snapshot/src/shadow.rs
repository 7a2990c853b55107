//! A store of one worktree, open: the repository, what is remembered of the files, and the locks.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::budget::{Account, Floor, free_space};
use crate::journal::Journal;
use crate::object::{Oid, Repository};
use crate::path::RelPath;
use crate::picture::Picture;
use crate::selection::Selection;
use crate::upkeep::Ledger;
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
    pub(crate) account: Mutex<Account>,
    /// Held by the one upkeep that runs, before any other lock.
    pub(crate) upkeep: Mutex<Ledger>,
    /// Held while a restore that is logged runs: they are done one after the other.
    pub(crate) applying: Mutex<()>,
    /// The kernel's lock on the store, freed when this process ends, however it ends; nothing for
    /// one who only reads.
    keeper: Option<std::fs::File>,
}

/// What is known from captures before.
#[derive(Default)]
pub(crate) struct Memory {
    /// Paths a caller forced, for ever (R1).
    pub(crate) forced: Arc<BTreeSet<RelPath>>,
    /// Where captures were found whose commits were written anew: a hint, looked at before it is
    /// believed.
    pub(crate) anew: HashMap<Oid, Oid>,
}

impl Memory {
    fn load(folder: &Path) -> io::Result<Self> {
        let forced = match fs_err::read(folder.join("forced.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { forced: Arc::new(forced), anew: HashMap::new() })
    }
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
        repository.set_floor(free_space(&folder, Floor::Usual)?.1);
        if selection.own_data.is_none() {
            selection.own_data = worktree.find_below(&folder);
        }
        let picture = Picture::load(&folder.join("stat-cache"));
        let memory = Memory::load(&folder)?;
        let upkeep = Mutex::new(Ledger::load(&folder));
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
            account: Mutex::default(),
            upkeep,
            applying: Mutex::default(),
            keeper: Some(keeper),
        })
    }

    /// Opens a store that somebody else keeps, to read from it; nothing of it is written.
    pub(crate) fn open_to_read(
        folder: &Path,
        worktree: Worktree,
        selection: Selection,
    ) -> Result<Self, OpenError> {
        let repository = Repository::open_to_read(&folder.join("git"))?;
        Ok(Self {
            memory: Mutex::new(Memory::load(folder)?),
            picture: Mutex::new(Picture::load(&folder.join("stat-cache"))),
            folder: folder.to_owned(),
            worktree,
            selection,
            repository,
            chain: Mutex::default(),
            baseline: Mutex::default(),
            journal: Mutex::default(),
            objects: RwLock::default(),
            account: Mutex::default(),
            upkeep: Mutex::default(),
            applying: Mutex::default(),
            keeper: None,
        })
    }

    /// Tells others where the keeper can be asked; for those who find the store kept.
    pub(crate) fn announce(&self, text: &str) -> io::Result<()> {
        match &self.keeper {
            Some(file) => note(file, text),
            None => Ok(()),
        }
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

    /// How many objects were stored since the store was opened.
    pub(crate) fn stored_objects(&self) -> u64 {
        self.repository.stored_objects()
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
        let path = self.folder.join("stat-cache");
        picture.save(&path, true)?;
        // Were the objects to go first, a crash would leave files that are believed to be in them.
        fs_err::File::open(path)?.sync_all()?;
        fs_err::File::open(&self.folder)?.sync_all()
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // One who only reads has nothing to leave.
        if self.keeper.is_none() {
            return;
        }
        // A hint for the next process; without it files are read again.
        self.picture().save(&self.folder.join("stat-cache"), true).ok();
    }
}

/// Becomes the keeper of the store: the only writer of its packs, references and stat cache (R11).
pub(crate) fn keep(folder: &Path) -> Result<std::fs::File, OpenError> {
    let path = folder.join("keeper");
    let mut options = fs_err::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
    let (file, _) = file.into_parts();
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            return Err(OpenError::Kept(fs_err::read_to_string(&path).unwrap_or_default()));
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    note(&file, "")?;
    Ok(file)
}

/// Writes into the lock file who holds it, for messages only: that is the kernel's to say.
fn note(mut file: &std::fs::File, more: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("process {}{more}", std::process::id()).as_bytes())
}
