//! Guards: what operations displaced. Pinned by them, and the last of all to go (R14).

use std::collections::BTreeSet;

use turnstone_core::id::{OperationId, SessionId};
use turnstone_core::time::Millis;
use turnstone_snapshot::{Group, Vault};
use turnstone_store::{Context, Guarding, Store};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::undo::orders_of;

/// No group that is younger is dropped (R9).
const YOUNG: i64 = 3_600_000;

/// What an operation pins in one store.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) session: SessionId,
    pub(crate) operation: OperationId,
    /// The store.
    pub(crate) store: String,
    pub(crate) group: Group,
    /// When the operation was planned.
    pub(crate) time: Millis,
    /// False for the newest operation of a session, and for one that is not over.
    pub(crate) may_go: bool,
}

/// The pin groups of operations whose guards have not expired: they stay whatever their age.
///
/// # Errors
///
/// The ledger cannot be read, or an operation in it cannot: then nobody knows what must stay.
pub fn guard_groups(store: &Store, ctx: &Context) -> Result<BTreeSet<Group>> {
    Ok(read(store, ctx)?.into_iter().map(|guard| guard.group).collect())
}

/// The guards of all operations that have not expired, oldest first.
fn read(store: &Store, ctx: &Context) -> Result<Vec<Guard>> {
    let mut found = Vec::new();
    for Guarding { session, operation, time, may_go, plan } in store.read(ctx, |r| r.guarding())? {
        for (store, order) in orders_of(&operation, &plan)? {
            let (session, operation) = (session.clone(), operation.clone());
            found.push(Guard { session, operation, store, group: order.group(), time, may_go });
        }
    }
    Ok(found)
}

impl Engine {
    /// The guards of all operations that have not expired, oldest first; nothing if one of the
    /// operations cannot be read: then nobody knows whose a guard is, and all of them stay.
    pub(crate) fn guards(&self, ctx: &Context) -> Result<Option<Vec<Guard>>> {
        match read(&self.store, ctx) {
            Err(EngineError::Unreadable { operation, .. }) => {
                tracing::warn!("operation {operation} cannot be read: every guard is kept");
                Ok(None)
            }
            guards => guards.map(Some),
        }
    }

    /// The pin groups of guards that stay whatever their age, in the stores that are open.
    pub(crate) fn pinned_guards(&self, ctx: &Context) -> Result<BTreeSet<Group>> {
        if let Some(guards) = self.guards(ctx)? {
            return Ok(guards.into_iter().map(|guard| guard.group).collect());
        }
        let mut all = BTreeSet::new();
        for vault in self.vaults() {
            let guards = stray_guards(&vault, &BTreeSet::new(), ctx.now)?;
            all.extend(guards.into_iter().map(|stray| stray.group));
        }
        Ok(all)
    }

    /// Refuses what needs a guard that has expired.
    pub(crate) fn refuse_unguarded(
        &self,
        ctx: &Context,
        session: &SessionId,
        needed: &BTreeSet<OperationId>,
    ) -> Result<()> {
        if needed.is_empty() {
            return Ok(());
        }
        let expired = self.store.read(ctx, |r| r.expired_guards(session))?;
        match needed.iter().find_map(|id| expired.get_key_value(id)) {
            Some((operation, at)) => {
                Err(EngineError::GuardExpired { operation: operation.clone(), at: *at })
            }
            None => Ok(()),
        }
    }
}

impl Guard {
    /// True if it may go at this moment.
    pub(crate) fn is_idle(&self, now: Millis) -> bool {
        self.may_go && now.since(self.time) >= YOUNG
    }
}

/// A guard that no operation of the ledger pins: of a restore by hand.
pub(crate) struct Stray {
    pub(crate) group: Group,
    pub(crate) time: Millis,
    /// False for the newest one, and for an hour.
    pub(crate) may_go: bool,
}

/// The guards in a store that are not among the pinned ones, oldest first.
pub(crate) fn stray_guards(
    vault: &Vault,
    pinned: &BTreeSet<Group>,
    now: Millis,
) -> Result<Vec<Stray>> {
    let mut found = Vec::new();
    for (name, chain) in vault.list_chains()? {
        let group = Group::new(&name);
        let newest = chain.iter().filter(|it| it.is_guard()).map(|it| it.time).max();
        if let Some(time) = newest.filter(|_| !pinned.contains(&group)) {
            found.push(Stray { group, time, may_go: now.since(time) >= YOUNG });
        }
    }
    found.sort_by_key(|stray| stray.time);
    if let Some(newest) = found.last_mut() {
        newest.may_go = false;
    }
    Ok(found)
}
