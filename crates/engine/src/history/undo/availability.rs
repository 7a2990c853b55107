//! Whether what an operation needs is still there: not expired, and not forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use turnstone_core::change::{PathImage, UncoveredReason};
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::Tombstones;
use turnstone_store::{Context, Store};

use super::selection::ChangeSetUndoState;
use super::types::{UndoAspect, UndoOptions};
use crate::error::{EngineError, Result};

/// Refuses what needs a turn whose undo has expired; nothing is taken half.
pub(super) fn ensure_not_expired(
    store: &Store,
    ctx: &Context,
    changes: &[ChangeSetUndoState],
) -> Result<()> {
    let mut known: BTreeMap<SessionId, BTreeMap<TurnId, EpochMillis>> = BTreeMap::new();
    for selected in changes.iter().filter(|selected| selected.undone != selected.wanted) {
        let set = &selected.row.set;
        let expired = match known.get(&set.session) {
            Some(expired) => expired,
            None => {
                let expired = store.read(ctx, |r| r.undo_expiry().expired_turns(&set.session))?;
                known.entry(set.session.clone()).or_insert(expired)
            }
        };
        if let Some(at) = expired.get(&set.turn) {
            // The caller asked about this session, so its turn is named.
            let (session, turn) = (set.session.clone(), set.turn.clone());
            let paths = set.changes.iter().map(|change| change.path.clone()).collect();
            return Err(EngineError::UndoExpired { session, turn, at: *at, paths });
        }
    }
    Ok(())
}

/// Refuses a path filter that matches no change: most likely a typing error, and never "nothing to do".
pub(super) fn ensure_paths_changed(
    changes: &[ChangeSetUndoState],
    options: &UndoOptions,
) -> Result<()> {
    if options.scope == UndoAspect::Conversation {
        return Ok(());
    }
    let changed = || changes.iter().flat_map(|selected| &selected.row.set.changes);
    let is_unknown = |wanted: &&RelPath| {
        !changed().any(|change| change.path == **wanted || wanted.is_ancestor_of(&change.path))
    };
    let paths: Vec<RelPath> = options.paths.iter().filter(is_unknown).cloned().collect();
    if paths.is_empty() { Ok(()) } else { Err(EngineError::NoSuchChange { paths }) }
}

/// Refuses what needs a guard that has expired.
pub(super) fn ensure_guards_present(
    store: &Store,
    ctx: &Context,
    session: &SessionId,
    needed: &BTreeSet<OperationId>,
) -> Result<()> {
    if needed.is_empty() {
        return Ok(());
    }
    let expired = store.read(ctx, |r| r.undo_expiry().expired_guards(session))?;
    match needed.iter().find_map(|id| expired.get_key_value(id)) {
        Some((operation, at)) => {
            Err(EngineError::GuardExpired { operation: operation.clone(), at: *at })
        }
        None => Ok(()),
    }
}

/// Sides of changes whose bytes were forgotten are not covered: never an empty file.
pub(super) fn mask_forgotten(
    store_folder: &Path,
    changes: &mut [ChangeSetUndoState],
) -> Result<()> {
    let mut known: BTreeMap<String, Tombstones> = BTreeMap::new();
    for selected in changes {
        let set = &mut selected.row.set;
        let tombstones = match known.get(&set.root.store) {
            Some(tombstones) => tombstones,
            None => {
                let folder = store_folder.join(&set.root.store);
                let tombstones = Tombstones::read(&folder)?;
                known.entry(set.root.store.clone()).or_insert(tombstones)
            }
        };
        for change in &mut set.changes {
            let is_gone = |image: &PathImage| match image {
                PathImage::Present { leaf, .. } => {
                    tombstones.versions.contains(&(change.path.clone(), leaf.blob))
                }
                PathImage::Directory { .. } | PathImage::Absent | PathImage::Uncovered { .. } => {
                    false
                }
            };
            let (before, after) = (is_gone(&change.before), is_gone(&change.after));
            let uncovered = || PathImage::Uncovered { reason: UncoveredReason::Forgotten };
            if before {
                change.before = uncovered();
            }
            if after {
                change.after = uncovered();
            }
        }
    }
    Ok(())
}
