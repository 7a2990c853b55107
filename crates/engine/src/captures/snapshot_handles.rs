//! The snapshot stores that are open in this process, one handle for each root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    RootPolicy, SnapshotError, SnapshotHandle, SnapshotOptions, StoreRegistry,
};

/// The open snapshot stores, by the real path of their root.
pub struct SnapshotHandles {
    pub(super) data: PathBuf,
    runtime: Option<PathBuf>,
    pub(super) options: SnapshotOptions,
    open: Mutex<BTreeMap<PathBuf, Arc<SnapshotHandle>>>,
}

impl SnapshotHandles {
    pub(crate) fn new(data: PathBuf, runtime: Option<PathBuf>, options: SnapshotOptions) -> Self {
        Self { data, runtime, options, open: Mutex::default() }
    }

    /// Opens the snapshot store of the root that holds `directory`, and creates it if there is none.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; a refused root is one of them.
    pub fn open(
        &self,
        directory: &Path,
        now: EpochMillis,
    ) -> Result<Arc<SnapshotHandle>, SnapshotError> {
        self.open_or_create(directory, true, now)
    }

    /// Opens the snapshot store of the root that holds `directory`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// See [`SnapshotError`]; a refused root is one of them.
    pub(crate) fn find(
        &self,
        directory: &Path,
        now: EpochMillis,
    ) -> Result<Option<Arc<SnapshotHandle>>, SnapshotError> {
        match self.open_or_create(directory, false, now) {
            Err(SnapshotError::Untracked(_)) => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn open_or_create(
        &self,
        directory: &Path,
        create: bool,
        now: EpochMillis,
    ) -> Result<Arc<SnapshotHandle>, SnapshotError> {
        let real = fs_err::canonicalize(directory)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = open.get(&real) {
            return Ok(handle.clone());
        }
        let options = SnapshotOptions {
            create_store: create && self.options.create_store,
            ..self.options.clone()
        };
        let opened =
            SnapshotHandle::open(&self.data, self.runtime.as_deref(), &real, options, now)?;
        let root = opened.location().root.clone();
        // A directory below an open root has the same store.
        let handle = open.entry(root).or_insert_with(|| Arc::new(opened)).clone();
        open.insert(real, handle.clone());
        Ok(handle)
    }

    /// The open snapshot stores, each once.
    pub(crate) fn list_open(&self) -> Vec<Arc<SnapshotHandle>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let by_root = open.iter().filter(|(path, handle)| **path == handle.location().root);
        by_root.map(|(_, handle)| handle.clone()).collect()
    }

    /// Closes the stores of directories that are about to move or to be removed.
    pub(crate) fn close<'d>(&self, directories: impl Iterator<Item = &'d String>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in directories {
            open.retain(|_, handle| handle.location().root != Path::new(directory));
        }
    }

    /// The registry of all stores of the data directory.
    pub(crate) fn registry(&self) -> StoreRegistry {
        StoreRegistry::new(&self.data)
    }

    /// Which directories may be roots.
    pub(crate) fn policy(&self) -> &RootPolicy {
        &self.options.policy
    }
}
