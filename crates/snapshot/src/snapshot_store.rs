//! A store of one worktree, open: the repository, what is remembered of the files, and the locks.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::capture_selection::CaptureSelection;
use crate::change_journal::ChangeJournal;
use crate::object_store::{ObjectRepository, Oid};
use crate::path::RelPath;
use crate::repack::MaintenanceState;
use crate::storage_budget::{BudgetUsage, FreeSpaceFloor, disk_free_and_floor};
use crate::worktree::{RootError, Worktree};
use crate::worktree_index::WorktreeIndex;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The worktree is not usable.
    #[error(transparent)]
    Root(#[from] RootError),
    /// Another process keeps the store (R11): ask it, or wait until it ends.
    #[error("the snapshot store is in use by another process ({0})")]
    Locked(String),
    /// The store directory cannot be read or written.
    #[error("the snapshot store could not be opened")]
    Io(#[from] io::Error),
}

/// The shadow repository of one worktree.
///
/// Captures of named paths never wait for a capture of the whole worktree (R6).
pub struct SnapshotStore {
    pub(crate) directory: PathBuf,
    pub(crate) worktree: Worktree,
    pub(crate) selection: CaptureSelection,
    pub(crate) repository: ObjectRepository,
    pub(crate) state: Mutex<StoreState>,
    /// Held from reading a group's reference to writing it.
    pub(crate) chain_lock: Mutex<()>,
    /// Held by the one capture of the whole worktree that runs.
    pub(crate) baseline_lock: Mutex<()>,
    /// What the last one saw; taken out by the one that runs.
    worktree_index: Mutex<WorktreeIndex>,
    pub(crate) journal: Mutex<ChangeJournal>,
    /// Read by whoever relies on objects being there; written by whoever takes some away.
    pub(crate) objects_lock: RwLock<()>,
    pub(crate) budget_usage: Mutex<BudgetUsage>,
    /// Held by the one upkeep that runs, before any other lock.
    pub(crate) maintenance: Mutex<MaintenanceState>,
    /// Held while a restore that is logged runs: they are done one after the other.
    pub(crate) restore_lock: Mutex<()>,
    /// The kernel's lock on the store, freed when this process ends, however it ends; nothing for
    /// one who only reads.
    owner_lock: Option<std::fs::File>,
}

/// What is known from captures before.
#[derive(Default)]
pub(crate) struct StoreState {
    /// Paths a caller forced, for ever (R1).
    pub(crate) forced: Arc<BTreeSet<RelPath>>,
    /// Where captures were found whose commits were written anew: a hint, looked at before it is
    /// believed.
    pub(crate) rewritten: HashMap<Oid, Oid>,
}

impl StoreState {
    fn load(folder: &Path) -> io::Result<Self> {
        let forced = match fs_err::read(folder.join("forced.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { forced: Arc::new(forced), rewritten: HashMap::new() })
    }
}

impl SnapshotStore {
    /// Opens the store in `folder`, made if it is not there, for `worktree`.
    ///
    /// What a crash left half written is swept; a store that never got finished is finished.
    ///
    /// # Errors
    ///
    /// See [`StoreOpenError`].
    pub fn open(
        folder: &Path,
        worktree: Worktree,
        mut selection: CaptureSelection,
    ) -> Result<Self, StoreOpenError> {
        worktree.check_root()?;
        fs_err::create_dir_all(folder)?;
        let folder = fs_err::canonicalize(folder)?;
        let keeper = acquire_owner_lock(&folder)?;
        let repository = ObjectRepository::open(&folder.join("git"))?;
        repository.set_free_space_floor(disk_free_and_floor(&folder, FreeSpaceFloor::Default)?.1);
        if selection.own_data.is_none() {
            selection.own_data = worktree.relative_path_of(&folder);
        }
        let picture = WorktreeIndex::load(&folder.join("stat-cache"));
        let memory = StoreState::load(&folder)?;
        let upkeep = Mutex::new(MaintenanceState::load(&folder));
        Ok(Self {
            directory: folder,
            worktree,
            selection,
            repository,
            state: Mutex::new(memory),
            chain_lock: Mutex::default(),
            baseline_lock: Mutex::default(),
            worktree_index: Mutex::new(picture),
            journal: Mutex::default(),
            objects_lock: RwLock::default(),
            budget_usage: Mutex::default(),
            maintenance: upkeep,
            restore_lock: Mutex::default(),
            owner_lock: Some(keeper),
        })
    }

    /// Opens a store that somebody else keeps, to read from it; nothing of it is written.
    pub(crate) fn open_read_only(
        folder: &Path,
        worktree: Worktree,
        selection: CaptureSelection,
    ) -> Result<Self, StoreOpenError> {
        let repository = ObjectRepository::open_read_only(&folder.join("git"))?;
        Ok(Self {
            state: Mutex::new(StoreState::load(folder)?),
            worktree_index: Mutex::new(WorktreeIndex::load(&folder.join("stat-cache"))),
            directory: folder.to_owned(),
            worktree,
            selection,
            repository,
            chain_lock: Mutex::default(),
            baseline_lock: Mutex::default(),
            journal: Mutex::default(),
            objects_lock: RwLock::default(),
            budget_usage: Mutex::default(),
            maintenance: Mutex::default(),
            restore_lock: Mutex::default(),
            owner_lock: None,
        })
    }

    /// Tells others where the keeper can be asked; for those who find the store kept.
    pub(crate) fn announce_socket(&self, text: &str) -> io::Result<()> {
        match &self.owner_lock {
            Some(file) => write_lock_holder(file, text),
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
    pub(crate) fn stored_object_count(&self) -> u64 {
        self.repository.stored_object_count()
    }

    /// Makes sure that no object goes while the answer is held.
    pub(crate) fn lock_objects_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.objects_lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_worktree_index(&self) -> MutexGuard<'_, WorktreeIndex> {
        self.worktree_index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the picture out, so that nobody meets a half-changed one; the caller puts it back.
    pub(crate) fn take_worktree_index(&self) -> WorktreeIndex {
        std::mem::take(&mut *self.lock_worktree_index())
    }

    /// Forgets whatever is remembered of objects that are not `kept`: they left the store.
    pub(crate) fn forget_dropped_objects(&self, kept: &dyn Fn(&Oid) -> bool) -> io::Result<()> {
        let mut picture = self.lock_worktree_index();
        if picture.are_objects_kept(kept) {
            return Ok(());
        }
        picture.retain_stat_cache(|_, _, cached| kept(&cached.leaf.blob));
        let path = self.directory.join("stat-cache");
        picture.save(&path, true)?;
        // Were the objects to go first, a crash would leave files that are believed to be in them.
        fs_err::File::open(path)?.sync_all()?;
        fs_err::File::open(&self.directory)?.sync_all()
    }

    pub(crate) fn lock_state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SnapshotStore {
    fn drop(&mut self) {
        // One who only reads has nothing to leave.
        if self.owner_lock.is_none() {
            return;
        }
        // A hint for the next process; without it files are read again.
        self.lock_worktree_index().save(&self.directory.join("stat-cache"), true).ok();
    }
}

/// Becomes the keeper of the store: the only writer of its packs, references and stat cache (R11).
pub(crate) fn acquire_owner_lock(folder: &Path) -> Result<std::fs::File, StoreOpenError> {
    let path = folder.join("keeper");
    let mut options = fs_err::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(&path)?;
    let (file, _) = file.into_parts();
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            return Err(StoreOpenError::Locked(fs_err::read_to_string(&path).unwrap_or_default()));
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    write_lock_holder(&file, "")?;
    Ok(file)
}

/// Writes into the lock file who holds it, for messages only: that is the kernel's to say.
fn write_lock_holder(mut file: &std::fs::File, more: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("process {}{more}", std::process::id()).as_bytes())
}
