//! The engine, open: one ledger, and the snapshot stores of the roots in use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::time::EpochMillis;
use turnstone_process::GitEnvironment;
use turnstone_snapshot::{SnapshotError, SnapshotHandle, SnapshotOptions};
use turnstone_store::{DataLayout, Options, Store};

use crate::error::Result;
use crate::id_generator::IdGenerator;
use crate::permissions::RuleSettings;
use crate::tool_calls::file::ReadStamps;

/// How long captures nobody needs are usually kept (R41).
const DEFAULT_RETENTION_MILLIS: i64 = 7 * 24 * 3_600_000;

/// What becomes of a call when there is no room for what its undo needs (R13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverBudgetPolicy {
    /// It is refused.
    #[default]
    RefuseCall,
    /// It runs, and can never be taken back.
    RunUncovered,
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The data directory.
    pub data: PathBuf,
    /// Where sockets go; none: a folder of the data directory.
    pub runtime: Option<PathBuf>,
    /// How worktrees are captured.
    pub snapshot_options: SnapshotOptions,
    /// What `git` is told of its surroundings.
    pub git: GitEnvironment,
    /// What tools may do, as far as it is not stored.
    pub rules: RuleSettings,
    /// What goes first when space is short: undo, or the call.
    pub over_budget_policy: OverBudgetPolicy,
    /// How long captures that nobody needs are kept, in milliseconds (R41).
    pub retention_millis: i64,
}

impl EngineSettings {
    /// The usual settings for a data directory.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            runtime: None,
            snapshot_options: SnapshotOptions::default(),
            git: GitEnvironment::default(),
            rules: RuleSettings::default(),
            over_budget_policy: OverBudgetPolicy::default(),
            retention_millis: DEFAULT_RETENTION_MILLIS,
        }
    }
}

/// The application.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) id_generator: IdGenerator,
    pub(crate) settings: EngineSettings,
    pub(crate) read_stamps: ReadStamps,
    /// By the real path of their root.
    snapshot_handles: Mutex<BTreeMap<PathBuf, Arc<SnapshotHandle>>>,
}

impl Engine {
    /// Opens the ledger, which ends the turns of dead processes.
    ///
    /// What those did to files, and what else they left half done, is found out and finished by
    /// [`Engine::recover_all`]: whoever opens the engine calls it next, and one that runs for long calls
    /// [`Engine::recover_and_maintain`] once a minute (R45).
    ///
    /// # Errors
    ///
    /// The ledger cannot be opened.
    pub fn open(settings: EngineSettings, now: EpochMillis) -> Result<Self> {
        let store = Store::open(&Options::new(DataLayout::new(&settings.data), now))?;
        let engine = Self {
            store,
            id_generator: IdGenerator::default(),
            read_stamps: ReadStamps::new(&settings.data),
            settings,
            snapshot_handles: Mutex::default(),
        };
        Ok(engine)
    }

    /// The ledger, for whoever reads sessions, messages and the log.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The snapshot store of the root that holds `directory`.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; a refused root is one of them.
    pub fn open_snapshot_handle(
        &self,
        directory: &Path,
        now: EpochMillis,
    ) -> Result<Arc<SnapshotHandle>, SnapshotError> {
        self.open_handle(directory, true, now)
    }

    /// The snapshot store of the root that holds `directory`; nothing if it has none.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; a refused root is one of them.
    pub fn find_snapshot_handle(
        &self,
        directory: &Path,
        now: EpochMillis,
    ) -> Result<Option<Arc<SnapshotHandle>>, SnapshotError> {
        match self.open_handle(directory, false, now) {
            Err(SnapshotError::Untracked(_)) => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn open_handle(
        &self,
        directory: &Path,
        make: bool,
        now: EpochMillis,
    ) -> Result<Arc<SnapshotHandle>, SnapshotError> {
        let real = fs_err::canonicalize(directory)?;
        let mut vaults = self.snapshot_handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vault) = vaults.get(&real) {
            return Ok(vault.clone());
        }
        let EngineSettings { data, runtime, snapshot_options: options, .. } = &self.settings;
        let options =
            SnapshotOptions { create_store: make && options.create_store, ..options.clone() };
        let opened = SnapshotHandle::open(data, runtime.as_deref(), &real, options, now)?;
        let root = opened.location().root.clone();
        // A directory below a root that is open already has the same store.
        let vault = vaults.entry(root).or_insert_with(|| Arc::new(opened)).clone();
        vaults.insert(real, vault.clone());
        Ok(vault)
    }

    /// The snapshot stores that are open, each once.
    pub(crate) fn list_open_handles(&self) -> Vec<Arc<SnapshotHandle>> {
        let vaults = self.snapshot_handles.lock().unwrap_or_else(PoisonError::into_inner);
        let by_root = vaults.iter().filter(|(path, vault)| **path == vault.location().root);
        by_root.map(|(_, vault)| vault.clone()).collect()
    }

    /// Lets go of the stores of directories that are about to have none.
    pub(crate) fn close_snapshot_handles<'d>(&self, directories: impl Iterator<Item = &'d String>) {
        let mut vaults = self.snapshot_handles.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in directories {
            vaults.retain(|_, vault| vault.location().root != Path::new(directory));
        }
    }
}
