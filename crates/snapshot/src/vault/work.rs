//! The work of a keeper: one function for its own requests and for those of others.

use std::collections::{BTreeMap, BTreeSet};
use turnstone_core::time::Millis;

use super::copy::copy_from;
use super::error::VaultError;
use super::listing::ListedCapture;
use super::request::{Answer, Need, Request, Sweep, Swept};
use crate::budget::Room;
use crate::expire::Expiry;
use crate::gc::Collection;
use crate::group::Group;
use crate::object::Oid;
use crate::path::RelPath;
use crate::restore::{GROUP_PREFIX, Plan};
use crate::shadow::Shadow;

/// The group of captures that were made only to see what is there now.
pub(super) const LOOK: &str = "look";

/// Does what was asked.
pub(super) fn serve(shadow: &Shadow, request: &Request) -> Result<Answer, VaultError> {
    Ok(match request {
        Request::Hello => Answer::Hello,
        Request::Capture { group, now } => {
            Answer::Captured((&shadow.capture(&Group::new(group), *now)?).into())
        }
        Request::CaptureNamed { group, paths, keep, now } => {
            let paths: BTreeSet<RelPath> = paths.iter().cloned().collect();
            let captured = shadow.capture_named(&Group::new(group), &paths, *keep, *now)?;
            Answer::Captured((&captured).into())
        }
        Request::PlanRestore { target, paths, keep_added, now } => {
            let paths = paths.as_ref().map(|paths| paths.iter().cloned().collect());
            let plan = plan_restore(shadow, target, paths.as_ref(), *keep_added, *now)?;
            Answer::Planned(Box::new(plan))
        }
        Request::Plan { wishes } => Answer::Planned(Box::new(shadow.plan(wishes)?)),
        Request::PlanUndo { operation } => {
            let found = shadow.find_operation(operation)?;
            let found = found.ok_or_else(|| VaultError::no_operation(operation))?;
            Answer::Planned(Box::new(shadow.plan_undo(&found)?))
        }
        Request::Apply { order, now } => {
            Answer::Applied(Box::new(shadow.apply_order(order, *now)?))
        }
        Request::Write { writes, guard } => {
            Answer::Applied(Box::new(shadow.write_files(writes, guard)?))
        }
        Request::Gc(sweep) => Answer::Collected(Box::new(collect(shadow, sweep)?)),
        Request::Relieve(need) => Answer::Relieved(Box::new(shadow.relieve(&room(need, &[]))?)),
        Request::Measure { steps } => Answer::Measured { freed: shadow.measure_expiry(steps)? },
        Request::Expire { steps, need } => {
            let relief = shadow.expire_steps(&room(need, steps))?;
            let whole = steps.iter().filter(|step| step.keep_from.is_none());
            let gone: BTreeSet<&str> = whole.map(|step| step.group.name()).collect();
            forget_operations(shadow, |name| gone.contains(name))?;
            Answer::Relieved(Box::new(relief))
        }
        Request::BeginForget { patterns } => {
            shadow.begin_forget(patterns)?;
            Answer::Hello
        }
        Request::FinishForget { now } => {
            Answer::Forgotten { captures: shadow.finish_forget(*now)? }
        }
        Request::Pin { captures, group } => {
            Answer::Pinned { missing: shadow.pin_captures(captures, &Group::new(group))? }
        }
        Request::Copy { store, root, captures, group } => {
            copy_from(shadow, store, root, captures, &Group::new(group))?;
            Answer::Pinned { missing: Vec::new() }
        }
    })
}

fn room<'n>(need: &'n Need, expiry: &'n [Expiry]) -> Room<'n> {
    let Need { bytes, live, effort, now } = need;
    Room { needed: *bytes, live, now: *now, expiry, effort: *effort }
}

fn plan_restore(
    shadow: &Shadow,
    target: &Oid,
    paths: Option<&BTreeSet<RelPath>>,
    keep_added: bool,
    now: Millis,
) -> Result<Plan, VaultError> {
    let target = shadow.get_capture(target)?;
    let present = shadow.capture(&Group::new(LOOK), now)?.capture;
    Ok(shadow.plan_restore(&target, &present, paths, keep_added)?)
}

/// Lets old captures of groups that nobody needs expire, and drops what nobody pins then.
fn collect(shadow: &Shadow, sweep: &Sweep) -> Result<Swept, VaultError> {
    let live: BTreeSet<Group> = sweep.live.iter().map(|name| Group::new(name)).collect();
    let expired = expire(shadow, sweep)?;
    let Sweep { now, keep, effort, dry_run, .. } = *sweep;
    let wanted = Collection { live: &live, now, keep, effort, dry_run };
    let gc = shadow.collect(&wanted)?;
    if !dry_run {
        forget_operations(shadow, |name| gc.dropped_groups.iter().any(|group| group == name))?;
    }
    Ok(Swept { expired, gc })
}

/// Forgets operations whose guard is gone, by the name of its group.
fn forget_operations(shadow: &Shadow, gone: impl Fn(&str) -> bool) -> Result<(), VaultError> {
    Ok(shadow.forget_operations(|it| gone(&format!("{GROUP_PREFIX}{}", it.id)))?)
}

/// Lets captures go that are too old while younger ones of their group stay; returns how many.
fn expire(shadow: &Shadow, sweep: &Sweep) -> Result<usize, VaultError> {
    let is_old = |capture: &&ListedCapture| sweep.now.since(capture.time) >= sweep.keep;
    let mut groups = BTreeMap::<String, Vec<ListedCapture>>::new();
    for capture in shadow.list_all()? {
        groups.entry(capture.group.clone()).or_default().push(capture);
    }
    let mut count = 0;
    for (name, captures) in groups.iter().filter(|(name, _)| !sweep.live.contains(*name)) {
        let old = captures.iter().filter(is_old).count();
        let Some(oldest) = captures.iter().rfind(|capture| !is_old(capture)) else {
            continue;
        };
        count += old;
        if old > 0 && !sweep.dry_run {
            shadow.expire(&Group::new(name), &oldest.id)?;
        }
    }
    Ok(count)
}

/// Upkeep of a bounded size: what is lent is given back, what is old goes, small packs become one.
pub(super) fn tend(shadow: &Shadow, sweep: &Sweep) -> Result<Swept, VaultError> {
    if shadow.usage()?.lent <= sweep.effort {
        shadow.settle()?;
    }
    let swept = collect(shadow, sweep)?;
    shadow.repack(sweep.effort)?;
    Ok(swept)
}
