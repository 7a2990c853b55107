//! The roots of change sets: where the directory that was captured is now, and its store (R12).
//!
//! A path alone proves nothing: another directory may have been put there. The store of a change set is used
//! only with the directory that it captured, recognised by its identity, or that a person relinked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::ChangeRoot;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{SnapshotError, SnapshotHandle, StoreId, StoreLocation};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};

impl SnapshotHandles {
    /// The store a change set was captured in, even if its directory has moved (R12).
    ///
    /// # Errors
    ///
    /// [`EngineError::DirectoryGone`] if it is nowhere; [`EngineError::DirectoryReplaced`] if another directory
    /// has its path.
    pub fn of_root(&self, root: &ChangeRoot, now: EpochMillis) -> Result<Arc<SnapshotHandle>> {
        let path = Path::new(&root.path);
        // Reading what was captured must not make a store.
        let here = if path.is_dir() { self.find(path, now)? } else { None };
        if let Some(handle) = here.as_ref().filter(|it| it.location().id.as_str() == root.store) {
            return Ok(handle.clone());
        }
        match self.find_change_store(root)? {
            Some(store) if store.is_root_in_place() => {
                if let Some(handle) = self.find(&store.root, now)?
                    && handle.location().id == store.id
                {
                    return Ok(handle);
                }
                // After a relink, a root has the store of its former place too.
                Ok(self.open_by_id(&store.id, &store.folder, now)?)
            }
            Some(store) => Err(missing_root(store.root)?),
            None if !path.try_exists()? => Err(missing_root(path.to_owned())?),
            None => here.ok_or_else(|| SnapshotError::Untracked(path.to_owned()).into()),
        }
    }

    /// The root of a change set with the path where its directory is now; as it was recorded if that is unknown.
    pub(crate) fn locate_root(&self, root: &ChangeRoot) -> Result<ChangeRoot> {
        let store = self.find_change_store(root)?.filter(StoreLocation::is_root_in_place);
        let path = store.map(|store| store.root.to_string_lossy().into_owned());
        Ok(ChangeRoot { path: path.unwrap_or_else(|| root.path.clone()), ..root.clone() })
    }

    /// Why the directory of a change set cannot be used; nothing if it can.
    pub(crate) fn find_root_error(&self, root: &ChangeRoot) -> Result<Option<EngineError>> {
        let path = Path::new(&root.path);
        if path.is_dir() && self.registry_finds(path, &root.store)? {
            return Ok(None);
        }
        match self.find_change_store(root)? {
            Some(store) if store.is_root_in_place() => Ok(None),
            Some(store) => missing_root(store.root).map(Some),
            None if path.is_dir() => Ok(None),
            None => missing_root(path.to_owned()).map(Some),
        }
    }

    /// True if the directory at a path has this store, or will have it once it is opened.
    fn registry_finds(&self, path: &Path, store: &str) -> Result<bool> {
        let found = self.registry().find_store(path, self.policy()).map_err(SnapshotError::from)?;
        Ok(found.is_some_and(|(found, _)| found.id.as_str() == store))
    }

    /// Where the directory of a store is, as far as that is known.
    pub(crate) fn find_store_root(&self, store: &str) -> Result<Option<PathBuf>> {
        let Ok(id) = store.parse::<StoreId>() else { return Ok(None) };
        let found = self.registry().find_store_by_id(&id).map_err(SnapshotError::from)?;
        Ok(found.map(|store| store.root))
    }

    fn find_change_store(&self, root: &ChangeRoot) -> Result<Option<StoreLocation>> {
        let Ok(id) = root.store.parse::<StoreId>() else { return Ok(None) };
        Ok(self.registry().find_store_by_id(&id).map_err(SnapshotError::from)?)
    }
}

/// The error for a directory that is not where it was.
fn missing_root(path: PathBuf) -> Result<EngineError> {
    Ok(match path.try_exists()? {
        true => EngineError::DirectoryReplaced { path },
        false => EngineError::DirectoryGone { path },
    })
}
