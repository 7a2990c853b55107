//! Guards: what operations displaced. Pinned by them, and the last of all to go (R14).

use std::collections::BTreeSet;
use std::sync::Arc;

use turnstone_core::id::{OperationId, SessionId};
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{GcRequest, PinGroup, SnapshotHandle};
use turnstone_store::{Context, GuardPin, SessionFilter, Store};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::history::undo::decode_store_operations;
use crate::tool_calls::tracked_call::session_pin_group;

/// No group that is younger is dropped (R9).
const MIN_GUARD_AGE_MILLIS: i64 = 3_600_000;

/// Sessions read at once.
const PAGE: usize = 200;

/// What an operation pins in one store.
#[derive(Clone)]
pub(crate) struct OperationGuard {
    pub(crate) session: SessionId,
    pub(crate) operation: OperationId,
    /// The store.
    pub(crate) store: String,
    pub(crate) group: PinGroup,
    /// When the operation was planned.
    pub(crate) time: EpochMillis,
    /// False for the newest operation of a session, and for one that is not over.
    pub(crate) can_expire: bool,
}

/// The pin groups of operations whose guards have not expired: they stay whatever their age.
///
/// # Errors
///
/// The database or an operation in it cannot be read: then it is unknown what must stay.
pub fn list_guard_groups(store: &Store, ctx: &Context) -> Result<BTreeSet<PinGroup>> {
    Ok(read_guards(store, ctx)?.into_iter().map(|guard| guard.group).collect())
}

/// The guards of all operations that have not expired, oldest first.
fn read_guards(store: &Store, ctx: &Context) -> Result<Vec<OperationGuard>> {
    let mut found = Vec::new();
    for GuardPin { session, operation, time, can_expire: may_go, plan } in
        store.read(ctx, |r| r.undo_expiry().guard_pins())?
    {
        for (store, order) in decode_store_operations(&operation, &plan)? {
            let (session, operation) = (session.clone(), operation.clone());
            found.push(OperationGuard {
                session,
                operation,
                store,
                group: order.guard_group(),
                time,
                can_expire: may_go,
            });
        }
    }
    Ok(found)
}

/// Which captures must stay: those of live sessions, and those that operations pin.
#[derive(Clone)]
pub(crate) struct CaptureRetention {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) retention_millis: i64,
}

impl CaptureRetention {
    /// The guards of all operations that have not expired, oldest first; nothing if one of the
    /// operations cannot be read: then it is unknown which guards are needed, and all of them stay.
    pub(crate) fn list_guards(&self, ctx: &Context) -> Result<Option<Vec<OperationGuard>>> {
        match read_guards(&self.store, ctx) {
            Err(EngineError::UnreadableOperation { operation, .. }) => {
                tracing::warn!("operation {operation} cannot be read: every guard is kept");
                Ok(None)
            }
            guards => guards.map(Some),
        }
    }

    /// The pin groups of guards that stay whatever their age, in the stores that are open.
    pub(crate) fn pinned_guard_groups(&self, ctx: &Context) -> Result<BTreeSet<PinGroup>> {
        if let Some(guards) = self.list_guards(ctx)? {
            return Ok(guards.into_iter().map(|guard| guard.group).collect());
        }
        let mut all = BTreeSet::new();
        for handle in self.snapshots.list_open() {
            let guards = list_unowned_guards(&handle, &BTreeSet::new(), ctx.now)?;
            all.extend(guards.into_iter().map(|unowned| unowned.group));
        }
        Ok(all)
    }

    /// The pin groups of the sessions that are there, and of what their operations displaced.
    pub(crate) fn live_pin_groups(&self, ctx: &Context) -> Result<BTreeSet<PinGroup>> {
        let mut live = self.pinned_guard_groups(ctx)?;
        live.extend(self.list_session_ids(ctx)?.iter().map(session_pin_group));
        Ok(live)
    }

    fn list_session_ids(&self, ctx: &Context) -> Result<Vec<SessionId>> {
        let filter = SessionFilter { archived: true, ..SessionFilter::default() };
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let at: Option<String> = cursor.take();
            let page = self.store.read(ctx, |r| r.sessions().list(&filter, at.as_deref(), PAGE))?;
            found.extend(page.items.into_iter().map(|row| row.session.id));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// The pin groups of deleted sessions whose rows are still there, and of what their operations displaced.
    pub(crate) fn deleted_pin_groups(
        &self,
        ctx: &Context,
        sessions: &[SessionId],
    ) -> Result<BTreeSet<PinGroup>> {
        let mut groups: BTreeSet<PinGroup> = sessions.iter().map(session_pin_group).collect();
        for pin in self.store.read(ctx, |r| r.undo_expiry().guard_pins_of_deleted())? {
            match decode_store_operations(&pin.operation, &pin.plan) {
                Ok(orders) if sessions.contains(&pin.session) => {
                    groups.extend(orders.into_iter().map(|(_, order)| order.guard_group()));
                }
                Ok(_) => {}
                // Its guard is not known; it expires with its age.
                Err(error) => tracing::warn!("a guard of a deleted session stays: {error}"),
            }
        }
        Ok(groups)
    }

    /// What garbage collection may remove: nothing of an existing session or its operations.
    pub(crate) fn gc_request(&self, ctx: &Context, effort: u64) -> Result<GcRequest> {
        let live = self.live_pin_groups(ctx)?.iter().map(|group| group.name().to_owned()).collect();
        let keep = self.retention_millis;
        let deleted = BTreeSet::new();
        Ok(GcRequest { live, deleted, keep, effort, dry_run: false, now: ctx.now })
    }
}

impl OperationGuard {
    /// True if it may be evicted now.
    pub(crate) fn can_evict_at(&self, now: EpochMillis) -> bool {
        self.can_expire && now.since(self.time) >= MIN_GUARD_AGE_MILLIS
    }
}

/// A guard that no operation of the database pins: of a restore by hand.
pub(crate) struct UnownedGuard {
    pub(crate) group: PinGroup,
    pub(crate) time: EpochMillis,
    /// False for the newest one, and for an hour.
    pub(crate) can_expire: bool,
}

/// The guards in a store that are not among the pinned ones, oldest first.
pub(crate) fn list_unowned_guards(
    handle: &SnapshotHandle,
    pinned: &BTreeSet<PinGroup>,
    now: EpochMillis,
) -> Result<Vec<UnownedGuard>> {
    let mut found = Vec::new();
    for (name, chain) in handle.reader().list_chains()? {
        let group = PinGroup::new(&name);
        let newest = chain.iter().filter(|it| it.is_guard()).map(|it| it.time).max();
        if let Some(time) = newest.filter(|_| !pinned.contains(&group)) {
            found.push(UnownedGuard {
                group,
                time,
                can_expire: now.since(time) >= MIN_GUARD_AGE_MILLIS,
            });
        }
    }
    found.sort_by_key(|unowned| unowned.time);
    if let Some(newest) = found.last_mut() {
        newest.can_expire = false;
    }
    Ok(found)
}
