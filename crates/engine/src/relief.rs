//! Relief: what gives way to a capture that does not fit. Written down first, then it goes (R13, R14).
//!
//! If a store is full, what is in it gives way; if all of them together are, whatever is idle longest
//! in any of them. Each store is asked through its keeper; one that cannot be asked keeps what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use fail::fail_point;
use serde::{Deserialize, Serialize};
use turnstone_core::change::Root;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::operation::HeadMove;
use turnstone_snapshot::{
    Expiry, Group, Limit, Need, Oid, OverBudget, Registry, Relief, Vault, VaultError,
};
use turnstone_store::{Context, DoneOperation, Expiring, ExpiringGuards, StoreError, Unfinished};

use crate::call::group_of;
use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::expire::{Candidate, Loss};
use crate::guard::{Guard, stray_guards};
use crate::room::EFFORT;
use crate::root::root_of;

/// What goes with what expires, in one store.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Work {
    root: Root,
    /// The captures of the session before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_from: Option<Oid>,
    /// These guards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    guards: Vec<Group>,
}

/// What goes in one store: steps, and the operations that are over once they are gone.
#[derive(Default)]
struct Going {
    steps: Vec<Expiry>,
    open: Vec<(SessionId, OperationId)>,
}

impl Engine {
    /// Makes room for a capture that did not fit: what nobody needs goes, then the undo of old turns,
    /// then what operations displaced. Returns false, and nothing has expired, if even that would not
    /// be enough.
    pub(crate) fn make_room(&self, ctx: &Context, vault: &Vault, over: OverBudget) -> Result<bool> {
        let need = Need { bytes: over.needed, live: self.live(ctx)?, effort: EFFORT, now: ctx.now };
        let others = match over.which {
            Limit::Store => Vec::new(),
            Limit::Total => self.other_vaults(ctx, vault)?,
        };
        let stores: Vec<&Vault> =
            std::iter::once(vault).chain(others.iter().map(|(other, _)| &**other)).collect();
        let made = self.make_room_in(ctx, &stores, &need, over);
        // Who came only for this leaves again: others keep those stores.
        let mine = others.iter().filter(|(_, was_open)| !was_open);
        let mine: Vec<String> =
            mine.map(|(other, _)| other.place().root.to_string_lossy().into_owned()).collect();
        self.close_vaults(mine.iter());
        made
    }

    fn make_room_in(
        &self,
        ctx: &Context,
        stores: &[&Vault],
        need: &Need,
        over: OverBudget,
    ) -> Result<bool> {
        let (mut used, mut willing) = (over.used, Vec::new());
        for (nth, store) in stores.iter().enumerate() {
            let relief = match self.relieve(ctx, store, need) {
                Err(error) if nth > 0 => {
                    keeps(store, &error);
                    continue;
                }
                relief => relief?,
            };
            if relief.fits {
                return Ok(true);
            }
            used = used.saturating_sub(relief.bytes_before.saturating_sub(relief.bytes_after));
            willing.push(*store);
        }
        let (guards, mut offers) = (self.guards(ctx)?, Vec::new());
        for (nth, store) in willing.iter().enumerate() {
            match self.offers(ctx, store, guards.as_deref()) {
                Err(error) if nth > 0 => keeps(store, &error),
                found => offers.extend(found?.into_iter().map(|(it, bytes)| (*store, it, bytes))),
            }
        }
        offers.sort_by_key(|(_, candidate, _)| candidate.rank);
        let excess = used.saturating_add(over.needed).saturating_sub(over.limit);
        let mut sum: u64 = 0;
        let last = offers.iter().position(|(_, _, bytes)| {
            sum = sum.saturating_add(*bytes);
            sum >= excess
        });
        let Some(last) = last else { return Ok(false) };
        offers.truncate(last + 1);
        for (nth, store) in willing.iter().enumerate() {
            let is_here = |other: &Vault| other.place().id == store.place().id;
            let here = offers.iter().filter(|(other, ..)| is_here(other));
            let steps: Vec<&Candidate> = here.map(|(_, candidate, _)| candidate).collect();
            match self.expire(ctx, store, &steps, need) {
                // What is written down is finished by recovery.
                Err(error) if nth > 0 => keeps(store, &error),
                done => done?,
            }
        }
        Ok(true)
    }

    fn relieve(&self, ctx: &Context, vault: &Vault, need: &Need) -> Result<Relief> {
        Ok(vault.relieve(&sparing(ctx, vault, need)?)?)
    }

    /// What may go in a store, in order, and how many bytes each frees.
    fn offers(
        &self,
        ctx: &Context,
        vault: &Vault,
        guards: Option<&[Guard]>,
    ) -> Result<Vec<(Candidate, u64)>> {
        let mut found = self.expirable(ctx, vault, guards)?;
        found.sort_by_key(|candidate| candidate.rank);
        let steps: Vec<Expiry> = found.iter().map(Candidate::step).collect();
        let freed = vault.measure(&steps, ctx.now)?;
        Ok(found.into_iter().zip(freed).collect())
    }

    /// The other stores of the data directory whose directories are there, and whether this process
    /// had them open before.
    fn other_vaults(&self, ctx: &Context, own: &Vault) -> Result<Vec<(Arc<Vault>, bool)>> {
        let registry = Registry::new(&self.settings.data);
        let open: BTreeSet<String> =
            self.vaults().iter().map(|vault| vault.place().id.to_string()).collect();
        let mut found = Vec::new();
        for listed in registry.list().map_err(VaultError::from)? {
            let root = listed.root.filter(|_| listed.root_exists && listed.id != own.place().id);
            let Some(root) = root else { continue };
            match self.vault_at(ctx, &registry, &root.path, listed.id.as_str()) {
                Ok(Some(vault)) => found.push((vault, open.contains(listed.id.as_str()))),
                Ok(None) => {}
                // It keeps what it has; whether the others are enough is seen.
                Err(error) => tracing::info!("store {} gives no room: {error}", listed.id.as_str()),
            }
        }
        Ok(found)
    }

    /// The store of a directory, if it is the one that is meant; none is made.
    fn vault_at(
        &self,
        ctx: &Context,
        registry: &Registry,
        root: &Path,
        id: &str,
    ) -> Result<Option<Arc<Vault>>, VaultError> {
        let found = registry.find(root, &self.settings.vault.policy)?;
        match found.is_some_and(|(place, _)| place.id.as_str() == id) {
            true => self.vault(root, ctx.now).map(Some),
            false => Ok(None),
        }
    }

    /// Lets things expire in a store: written down first, then their captures go, then that is
    /// written down.
    fn expire(
        &self,
        ctx: &Context,
        vault: &Vault,
        steps: &[&Candidate],
        need: &Need,
    ) -> Result<()> {
        if steps.is_empty() {
            return Ok(());
        }
        let mut going = self.expire_turns(ctx, vault, steps)?;
        let guards = self.expire_guards(ctx, vault, steps)?;
        going.steps.extend(guards.steps);
        going.open.extend(guards.open);
        fail_point!("engine::expiry_written", |_| Err(std::io::Error::other("failpoint").into()));
        vault.expire(&going.steps, &sparing(ctx, vault, need)?)?;
        fail_point!("engine::expiry_dropped", |_| Err(std::io::Error::other("failpoint").into()));
        for (session, id) in going.open {
            self.finish_expiry(ctx, &session, id)?;
        }
        Ok(())
    }

    /// Writes down which turns expire.
    fn expire_turns(&self, ctx: &Context, vault: &Vault, steps: &[&Candidate]) -> Result<Going> {
        let mut by_session: BTreeMap<&SessionId, (Vec<TurnId>, Oid)> = BTreeMap::new();
        for step in steps {
            if let Loss::Turn { session, turn, keep_from } = &step.loss {
                let known = by_session.entry(session).or_insert((Vec::new(), *keep_from));
                known.0.extend(turn.clone());
                known.1 = *keep_from;
            }
        }
        let mut going = Going::default();
        for (session, (turns, keep_from)) in by_session {
            let step = Expiry { group: group_of(session), keep_from: Some(keep_from) };
            if turns.is_empty() {
                // No turn needs those captures: it is nobody's loss.
                going.steps.push(step);
                continue;
            }
            let work =
                Work { root: root_of(vault), keep_from: Some(keep_from), guards: Vec::new() };
            let (id, work) = (self.mint.operation(ctx.now)?, written(&work)?);
            let (name, expiring) = (session.clone(), Expiring { id: id.clone(), turns, work });
            let fresh = self.store.write(ctx, move |tx| tx.expire_turns(&name, &expiring)).wait();
            match fresh {
                // Another process may have been faster with some; its own work says what goes.
                Ok(fresh) if !fresh.is_empty() => {
                    going.steps.push(step);
                    going.open.push((session.clone(), id));
                }
                // Somebody needs them just now, or the session is gone.
                Ok(_) | Err(StoreError::NoSession(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(going)
    }

    /// Writes down which operations lose what they displaced.
    fn expire_guards(&self, ctx: &Context, vault: &Vault, steps: &[&Candidate]) -> Result<Going> {
        let mut by_session: BTreeMap<&SessionId, Vec<(&OperationId, &Group)>> = BTreeMap::new();
        let mut going = Going::default();
        for step in steps {
            match &step.loss {
                Loss::Guard { session, operation, group } => {
                    by_session.entry(session).or_default().push((operation, group));
                }
                Loss::Stray(_) => going.steps.push(step.step()),
                Loss::Turn { .. } => {}
            }
        }
        for (session, guards) in by_session {
            let id = self.mint.operation(ctx.now)?;
            let groups = guards.iter().map(|(_, group)| (*group).clone()).collect();
            let work = Work { root: root_of(vault), keep_from: None, guards: groups };
            let operations = guards.iter().map(|(operation, _)| (*operation).clone()).collect();
            let expiring = ExpiringGuards { id: id.clone(), operations, work: written(&work)? };
            let name = session.clone();
            let fresh = self.store.write(ctx, move |tx| tx.expire_guards(&name, &expiring)).wait();
            let fresh = match fresh {
                Err(StoreError::NoSession(_)) => continue,
                fresh => fresh?,
            };
            let gone = guards.iter().filter(|(operation, _)| fresh.contains(operation));
            let step =
                |(_, group): &(_, &Group)| Expiry { group: (*group).clone(), keep_from: None };
            going.steps.extend(gone.map(step));
            going.open.extend((!fresh.is_empty()).then(|| (session.clone(), id)));
        }
        Ok(going)
    }

    fn finish_expiry(&self, ctx: &Context, session: &SessionId, id: OperationId) -> Result<()> {
        let report = serde_json::json!({});
        let done = DoneOperation { id, head: HeadMove::Stay, taken: Vec::new(), report };
        let name = session.clone();
        match self.store.write(ctx, move |tx| tx.finish_operation(&name, &done)).wait() {
            Ok(_) | Err(StoreError::NoSession(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Finishes expiries that were written down and cut off before their bytes were gone.
    pub(crate) fn finish_expiries(&self, ctx: &Context) -> Result<Vec<OperationId>> {
        let mut done = Vec::new();
        for Unfinished { session, id, work } in self.store.read(ctx, |r| r.unfinished_expiries())? {
            let work: Work = serde_json::from_value(work).map_err(std::io::Error::from)?;
            // Of a directory that is gone the store goes as a whole.
            if Path::new(&work.root.path).is_dir() {
                let vault = self.vault_of(&work.root, ctx.now)?;
                let turns = work.keep_from.map(|oid| (group_of(&session), Some(oid)));
                let guards = work.guards.into_iter().map(|group| (group, None));
                let gone = turns.into_iter().chain(guards);
                let gone: Vec<Expiry> =
                    gone.map(|(group, keep_from)| Expiry { group, keep_from }).collect();
                let live = self.live(ctx)?;
                let need = Need { bytes: 0, live, effort: EFFORT, now: ctx.now };
                vault.expire(&gone, &sparing(ctx, &vault, &need)?)?;
            }
            self.finish_expiry(ctx, &session, id.clone())?;
            done.push(id);
        }
        Ok(done)
    }
}

fn written(work: &Work) -> Result<serde_json::Value> {
    Ok(serde_json::to_value(work).map_err(std::io::Error::from)?)
}

/// The same need, in which guards of restores by hand stay as well: they go last.
fn sparing(ctx: &Context, vault: &Vault, need: &Need) -> Result<Need> {
    let mut need = need.clone();
    let strays = stray_guards(vault, &need.live, ctx.now)?;
    need.live.extend(strays.into_iter().map(|stray| stray.group));
    Ok(need)
}

/// Says that another store gives no room: whoever needs some must not fail for its sake.
fn keeps(store: &Vault, error: &EngineError) {
    tracing::warn!("the store of {} gives no room: {error}", store.place().root.display());
}
