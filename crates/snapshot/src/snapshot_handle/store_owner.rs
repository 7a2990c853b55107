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

/// The keeper of a store. Dropped, it finishes what it was asked and lets the lock go.
pub(super) struct StoreOwner {
    /// Dropped first: nobody asks any more when the store closes.
    server: Option<StoreServer>,
    pub(super) shadow: Arc<SnapshotStore>,
    /// Restores that a keeper before this one left half done.
    pub(super) resumed_restores: Vec<RestoreReport>,
}

impl StoreOwner {
    /// Becomes the keeper; nothing if somebody else is.
    pub(super) fn try_acquire(
        place: &StoreLocation,
        options: &SnapshotOptions,
        data: &Path,
        socket: &Path,
        now: EpochMillis,
    ) -> Result<Option<Self>, SnapshotError> {
        let worktree = open_worktree(place)?;
        let selection = options.selection_for(&worktree, data);
        let shadow = match SnapshotStore::open(&place.folder, worktree, selection) {
            Ok(shadow) => shadow,
            Err(StoreOpenError::Locked(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stores = place.folder.parent().map(Path::to_owned);
        let budget = StorageBudget { stores, ..options.budget.clone() };
        let shadow = Arc::new(shadow.with_budget(budget)?);
        let resumed = shadow.resume_restores()?;
        StoreRegistry::record_use(&place.folder, now)?;
        // Who cannot be asked keeps the store all the same; others wait until it ends.
        let server = StoreServer::start(socket.to_owned(), place.id.as_str(), shadow.clone()).ok();
        if server.is_some() {
            shadow.announce_socket(&socket::socket_note(socket))?;
        }
        Ok(Some(Self { server, shadow, resumed_restores: resumed }))
    }

    /// True if others can ask.
    pub(super) fn is_serving_clients(&self) -> bool {
        self.server.is_some()
    }
}

/// Opens the root again; that it may be one was decided when its store was found.
pub(super) fn open_worktree(place: &StoreLocation) -> Result<Worktree, SnapshotError> {
    let policy = RootPolicy { by_name: true, home: None };
    Ok(Worktree::open(&place.root, &policy).map_err(StoreOpenError::Root)?)
}
