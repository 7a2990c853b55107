//! Puts the maintenance service together.

use std::path::Path;
use std::sync::Arc;

use turnstone_store::Store;

use crate::captures::Captures;
use crate::history::History;
use crate::id_generator::IdGenerator;
use crate::maintenance::deletion::SessionEraser;
use crate::maintenance::forget::PathEraser;
use crate::maintenance::scheduled_maintenance::Maintenance;
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
    let path_eraser = PathEraser {
        store: store.clone(),
        id_generator: ids.clone(),
        snapshots: snapshots.clone(),
        gates: permissions.gates().clone(),
        data: data.to_owned(),
        traces: captures.traces.clone(),
    };
    let session_eraser = SessionEraser {
        store: store.clone(),
        snapshots: snapshots.clone(),
        pins: captures.pins.clone(),
        data: data.to_owned(),
        traces: captures.traces.clone(),
        running: Arc::default(),
    };
    Maintenance {
        store: store.clone(),
        snapshots,
        watched_roots: captures.watched_roots.clone(),
        pins: captures.pins.clone(),
        eviction: captures.eviction.clone(),
        recovery: history.recovery.clone(),
        operations: history.operations.clone(),
        copies: history.forks().copies.clone(),
        path_eraser,
        output_folder: data.join("output"),
        traces: captures.traces.clone(),
        session_eraser,
    }
}
