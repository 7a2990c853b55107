//! Puts the maintenance service together.

use std::path::Path;
use std::sync::Arc;

use turnstone_store::Store;

use crate::captures::Captures;
use crate::history::History;
use crate::id_generator::IdGenerator;
use crate::maintenance::forget::Forgets;
use crate::maintenance::upkeep::Maintenance;
use crate::permissions::Permissions;

/// Puts the service together from what it needs.
pub(crate) fn assemble(
    store: &Arc<Store>,
    ids: &Arc<IdGenerator>,
    captures: &Captures,
    permissions: &Permissions,
    history: &History,
    data: &Path,
) -> Maintenance {
    let snapshots = captures.snapshots.clone();
    let forgets = Forgets {
        store: store.clone(),
        id_generator: ids.clone(),
        snapshots: snapshots.clone(),
        gates: permissions.gates().clone(),
        data: data.to_owned(),
    };
    Maintenance {
        store: store.clone(),
        snapshots,
        pins: captures.pins.clone(),
        eviction: captures.eviction.clone(),
        recovery: history.recovery.clone(),
        operations: history.operations.clone(),
        copies: history.forks().copies.clone(),
        forgets,
        output_folder: data.join("output"),
    }
}
