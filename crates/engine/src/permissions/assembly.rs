//! Puts the permission service together.

use std::sync::Arc;

use turnstone_store::Store;

use super::{OperationGates, PermissionRules, Permissions, RuleSettings};
use crate::id_generator::IdGenerator;
use crate::projects::project_records::ProjectRecords;

/// Puts the service together from what it needs.
pub(crate) fn assemble(
    store: &Arc<Store>,
    ids: &Arc<IdGenerator>,
    settings: RuleSettings,
) -> Permissions {
    let (store, id_generator) = (store.clone(), ids.clone());
    let rules = PermissionRules {
        store: store.clone(),
        settings: Arc::new(settings),
        projects: ProjectRecords { store: store.clone() },
    };
    let gates = OperationGates {
        store: store.clone(),
        id_generator: id_generator.clone(),
        rules: rules.clone(),
    };
    Permissions { store, id_generator, rules, gates }
}
