//! The engine, open: one ledger, and the snapshot stores of the roots in use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::time::Millis;
use turnstone_process::GitEnvironment;
use turnstone_snapshot::{Vault, VaultError, VaultOptions};
use turnstone_store::{Layout, Options, Store};

use crate::error::Result;
use crate::file::Sights;
use crate::mint::Mint;
use crate::permission::StandingRules;

/// How long captures nobody needs are usually kept (R41).
const KEEP: i64 = 7 * 24 * 3_600_000;

/// What becomes of a call when there is no room for what its undo needs (R13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndoPolicy {
    /// It is refused.
    #[default]
    Required,
    /// It runs, and can never be taken back.
    BestEffort,
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    /// Where sockets go; none: a folder of the data directory.
    pub runtime: Option<PathBuf>,
    /// How worktrees are captured.
    pub vault: VaultOptions,
    /// What `git` is told of its surroundings.
    pub git: GitEnvironment,
    /// What tools may do, as far as it is not stored.
    pub rules: StandingRules,
    /// What goes first when space is short: undo, or the call.
    pub undo: UndoPolicy,
    /// How long captures that nobody needs are kept, in milliseconds (R41).
    pub keep: i64,
}

impl Settings {
    /// The usual settings for a data directory.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
            runtime: None,
            vault: VaultOptions::default(),
            git: GitEnvironment::default(),
            rules: StandingRules::default(),
            undo: UndoPolicy::default(),
            keep: KEEP,
        }
    }
}

/// The application.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) mint: Mint,
    pub(crate) settings: Settings,
    pub(crate) sights: Sights,
    /// By the real path of their root.
    vaults: Mutex<BTreeMap<PathBuf, Arc<Vault>>>,
}

impl Engine {
    /// Opens the ledger, which ends the turns of dead processes.
    ///
    /// What those did to files, and what else they left half done, is found out and finished by
    /// [`Engine::recover`]: whoever opens the engine calls it next, and one that runs for long calls
    /// [`Engine::sweep`] once a minute (R45).
    ///
    /// # Errors
    ///
    /// The ledger cannot be opened.
    pub fn open(settings: Settings, now: Millis) -> Result<Self> {
        let store = Store::open(&Options::new(Layout::new(&settings.data), now))?;
        let engine = Self {
            store,
            mint: Mint::default(),
            sights: Sights::new(&settings.data),
            settings,
            vaults: Mutex::default(),
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
    /// See [`VaultError`]; a refused root is one of them.
    pub fn vault(&self, directory: &Path, now: Millis) -> Result<Arc<Vault>, VaultError> {
        self.open_vault(directory, true, now)
    }

    /// The snapshot store of the root that holds `directory`; nothing if it has none.
    ///
    /// # Errors
    ///
    /// See [`VaultError`]; a refused root is one of them.
    pub fn find_vault(
        &self,
        directory: &Path,
        now: Millis,
    ) -> Result<Option<Arc<Vault>>, VaultError> {
        match self.open_vault(directory, false, now) {
            Err(VaultError::Untracked(_)) => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn open_vault(
        &self,
        directory: &Path,
        make: bool,
        now: Millis,
    ) -> Result<Arc<Vault>, VaultError> {
        let real = fs_err::canonicalize(directory)?;
        let mut vaults = self.vaults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vault) = vaults.get(&real) {
            return Ok(vault.clone());
        }
        let Settings { data, runtime, vault: options, .. } = &self.settings;
        let options = VaultOptions { make: make && options.make, ..options.clone() };
        let opened = Vault::open(data, runtime.as_deref(), &real, options, now)?;
        let root = opened.place().root.clone();
        // A directory below a root that is open already has the same store.
        let vault = vaults.entry(root).or_insert_with(|| Arc::new(opened)).clone();
        vaults.insert(real, vault.clone());
        Ok(vault)
    }

    /// The snapshot stores that are open, each once.
    pub(crate) fn vaults(&self) -> Vec<Arc<Vault>> {
        let vaults = self.vaults.lock().unwrap_or_else(PoisonError::into_inner);
        let by_root = vaults.iter().filter(|(path, vault)| **path == vault.place().root);
        by_root.map(|(_, vault)| vault.clone()).collect()
    }

    /// Lets go of the stores of directories that are about to have none.
    pub(crate) fn close_vaults<'d>(&self, directories: impl Iterator<Item = &'d String>) {
        let mut vaults = self.vaults.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in directories {
            vaults.retain(|_, vault| vault.place().root != Path::new(directory));
        }
    }
}
