//! Keeping: the store is locked, what was cut off is finished, and others can ask.

use std::path::Path;
use std::sync::Arc;

use turnstone_core::time::EpochMillis;

use super::error::SnapshotError;
use super::handle::SnapshotOptions;
use super::server::StoreServer;
use super::socket;
use crate::registry::{StoreLocation, StoreRegistry};
use crate::restore::RestoreReport;
use crate::snapshot_store::{SnapshotStore, StoreOpenError};
use crate::storage_budget::StorageBudget;
use crate::worktree::{RootPolicy, Worktree};

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
        StoreRegistry::record_use(&location.folder, now)?;
        // Who cannot be asked keeps the store all the same; others wait until it ends.
        let server =
            StoreServer::start(socket.to_owned(), location.id.as_str(), store.clone()).ok();
        if server.is_some() {
            store.announce_socket(&socket::socket_note(socket))?;
        }
        Ok(Some(Self { server, store, resumed_restores: resumed }))
    }

    /// True if others can ask.
    pub(super) fn is_serving_clients(&self) -> bool {
        self.server.is_some()
    }
}

/// Opens the root again; that it may be one was decided when its store was found.
pub(super) fn open_worktree(location: &StoreLocation) -> Result<Worktree, SnapshotError> {
    let policy = RootPolicy { by_name: true, home: None };
    Ok(Worktree::open(&location.root, &policy).map_err(StoreOpenError::Root)?)
}
