//! The snapshot stores that are open in this process, one handle for each root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    RootPolicy, SnapshotError, SnapshotHandle, SnapshotOptions, StoreId, StoreRegistry,
    free_disk_bytes,
};
use turnstone_store::{DataLayout, StoreError};

use crate::error::EngineError;

/// The handles, and when each was used last.
#[derive(Default)]
struct OpenHandles {
    /// By every real directory that was asked for, the root among them.
    by_path: BTreeMap<PathBuf, Arc<SnapshotHandle>>,
    /// By root.
    used: BTreeMap<PathBuf, EpochMillis>,
}

impl OpenHandles {
    /// Finds an open handle, and notes that it is used.
    fn find_and_use(&mut self, path: &Path, now: EpochMillis) -> Option<Arc<SnapshotHandle>> {
        let handle = self.by_path.get(path)?.clone();
        self.used.insert(handle.location().root.clone(), now);
        Some(handle)
    }

    /// Closes stores whose directory was moved or deleted: another one may have its path.
    fn drop_replaced(&mut self) {
        self.by_path.retain(|_, handle| handle.location().is_root_in_place());
        self.forget_closed();
    }

    fn forget_closed(&mut self) {
        let Self { by_path, used } = self;
        used.retain(|root, _| by_path.values().any(|handle| handle.location().root == *root));
    }

    /// Closes the store of a root if nothing but this list holds it.
    fn close_unused(&mut self, root: &Path) -> bool {
        let of_root = |handle: &Arc<SnapshotHandle>| handle.location().root == root;
        let held: Vec<&Arc<SnapshotHandle>> =
            self.by_path.values().filter(|handle| of_root(handle)).collect();
        // Several stores of one root are several handles.
        let is_unused = |handle: &&Arc<SnapshotHandle>| {
            let here = held.iter().filter(|other| Arc::ptr_eq(other, handle)).count();
            Arc::strong_count(handle) == here
        };
        if held.is_empty() || !held.iter().all(is_unused) {
            return false;
        }
        self.by_path.retain(|_, handle| !of_root(handle));
        self.used.remove(root);
        true
    }
}

/// The open snapshot stores, by the real path of their root.
pub struct SnapshotHandles {
    pub(super) data: PathBuf,
    runtime: Option<PathBuf>,
    pub(super) options: SnapshotOptions,
    open: Mutex<OpenHandles>,
}

impl SnapshotHandles {
    pub(crate) fn new(data: PathBuf, runtime: Option<PathBuf>, options: SnapshotOptions) -> Self {
        Self { data, runtime, options, open: Mutex::default() }
    }

    /// Checks that the disk of the data directory has room for `bytes`.
    ///
    /// Where the system does not say, the write itself finds out.
    pub(crate) fn ensure_disk_space(&self, bytes: u64) -> Result<(), EngineError> {
        match free_disk_bytes(&self.data) {
            Ok(free) if free < bytes => {
                Err(StoreError::Full { file: DataLayout::new(&self.data).database() }.into())
            }
            Ok(_) | Err(_) => Ok(()),
        }
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
        open.drop_replaced();
        if let Some(handle) = open.find_and_use(&real, now) {
            return Ok(handle);
        }
        let options = SnapshotOptions {
            create_store: create && self.options.create_store,
            ..self.options.clone()
        };
        let opened =
            SnapshotHandle::open(&self.data, self.runtime.as_deref(), &real, options, now)?;
        let root = opened.location().root.clone();
        // A directory below an open root has the same store.
        let handle = open.by_path.entry(root.clone()).or_insert_with(|| Arc::new(opened)).clone();
        open.by_path.insert(real, handle.clone());
        open.used.insert(root, now);
        Ok(handle)
    }

    /// Opens one of several snapshot stores of a root, which was captured in it before.
    pub(crate) fn open_by_id(
        &self,
        id: &StoreId,
        folder: &Path,
        now: EpochMillis,
    ) -> Result<Arc<SnapshotHandle>, SnapshotError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drop_replaced();
        if let Some(handle) = open.find_and_use(folder, now) {
            return Ok(handle);
        }
        let (runtime, options) = (self.runtime.as_deref(), self.options.clone());
        let opened = SnapshotHandle::open_by_id(&self.data, runtime, id, options, now)?;
        let root = opened.location().root.clone();
        let handle = open.by_path.entry(folder.to_owned()).or_insert(Arc::new(opened)).clone();
        open.used.insert(root, now);
        Ok(handle)
    }

    /// The open snapshot stores, each once.
    pub(crate) fn list_open(&self) -> Vec<Arc<SnapshotHandle>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let by_root = open.by_path.iter().filter(|(path, handle)| **path == handle.location().root);
        by_root.map(|(_, handle)| handle.clone()).collect()
    }

    /// Closes the stores of directories that are about to move or to be removed.
    pub(crate) fn close<'d>(&self, directories: impl Iterator<Item = &'d String>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in directories {
            open.by_path.retain(|_, handle| handle.location().root != Path::new(directory));
        }
        open.forget_closed();
    }

    /// Notes that the store of a root is used.
    pub(crate) fn record_use(&self, root: &Path, now: EpochMillis) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = open.used.get_mut(root) {
            *used = now;
        }
    }

    /// Closes the stores that nothing holds and nothing has used for so many milliseconds; returns their roots.
    pub(crate) fn close_idle(&self, now: EpochMillis, idle_millis: i64) -> Vec<PathBuf> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another process can use a moved directory only after this one has closed its store.
        open.drop_replaced();
        let idle = open.used.iter().filter(|(_, used)| now.since(**used) >= idle_millis);
        let idle: Vec<PathBuf> = idle.map(|(root, _)| root.clone()).collect();
        idle.into_iter().filter(|root| open.close_unused(root)).collect()
    }

    /// Closes the store that was not used for longest, of those that nothing holds; returns its root.
    pub(crate) fn close_least_recently_used(&self, candidates: &[PathBuf]) -> Option<PathBuf> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known: Vec<_> =
            candidates.iter().filter_map(|root| Some((*open.used.get(root)?, root))).collect();
        known.sort();
        known.into_iter().find(|(_, root)| open.close_unused(root)).map(|(_, root)| root.clone())
    }

    /// The root that was used last.
    pub(crate) fn most_recently_used<'r>(
        &self,
        roots: impl Iterator<Item = &'r PathBuf>,
    ) -> Option<PathBuf> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        roots.max_by_key(|root| open.used.get(*root)).cloned()
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
