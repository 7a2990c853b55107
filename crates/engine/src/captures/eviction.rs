//! Eviction: removes old undo data for a capture that does not fit. The database records it first (R13, R14).
//!
//! If a store is full, its own undo data is evicted; if all stores together are, the data that was idle longest
//! in any of them. Each store is asked through its owner; one that cannot be reached keeps its data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::change::ChangeRoot;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::operation::HeadTarget;
use turnstone_snapshot::{
    BudgetLimit, EvictionReport, EvictionRequest, ExpiryStep, Oid, OverBudget, PinGroup,
    SnapshotError, SnapshotHandle, StoreRegistry,
};
use turnstone_store::{
    Context, FinishedOperation, GuardExpiry, Store, StoreError, TurnExpiry, UnfinishedExpiry,
};

use crate::captures::budgeted_capture::EVICTION_COPY_BYTES;
use crate::captures::eviction_candidates::{EvictionCandidate, EvictionTarget};
use crate::captures::operation_guard::{CaptureRetention, OperationGuard, list_unowned_guards};
use crate::captures::session_coverage::change_root_of;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::tool_calls::tracked_call::session_pin_group;

/// What is deleted in one store by an eviction, as the database records it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredEviction {
    root: ChangeRoot,
    /// The captures of the session before this one are deleted; without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_from: Option<Oid>,
    /// The guards that are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    guards: Vec<PinGroup>,
}

/// What remains to be deleted in one store, and the operations that are complete afterwards.
#[derive(Default)]
struct PendingEviction {
    steps: Vec<ExpiryStep>,
    open: Vec<(SessionId, OperationId)>,
}

/// Evicts undo data when a budget is used up: the database records what will be deleted before any capture is deleted.
#[derive(Clone)]
pub(crate) struct Eviction {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) pins: CaptureRetention,
}

impl Eviction {
    /// Frees space for a capture that did not fit: unpinned captures are deleted first, then undo data of old turns,
    /// then guards of operations. Returns false, and nothing has expired, if even that would not
    /// be enough.
    pub(crate) fn free_space(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        over: OverBudget,
    ) -> Result<bool> {
        let request = EvictionRequest {
            bytes: over.needed,
            live: self.pins.live_pin_groups(ctx)?,
            effort: EVICTION_COPY_BYTES,
            now: ctx.now,
        };
        let others = match over.which {
            BudgetLimit::Store => Vec::new(),
            BudgetLimit::Total => self.open_other_handles(ctx, handle)?,
        };
        let stores: Vec<&SnapshotHandle> =
            std::iter::once(handle).chain(others.iter().map(|(other, _)| &**other)).collect();
        let made = self.free_space_in(ctx, &stores, &request, over);
        // Stores that were opened only for this are closed again.
        let mine = others.iter().filter(|(_, was_open)| !was_open);
        let mine: Vec<String> =
            mine.map(|(other, _)| other.location().root.to_string_lossy().into_owned()).collect();
        self.snapshots.close(mine.iter());
        made
    }

    fn free_space_in(
        &self,
        ctx: &Context,
        stores: &[&SnapshotHandle],
        request: &EvictionRequest,
        over: OverBudget,
    ) -> Result<bool> {
        let (mut used, mut usable) = (over.used, Vec::new());
        for (nth, store) in stores.iter().enumerate() {
            let report = match self.reclaim_unpinned(ctx, store, request) {
                Err(error) if nth > 0 => {
                    log_skipped_store(store, &error);
                    continue;
                }
                report => report?,
            };
            if report.fits {
                return Ok(true);
            }
            used = used.saturating_sub(report.bytes_before.saturating_sub(report.bytes_after));
            usable.push(*store);
        }
        let (guards, mut offers) = (self.pins.list_guards(ctx)?, Vec::new());
        for (nth, store) in usable.iter().enumerate() {
            match self.measure_candidates(ctx, store, guards.as_deref()) {
                Err(error) if nth > 0 => log_skipped_store(store, &error),
                found => offers.extend(found?.into_iter().map(|(it, bytes)| (*store, it, bytes))),
            }
        }
        offers.sort_by_key(|(_, candidate, _)| candidate.priority);
        let excess = used.saturating_add(over.needed).saturating_sub(over.limit);
        let mut sum: u64 = 0;
        let last = offers.iter().position(|(_, _, bytes)| {
            sum = sum.saturating_add(*bytes);
            sum >= excess
        });
        let Some(last) = last else { return Ok(false) };
        offers.truncate(last + 1);
        for (nth, store) in usable.iter().enumerate() {
            let is_here = |other: &SnapshotHandle| other.location().id == store.location().id;
            let here = offers.iter().filter(|(other, ..)| is_here(other));
            let steps: Vec<&EvictionCandidate> = here.map(|(_, candidate, _)| candidate).collect();
            match self.evict_candidates(ctx, store, &steps, request) {
                // Recovery finishes what is recorded.
                Err(error) if nth > 0 => log_skipped_store(store, &error),
                done => done?,
            }
        }
        Ok(true)
    }

    fn reclaim_unpinned(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        request: &EvictionRequest,
    ) -> Result<EvictionReport> {
        Ok(handle
            .maintenance()
            .reclaim_unpinned(&with_unowned_guards_live(ctx, handle, request)?)?)
    }

    /// What may go in a store, in order, and how many bytes each frees.
    fn measure_candidates(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        guards: Option<&[OperationGuard]>,
    ) -> Result<Vec<(EvictionCandidate, u64)>> {
        let mut found = self.list_candidates(ctx, handle, guards)?;
        found.sort_by_key(|candidate| candidate.priority);
        let steps: Vec<ExpiryStep> = found.iter().map(EvictionCandidate::expiry_step).collect();
        let freed = handle.maintenance().measure_expiry(&steps, ctx.now)?;
        Ok(found.into_iter().zip(freed).collect())
    }

    /// The other stores of the data directory whose directories are there, and whether this process
    /// had them open before.
    fn open_other_handles(
        &self,
        ctx: &Context,
        own: &SnapshotHandle,
    ) -> Result<Vec<(Arc<SnapshotHandle>, bool)>> {
        let registry = self.snapshots.registry();
        let open: BTreeSet<String> = self
            .snapshots
            .list_open()
            .iter()
            .map(|handle| handle.location().id.to_string())
            .collect();
        let mut found = Vec::new();
        for listed in registry.list_stores().map_err(SnapshotError::from)? {
            let root = listed.root.filter(|_| listed.root_exists && listed.id != own.location().id);
            let Some(root) = root else { continue };
            match self.find_registered_handle(ctx, &registry, &root.path, listed.id.as_str()) {
                Ok(Some(handle)) => found.push((handle, open.contains(listed.id.as_str()))),
                Ok(None) => {}
                // It keeps what it has; whether the others are enough is seen.
                Err(error) => tracing::info!("store {} gives no room: {error}", listed.id.as_str()),
            }
        }
        Ok(found)
    }

    /// The store of a directory, if it is the expected one; none is created.
    fn find_registered_handle(
        &self,
        ctx: &Context,
        registry: &StoreRegistry,
        root: &Path,
        id: &str,
    ) -> Result<Option<Arc<SnapshotHandle>>, SnapshotError> {
        let found = registry.find_store(root, self.snapshots.policy())?;
        match found.is_some_and(|(place, _)| place.id.as_str() == id) {
            true => self.snapshots.open(root, ctx.now).map(Some),
            false => Ok(None),
        }
    }

    /// Evicts candidates from a store: the database records them, their captures go, the database
    /// records that.
    fn evict_candidates(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        steps: &[&EvictionCandidate],
        request: &EvictionRequest,
    ) -> Result<()> {
        if steps.is_empty() {
            return Ok(());
        }
        let mut pending = self.record_turn_evictions(ctx, handle, steps)?;
        let guards = self.record_guard_evictions(ctx, handle, steps)?;
        pending.steps.extend(guards.steps);
        pending.open.extend(guards.open);
        fail_point!("engine::expiry_written", |_| Err(std::io::Error::other("failpoint").into()));
        handle
            .maintenance()
            .expire_captures(&pending.steps, &with_unowned_guards_live(ctx, handle, request)?)?;
        fail_point!("engine::expiry_dropped", |_| Err(std::io::Error::other("failpoint").into()));
        for (session, id) in pending.open {
            self.finish_eviction(ctx, &session, id)?;
        }
        Ok(())
    }

    /// Stores which turns expire.
    fn record_turn_evictions(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        steps: &[&EvictionCandidate],
    ) -> Result<PendingEviction> {
        let mut by_session: BTreeMap<&SessionId, (Vec<TurnId>, Oid)> = BTreeMap::new();
        for step in steps {
            if let EvictionTarget::Turn { session, turn, keep_from } = &step.target {
                let known = by_session.entry(session).or_insert((Vec::new(), *keep_from));
                known.0.extend(turn.clone());
                known.1 = *keep_from;
            }
        }
        let mut pending = PendingEviction::default();
        for (session, (turns, keep_from)) in by_session {
            let step = ExpiryStep { group: session_pin_group(session), keep_from: Some(keep_from) };
            if turns.is_empty() {
                // No turn needs those captures.
                pending.steps.push(step);
                continue;
            }
            let work = StoredEviction {
                root: change_root_of(handle),
                keep_from: Some(keep_from),
                guards: Vec::new(),
            };
            let (id, work) = (self.id_generator.new_operation_id(ctx.now)?, encode_work(&work)?);
            let (name, expiring) = (session.clone(), TurnExpiry { id: id.clone(), turns, work });
            let fresh = self
                .store
                .write(ctx, move |tx| tx.undo_expiry().expire_turns(&name, &expiring))
                .wait();
            match fresh {
                // Another process may have evicted some meanwhile; it has recorded that itself.
                Ok(fresh) if !fresh.is_empty() => {
                    pending.steps.push(step);
                    pending.open.push((session.clone(), id));
                }
                // They are needed just now, or the session is gone.
                Ok(_) | Err(StoreError::NoSession(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pending)
    }

    /// Stores which operations lose their guards.
    fn record_guard_evictions(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        steps: &[&EvictionCandidate],
    ) -> Result<PendingEviction> {
        let mut by_session: BTreeMap<&SessionId, Vec<(&OperationId, &PinGroup)>> = BTreeMap::new();
        let mut pending = PendingEviction::default();
        for step in steps {
            match &step.target {
                EvictionTarget::Guard { session, operation, group } => {
                    by_session.entry(session).or_default().push((operation, group));
                }
                EvictionTarget::UnownedGuard(_) => pending.steps.push(step.expiry_step()),
                EvictionTarget::Turn { .. } => {}
            }
        }
        for (session, guards) in by_session {
            let id = self.id_generator.new_operation_id(ctx.now)?;
            let groups = guards.iter().map(|(_, group)| (*group).clone()).collect();
            let work =
                StoredEviction { root: change_root_of(handle), keep_from: None, guards: groups };
            let operations = guards.iter().map(|(operation, _)| (*operation).clone()).collect();
            let expiring = GuardExpiry { id: id.clone(), operations, work: encode_work(&work)? };
            let name = session.clone();
            let fresh = self
                .store
                .write(ctx, move |tx| tx.undo_expiry().expire_guards(&name, &expiring))
                .wait();
            let fresh = match fresh {
                Err(StoreError::NoSession(_)) => continue,
                fresh => fresh?,
            };
            let gone = guards.iter().filter(|(operation, _)| fresh.contains(operation));
            let step = |(_, group): &(_, &PinGroup)| ExpiryStep {
                group: (*group).clone(),
                keep_from: None,
            };
            pending.steps.extend(gone.map(step));
            pending.open.extend((!fresh.is_empty()).then(|| (session.clone(), id)));
        }
        Ok(pending)
    }

    fn finish_eviction(&self, ctx: &Context, session: &SessionId, id: OperationId) -> Result<()> {
        let report = serde_json::json!({});
        let done = FinishedOperation { id, head: HeadTarget::Stay, taken: Vec::new(), report };
        let name = session.clone();
        match self.store.write(ctx, move |tx| tx.operations().finish(&name, &done)).wait() {
            Ok(_) | Err(StoreError::NoSession(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Finishes evictions that were recorded and interrupted before their captures were removed.
    pub(crate) fn finish_interrupted(&self, ctx: &Context) -> Result<Vec<OperationId>> {
        let mut done = Vec::new();
        for UnfinishedExpiry { session, id, work } in
            self.store.read(ctx, |r| r.undo_expiry().unfinished())?
        {
            let work: StoredEviction =
                serde_json::from_value(work).map_err(std::io::Error::from)?;
            // The store of a directory that is gone is removed as a whole.
            let handle = match self.snapshots.of_root(&work.root, ctx.now) {
                Err(EngineError::DirectoryGone { .. } | EngineError::DirectoryReplaced { .. }) => {
                    None
                }
                found => Some(found?),
            };
            if let Some(handle) = handle {
                let turns = work.keep_from.map(|oid| (session_pin_group(&session), Some(oid)));
                let guards = work.guards.into_iter().map(|group| (group, None));
                let gone = turns.into_iter().chain(guards);
                let gone: Vec<ExpiryStep> =
                    gone.map(|(group, keep_from)| ExpiryStep { group, keep_from }).collect();
                let live = self.pins.live_pin_groups(ctx)?;
                let request =
                    EvictionRequest { bytes: 0, live, effort: EVICTION_COPY_BYTES, now: ctx.now };
                handle
                    .maintenance()
                    .expire_captures(&gone, &with_unowned_guards_live(ctx, &handle, &request)?)?;
            }
            self.finish_eviction(ctx, &session, id.clone())?;
            done.push(id);
        }
        Ok(done)
    }
}

fn encode_work(work: &StoredEviction) -> Result<serde_json::Value> {
    Ok(serde_json::to_value(work).map_err(std::io::Error::from)?)
}

/// Keeps the guards of manual restores as well: they are evicted last.
fn with_unowned_guards_live(
    ctx: &Context,
    handle: &SnapshotHandle,
    request: &EvictionRequest,
) -> Result<EvictionRequest> {
    let mut request = request.clone();
    let unowned = list_unowned_guards(handle, &request.live, ctx.now)?;
    request.live.extend(unowned.into_iter().map(|unowned| unowned.group));
    Ok(request)
}

/// Logs that another store freed nothing: the capture must not fail because of it.
fn log_skipped_store(store: &SnapshotHandle, error: &EngineError) {
    tracing::warn!("the store of {} gives no room: {error}", store.location().root.display());
}
