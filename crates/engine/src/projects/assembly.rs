//! Puts the project service together.

use std::path::Path;
use std::sync::Arc;

use turnstone_process::GitEnvironment;
use turnstone_store::Store;

use crate::captures::Captures;
use crate::id_generator::IdGenerator;
use crate::permissions::Permissions;
use crate::projects::project::Projects;
use crate::projects::project_records::ProjectRecords;
use crate::projects::repository::Repositories;
use crate::projects::session_adoption::SessionAdoption;
use crate::projects::worktree::Worktrees;

/// Puts the service together from what it needs.
pub(crate) fn assemble(
    store: &Arc<Store>,
    ids: &Arc<IdGenerator>,
    captures: &Captures,
    permissions: &Permissions,
    git: GitEnvironment,
    data: &Path,
) -> Projects {
    let (store, id_generator) = (store.clone(), ids.clone());
    let snapshots = captures.snapshots.clone();
    let gates = permissions.gates().clone();
    let records = ProjectRecords { store: store.clone() };
    let repositories = Repositories { git, snapshots: snapshots.clone() };
    let adoption = SessionAdoption {
        store: store.clone(),
        records: records.clone(),
        repositories: repositories.clone(),
    };
    let worktrees = Worktrees {
        store: store.clone(),
        id_generator: id_generator.clone(),
        snapshots: snapshots.clone(),
        records: records.clone(),
        repositories: repositories.clone(),
        gates: gates.clone(),
        folder: data.join("worktree"),
    };
    let data = data.to_owned();
    Projects {
        store,
        id_generator,
        snapshots,
        records,
        repositories,
        adoption,
        worktrees,
        gates,
        data,
    }
}
