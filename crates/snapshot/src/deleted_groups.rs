//! What a store holds of deleted sessions, found without opening its worktree.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::object_store::ObjectRepository;
use crate::pin_group::PinGroup;
use crate::repack::MaintenanceState;
use crate::snapshot_handle::{BASELINE_GROUP, PREVIEW_GROUP};

/// What a store holds of the groups of deleted sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedGroups {
    /// It holds captures of such groups, or objects that they left.
    pub has_deleted: bool,
    /// It holds captures of other groups, too.
    pub has_others: bool,
}

/// Looks which of the groups in the store `folder` are among `deleted`. Captures that belong to no session and were
/// only made to look at the worktree count as neither.
///
/// # Errors
///
/// The store cannot be read.
pub fn find_deleted_groups(
    folder: &Path,
    deleted: &BTreeSet<PinGroup>,
) -> io::Result<DeletedGroups> {
    let references: BTreeSet<&str> = deleted.iter().map(PinGroup::reference).collect();
    let unowned = [PREVIEW_GROUP, BASELINE_GROUP].map(PinGroup::new);
    let refs = match ObjectRepository::open_read_only(&folder.join("git")) {
        Ok(repository) => repository.refs().list()?,
        // Its creation was interrupted: it holds nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(DeletedGroups::default());
        }
        Err(error) => return Err(error),
    };
    let mut found = DeletedGroups {
        has_deleted: MaintenanceState::load(folder).erasing,
        ..DeletedGroups::default()
    };
    for name in refs.keys() {
        if references.contains(name.as_str()) {
            found.has_deleted = true;
        } else if unowned.iter().all(|group| group.reference() != name) {
            found.has_others = true;
        }
    }
    Ok(found)
}
