//! The engine, open: one ledger, and the snapshot stores of the roots in use.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::time::Millis;
use turnstone_process::{Git, GitEnvironment};
use turnstone_snapshot::{Vault, VaultError, VaultOptions};
use turnstone_store::{Layout, Options, Store};

use crate::error::Result;
use crate::file::Sights;
use crate::mint::Mint;
use crate::permission::StandingRules;

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
    /// Opens the ledger and finishes what dead processes left.
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

    /// `git` in a directory, with the surroundings this engine was given.
    #[must_use]
    pub fn git(&self, directory: &Path) -> Git {
        Git::new(directory, self.settings.git.clone())
    }

    /// The snapshot store of the root that holds `directory`.
    ///
    /// # Errors
    ///
    /// See [`VaultError`]; a refused root is one of them.
    pub fn vault(&self, directory: &Path, now: Millis) -> Result<Arc<Vault>, VaultError> {
        let real = fs_err::canonicalize(directory)?;
        let mut vaults = self.vaults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vault) = vaults.get(&real) {
            return Ok(vault.clone());
        }
        let Settings { data, runtime, vault: options, .. } = &self.settings;
        let opened = Vault::open(data, runtime.as_deref(), &real, options.clone(), now)?;
        let root = opened.place().root.clone();
        // A directory below a root that is open already has the same store.
        let vault = vaults.entry(root).or_insert_with(|| Arc::new(opened)).clone();
        vaults.insert(real, vault.clone());
        Ok(vault)
    }

    /// Lets go of the stores of directories that are about to have none.
    pub(crate) fn close_vaults<'d>(&self, directories: impl Iterator<Item = &'d String>) {
        let mut vaults = self.vaults.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in directories {
            vaults.retain(|_, vault| vault.place().root != Path::new(directory));
        }
    }
}
