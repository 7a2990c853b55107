//! Keeping: the store is locked, what was cut off is finished, and others can ask.

use std::path::Path;
use std::sync::Arc;

use turnstone_core::time::Millis;

use super::error::VaultError;
use super::open::VaultOptions;
use super::server::Server;
use super::socket;
use crate::registry::{Place, Registry};
use crate::restore::Report;
use crate::shadow::{OpenError, Shadow};
use crate::walk::Selection;
use crate::worktree::{RootPolicy, Worktree};

/// The keeper of a store. Dropped, it finishes what it was asked and lets the lock go.
pub(super) struct Keeper {
    /// Dropped first: nobody asks any more when the store closes.
    server: Option<Server>,
    pub(super) shadow: Arc<Shadow>,
    /// Restores that a keeper before this one left half done.
    pub(super) resumed: Vec<Report>,
}

impl Keeper {
    /// Becomes the keeper; nothing if somebody else is.
    pub(super) fn become_one(
        place: &Place,
        options: &VaultOptions,
        data: &Path,
        socket: &Path,
        now: Millis,
    ) -> Result<Option<Self>, VaultError> {
        let worktree = open_root(place)?;
        let mut selection = options.selection.clone();
        selection.own_data = selection.own_data.or_else(|| worktree.find_below(data));
        let shadow = match open(place, worktree, selection) {
            Ok(shadow) => Arc::new(shadow),
            Err(OpenError::Kept(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let resumed = shadow.resume()?;
        Registry::note_use(&place.folder, now)?;
        // Who cannot be asked keeps the store all the same; others wait until it ends.
        let server = Server::start(socket.to_owned(), place.id.as_str(), shadow.clone()).ok();
        if server.is_some() {
            shadow.announce(&socket::announcement(socket))?;
        }
        Ok(Some(Self { server, shadow, resumed }))
    }

    /// True if others can ask.
    pub(super) fn is_listening(&self) -> bool {
        self.server.is_some()
    }
}

fn open(place: &Place, worktree: Worktree, selection: Selection) -> Result<Shadow, OpenError> {
    Shadow::open(&place.folder, worktree, selection)
}

/// Opens the root again; that it may be one was decided when its store was found.
pub(super) fn open_root(place: &Place) -> Result<Worktree, VaultError> {
    let policy = RootPolicy { by_name: true, home: None };
    Ok(Worktree::open(&place.root, &policy).map_err(OpenError::Root)?)
}
