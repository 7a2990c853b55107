//! The open store of one worktree: its repository, its index of the files, and its locks.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::capture_catalog::CaptureCatalog;
use crate::capture_expiry::CaptureChainTrimmer;
use crate::capture_pins::GroupPins;
use crate::capture_rules::CaptureRules;
use crate::change_journal::{ChangeJournal, WorktreeJournal};
use crate::diff::CaptureDiffs;
use crate::disk_usage::StoreInspection;
use crate::eviction::CaptureEviction;
use crate::forget::PathForgetter;
use crate::gc::GarbageCollector;
use crate::object_store::{ObjectRepository, Oid};
use crate::path::RelPath;
use crate::repack::{MaintenanceState, PackMaintenance};
use crate::restore::{OperationLog, RestorePlanner, RestoreRunner};
use crate::storage_budget::{
    BudgetUsage, FreeSpaceFloor, StorageBudget, StoreBudget, disk_free_and_floor,
};
use crate::worktree::{RootError, Worktree};
use crate::worktree_index::WorktreeIndex;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The worktree is not usable.
    #[error(transparent)]
    Root(#[from] RootError),
    /// Another process owns the store (R11): send it requests, or wait until it ends.
    #[error("the snapshot store is in use by another process ({0})")]
    Locked(String),
    /// The store directory cannot be read or written.
    #[error("the snapshot store could not be opened")]
    Io(#[from] io::Error),
}

/// The snapshot store of one worktree, opened by its only writer.
///
/// Captures of named paths never wait for a capture of the whole worktree (R6).
pub struct SnapshotStore {
    pub(crate) directory: PathBuf,
    pub(crate) worktree: Worktree,
    pub(crate) selection: CaptureRules,
    pub(crate) repository: ObjectRepository,
    pub(crate) state: Mutex<StoreState>,
    /// Held from reading a group's reference to writing it.
    pub(crate) chain_lock: Mutex<()>,
    /// Held by the one capture of the whole worktree that runs.
    pub(crate) baseline_lock: Mutex<()>,
    /// What the last one saw; taken out while one runs.
    pub(crate) worktree_index: Mutex<WorktreeIndex>,
    pub(crate) journal: Mutex<ChangeJournal>,
    /// Locked shared while objects are relied on, exclusively while some are removed.
    pub(crate) objects_lock: RwLock<()>,
    pub(crate) budget_usage: Mutex<BudgetUsage>,
    /// Held by the one maintenance that runs, before any other lock.
    pub(crate) maintenance: Mutex<MaintenanceState>,
    /// Held while a logged restore runs: they run one after the other.
    pub(crate) restore_lock: Mutex<()>,
    /// The kernel's lock on the store, freed when this process ends, however it ends; `None` for
    /// a reader.
    owner_lock: Option<std::fs::File>,
}

/// What is known from earlier captures.
#[derive(Default)]
pub(crate) struct StoreState {
    /// Paths that callers forced; every capture selects them (R1).
    pub(crate) forced: Arc<BTreeSet<RelPath>>,
    /// Where captures were found whose commits were rewritten: a hint, verified before it is
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
    /// Opens the store in `folder` for `worktree`; creates it if it does not exist.
    ///
    /// Removes what a crash left half written and completes a store whose creation was interrupted.
    ///
    /// # Errors
    ///
    /// See [`StoreOpenError`].
    pub fn open(
        folder: &Path,
        worktree: Worktree,
        mut selection: CaptureRules,
    ) -> Result<Self, StoreOpenError> {
        worktree.check_root()?;
        fs_err::create_dir_all(folder)?;
        let folder = fs_err::canonicalize(folder)?;
        let owner = acquire_owner_lock(&folder)?;
        let repository = ObjectRepository::open(&folder.join("git"))?;
        repository.set_free_space_floor(disk_free_and_floor(&folder, FreeSpaceFloor::Default)?.1);
        if selection.own_data.is_none() {
            selection.own_data = worktree.relative_path_of(&folder);
        }
        let worktree_index = WorktreeIndex::load(&folder.join("stat-cache"));
        let state = StoreState::load(&folder)?;
        let maintenance = Mutex::new(MaintenanceState::load(&folder));
        Ok(Self {
            directory: folder,
            worktree,
            selection,
            repository,
            state: Mutex::new(state),
            chain_lock: Mutex::default(),
            baseline_lock: Mutex::default(),
            worktree_index: Mutex::new(worktree_index),
            journal: Mutex::default(),
            objects_lock: RwLock::default(),
            budget_usage: Mutex::default(),
            maintenance,
            restore_lock: Mutex::default(),
            owner_lock: Some(owner),
        })
    }

    /// Sets the budget. Without this the usual one for a single store is in force.
    ///
    /// # Errors
    ///
    /// The free space of the disk cannot be determined.
    pub fn with_budget(self, budget: StorageBudget) -> io::Result<Self> {
        let (_, floor) = disk_free_and_floor(self.git_dir(), budget.floor)?;
        self.repository.set_free_space_floor(floor);
        let mut account = self.budget_usage.lock().unwrap_or_else(PoisonError::into_inner);
        *account = BudgetUsage::new(budget);
        drop(account);
        Ok(self)
    }

    /// Opens a store that another process owns, for reading; nothing in it is written.
    pub(crate) fn open_read_only(
        folder: &Path,
        worktree: Worktree,
        selection: CaptureRules,
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

    /// Writes into the lock file where the owner listens, for other processes.
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

    /// Ensures that no object is removed while the guard is held.
    pub(crate) fn lock_objects_shared(&self) -> RwLockReadGuard<'_, ()> {
        self.objects_lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_worktree_index(&self) -> MutexGuard<'_, WorktreeIndex> {
        self.worktree_index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the index out, so that no other thread sees a half-changed one; the caller puts it back.
    pub(crate) fn take_worktree_index(&self) -> WorktreeIndex {
        std::mem::take(&mut *self.lock_worktree_index())
    }

    /// Drops index entries whose objects are not `kept`, because these leave the store.
    pub(crate) fn forget_dropped_objects(&self, kept: &dyn Fn(&Oid) -> bool) -> io::Result<()> {
        let mut worktree_index = self.lock_worktree_index();
        if worktree_index.are_objects_kept(kept) {
            return Ok(());
        }
        worktree_index.retain_stat_cache(|_, _, cached| kept(&cached.leaf.blob));
        let path = self.directory.join("stat-cache");
        worktree_index.save(&path, true)?;
        // Before the objects go: after a crash the index must not refer to missing objects.
        fs_err::File::open(path)?.sync_all()?;
        fs_err::File::open(&self.directory)?.sync_all()
    }

    pub(crate) fn lock_state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each subject of the store is a type that borrows what it works on.
impl SnapshotStore {
    /// The captures in the store.
    #[must_use]
    pub fn captures(&self) -> CaptureCatalog<'_> {
        CaptureCatalog {
            repository: &self.repository,
            state: &self.state,
            root: self.worktree.path(),
        }
    }

    /// Differences between captures and the worktree.
    #[must_use]
    pub fn diffs(&self) -> CaptureDiffs<'_> {
        CaptureDiffs { store: self }
    }

    /// Plans for restoring files.
    #[must_use]
    pub fn planner(&self) -> RestorePlanner<'_> {
        RestorePlanner {
            repository: &self.repository,
            worktree: &self.worktree,
            // Where the system does not say, the run finds out.
            guard_space: self.budget().bytes_above_floor().unwrap_or(u64::MAX),
            worktree_index: &self.worktree_index,
        }
    }

    /// Carrying plans out.
    #[must_use]
    pub fn restores(&self) -> RestoreRunner<'_> {
        RestoreRunner { store: self }
    }

    /// The operations that were carried out.
    #[must_use]
    pub fn operations(&self) -> OperationLog<'_> {
        OperationLog { directory: &self.directory }
    }

    /// Pinning captures in further groups.
    #[must_use]
    pub fn pins(&self) -> GroupPins<'_> {
        GroupPins { store: self }
    }

    /// The journal of the worktree.
    #[must_use]
    pub fn journal(&self) -> WorktreeJournal<'_> {
        WorktreeJournal { store: self }
    }

    /// What the store uses and may use.
    pub(crate) fn budget(&self) -> StoreBudget<'_> {
        StoreBudget { store: self }
    }

    /// Making room.
    #[must_use]
    pub fn eviction(&self) -> CaptureEviction<'_> {
        CaptureEviction { store: self }
    }

    /// Expiry of old captures.
    #[must_use]
    pub fn expiry(&self) -> CaptureChainTrimmer<'_> {
        CaptureChainTrimmer { store: self }
    }

    /// Garbage collection.
    #[must_use]
    pub fn collector(&self) -> GarbageCollector<'_> {
        GarbageCollector { store: self }
    }

    /// Maintenance of packs.
    #[must_use]
    pub fn packs(&self) -> PackMaintenance<'_> {
        PackMaintenance { store: self }
    }

    /// Disk usage and verification.
    #[must_use]
    pub fn inspection(&self) -> StoreInspection<'_> {
        StoreInspection { store: self }
    }

    /// Removing paths from every capture.
    #[must_use]
    pub fn forgetter(&self) -> PathForgetter<'_> {
        PathForgetter { store: self }
    }
}

impl Drop for SnapshotStore {
    fn drop(&mut self) {
        // A reader has nothing to save.
        if self.owner_lock.is_none() {
            return;
        }
        // A hint for the next process; without it files are read again.
        self.lock_worktree_index().save(&self.directory.join("stat-cache"), true).ok();
    }
}

/// Becomes the owner of the store: the only writer of its packs, references and stat cache (R11).
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

/// Writes into the lock file who holds it, for messages only: the kernel's lock decides.
fn write_lock_holder(mut file: &std::fs::File, more: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("process {}{more}", std::process::id()).as_bytes())
}
