//! Keeping: the store is locked, what was cut off is finished, and others can ask.

use std::path::Path;
use std::sync::Arc;

use turnstone_core::time::EpochMillis;

use super::error::{SnapshotError, is_disk_full};
use super::handle::SnapshotOptions;
use super::server::StoreServer;
use super::socket;
use crate::registry::{StoreLocation, StoreRegistry};
use crate::restore::RestoreReport;
use crate::snapshot_store::{SnapshotStore, StoreOpenError};
use crate::storage_budget::StorageBudget;
use crate::worktree::Worktree;

/// The owner of a store. When dropped, it finishes its requests and releases the lock.
pub(super) struct StoreOwner {
    /// Dropped first, so that no request arrives while the store closes.
    server: Option<StoreServer>,
    pub(super) store: Arc<SnapshotStore>,
    /// Restores that an earlier owner left unfinished.
    pub(super) resumed_restores: Vec<RestoreReport>,
}

impl StoreOwner {
    /// Becomes the owner; `None` if another process is.
    pub(super) fn try_acquire(
        location: &StoreLocation,
        options: &SnapshotOptions,
        data: &Path,
        socket: &Path,
        now: EpochMillis,
    ) -> Result<Option<Self>, SnapshotError> {
        let worktree = open_worktree(location)?;
        let selection = options.selection_for(&worktree, data);
        let store = match SnapshotStore::open(&location.folder, worktree, selection) {
            Ok(store) => store,
            Err(StoreOpenError::Locked(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stores = location.folder.parent().map(Path::to_owned);
        let budget = StorageBudget { stores, ..options.budget.clone() };
        let store = Arc::new(store.with_budget(budget)?);
        let resumed = store.restores().resume()?;
        match StoreRegistry::record_use(&location.folder, now) {
            // The time is a hint; a store on a full disk can still be read.
            Err(error) if !is_disk_full(&error) => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        // An owner that cannot be reached keeps the store all the same; others wait until it ends.
        let server =
            StoreServer::start(socket.to_owned(), location.id.as_str(), store.clone()).ok();
        let announced = match &server {
            Some(_) => store.announce_socket(&socket::socket_note(socket)),
            None => Ok(()),
        };
        let server = match announced {
            Ok(()) => server,
            Err(error) if is_disk_full(&error) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Self { server, store, resumed_restores: resumed }))
    }

    /// How many requests of other processes it has served.
    pub(super) fn served_request_count(&self) -> u64 {
        self.server.as_ref().map_or(0, StoreServer::served_request_count)
    }

    /// True if others can ask.
    pub(super) fn is_serving_clients(&self) -> bool {
        self.server.is_some()
    }
}

/// Opens the root again, which must be the directory that the store captured.
pub(super) fn open_worktree(location: &StoreLocation) -> Result<Worktree, SnapshotError> {
    Ok(location.open_worktree().map_err(StoreOpenError::Root)?)
}
