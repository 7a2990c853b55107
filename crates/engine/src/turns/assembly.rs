//! Puts the turn service together.

use std::sync::Arc;

use turnstone_store::Store;

use crate::captures::Captures;
use crate::history::History;
use crate::id_generator::IdGenerator;
use crate::tool_calls::ToolCalls;
use crate::turns::compaction::Compaction;
use crate::turns::exec::{Aborts, Commands};
use crate::turns::model_context::ModelContexts;
use crate::turns::prompt_submission::Turns;
use crate::turns::step::Steps;
use crate::turns::turn::TurnLifecycle;

/// Puts the service together from what it needs.
pub(crate) fn assemble(
    store: &Arc<Store>,
    ids: &Arc<IdGenerator>,
    captures: &Captures,
    calls: &ToolCalls,
    history: &History,
) -> Turns {
    let (store, id_generator) = (store.clone(), ids.clone());
    let snapshots = captures.snapshots.clone();
    let (recovery, branches) = (history.recovery.clone(), history.branches.clone());
    let lifecycle = TurnLifecycle {
        store: store.clone(),
        id_generator: id_generator.clone(),
        recovery: recovery.clone(),
        branches: branches.clone(),
        changes: history.changes.clone(),
    };
    let aborts =
        Aborts { store: store.clone(), recovery: recovery.clone(), lifecycle: lifecycle.clone() };
    let commands = Commands {
        store: store.clone(),
        id_generator: id_generator.clone(),
        snapshots: snapshots.clone(),
        calls: calls.clone(),
        lifecycle: lifecycle.clone(),
        aborts: aborts.clone(),
    };
    let steps = Steps {
        store: store.clone(),
        id_generator: id_generator.clone(),
        snapshots,
        watched_roots: captures.watched_roots.clone(),
        captures: captures.budgeted.clone(),
        calls: calls.clone(),
    };
    let contexts = ModelContexts { store: store.clone() };
    let compaction = Compaction {
        store: store.clone(),
        id_generator: id_generator.clone(),
        lifecycle: lifecycle.clone(),
        contexts: contexts.clone(),
    };
    Turns {
        store,
        id_generator,
        lifecycle,
        recovery,
        branches,
        commands,
        aborts,
        steps,
        contexts,
        compaction,
    }
}
