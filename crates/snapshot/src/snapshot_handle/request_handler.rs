//! The work of a keeper: one function for its own requests and for those of others.

use std::collections::{BTreeMap, BTreeSet};
use turnstone_core::time::EpochMillis;

use super::capture_copy::copy_captures_from;
use super::capture_listing::ListedCapture;
use super::error::SnapshotError;
use super::protocol::{EvictionRequest, GcOutcome, GcRequest, StoreRequest, StoreResponse};
use crate::capture_expiry::ExpiryStep;
use crate::gc::GcOptions;
use crate::object_store::Oid;
use crate::path::RelPath;
use crate::pin_group::PinGroup;
use crate::restore::{GROUP_PREFIX, OperationId, RestorePlan};
use crate::snapshot_store::SnapshotStore;
use crate::storage_budget::{EvictionOptions, EvictionReport};

/// The group of captures that were made only to see what is there now.
pub(super) const PREVIEW_GROUP: &str = "look";

/// Does what was asked.
pub(super) fn handle_request(
    shadow: &SnapshotStore,
    request: &StoreRequest,
) -> Result<StoreResponse, SnapshotError> {
    Ok(match request {
        StoreRequest::Hello => StoreResponse::Hello,
        StoreRequest::Capture { group, now } => {
            StoreResponse::Captured((&shadow.capture(&PinGroup::new(group), *now)?).into())
        }
        StoreRequest::CaptureNamed { group, paths, keep, now } => {
            let paths = paths.iter().cloned().collect();
            let captured = shadow.capture_named(&PinGroup::new(group), &paths, *keep, *now)?;
            StoreResponse::Captured((&captured).into())
        }
        StoreRequest::PlanRestore { target, paths, keep_added, now } => {
            let paths = paths.as_ref().map(|paths| paths.iter().cloned().collect());
            let plan = plan_restore(shadow, target, paths.as_ref(), *keep_added, *now)?;
            StoreResponse::Planned(Box::new(plan))
        }
        StoreRequest::Plan { wishes } => {
            StoreResponse::Planned(Box::new(shadow.plan_targets(wishes)?))
        }
        StoreRequest::PlanUndo { operation } => {
            StoreResponse::Planned(Box::new(plan_undo(shadow, operation)?))
        }
        StoreRequest::Apply { order, now } => {
            StoreResponse::Applied(Box::new(shadow.apply_once(order, *now)?))
        }
        StoreRequest::Write { writes, guard } => {
            StoreResponse::Applied(Box::new(shadow.write_files(writes, guard)?))
        }
        StoreRequest::Gc(sweep) => {
            StoreResponse::Collected(Box::new(collect_garbage(shadow, sweep)?))
        }
        StoreRequest::Relieve(need) => StoreResponse::Relieved(Box::new(
            shadow.reclaim_unpinned(&eviction_options(need, &[]))?,
        )),
        StoreRequest::Measure { steps } => {
            StoreResponse::Measured { freed: shadow.measure_expiry(steps)? }
        }
        StoreRequest::Expire { steps, need } => {
            StoreResponse::Relieved(Box::new(expire_captures(shadow, steps, need)?))
        }
        StoreRequest::BeginForget { patterns } => {
            shadow.begin_forget(patterns)?;
            StoreResponse::Hello
        }
        StoreRequest::FinishForget { now } => {
            StoreResponse::Forgotten { captures: shadow.finish_forget(*now)? }
        }
        StoreRequest::Pin { captures, group } => {
            StoreResponse::Pinned { missing: shadow.pin_captures(captures, &PinGroup::new(group))? }
        }
        StoreRequest::Copy { store, root, captures, group } => {
            copy_captures_from(shadow, store, root, captures, &PinGroup::new(group))?;
            StoreResponse::Pinned { missing: Vec::new() }
        }
    })
}

fn plan_undo(
    shadow: &SnapshotStore,
    operation: &OperationId,
) -> Result<RestorePlan, SnapshotError> {
    let found = shadow.find_operation(operation)?;
    let found = found.ok_or_else(|| SnapshotError::no_operation(operation))?;
    Ok(shadow.plan_undo(&found)?)
}

/// Expires captures, and removes the operations whose pin groups are gone with them.
fn expire_captures(
    shadow: &SnapshotStore,
    steps: &[ExpiryStep],
    need: &EvictionRequest,
) -> Result<EvictionReport, SnapshotError> {
    let report = shadow.expire_captures(&eviction_options(need, steps))?;
    let whole = steps.iter().filter(|step| step.keep_from.is_none());
    let gone: BTreeSet<&str> = whole.map(|step| step.group.name()).collect();
    remove_operations_of_groups(shadow, |name| gone.contains(name))?;
    Ok(report)
}

fn eviction_options<'n>(
    need: &'n EvictionRequest,
    expiry: &'n [ExpiryStep],
) -> EvictionOptions<'n> {
    let EvictionRequest { bytes, live, effort, now } = need;
    EvictionOptions { needed: *bytes, live, now: *now, expiry, effort: *effort }
}

fn plan_restore(
    shadow: &SnapshotStore,
    target: &Oid,
    paths: Option<&BTreeSet<RelPath>>,
    keep_added: bool,
    now: EpochMillis,
) -> Result<RestorePlan, SnapshotError> {
    let target = shadow.get_capture(target)?;
    let present = shadow.capture(&PinGroup::new(PREVIEW_GROUP), now)?.capture;
    Ok(shadow.plan_restore(&target, &present, paths, keep_added)?)
}

/// Lets old captures of groups that nobody needs expire, and drops what nobody pins then.
fn collect_garbage(shadow: &SnapshotStore, sweep: &GcRequest) -> Result<GcOutcome, SnapshotError> {
    let live: BTreeSet<PinGroup> = sweep.live.iter().map(|name| PinGroup::new(name)).collect();
    let expired = expire_old_captures(shadow, sweep)?;
    let GcRequest { now, keep, effort, dry_run, .. } = *sweep;
    let wanted = GcOptions { live: &live, now, keep, effort, dry_run };
    let gc = shadow.collect_garbage(&wanted)?;
    if !dry_run {
        remove_operations_of_groups(shadow, |name| {
            gc.dropped_groups.iter().any(|group| group == name)
        })?;
    }
    Ok(GcOutcome { expired, gc })
}

/// Forgets operations whose guard is gone, by the name of its group.
fn remove_operations_of_groups(
    shadow: &SnapshotStore,
    gone: impl Fn(&str) -> bool,
) -> Result<(), SnapshotError> {
    Ok(shadow.remove_operations(|it| gone(&format!("{GROUP_PREFIX}{}", it.id)))?)
}

/// Lets captures go that are too old while younger ones of their group stay; returns how many.
fn expire_old_captures(shadow: &SnapshotStore, sweep: &GcRequest) -> Result<usize, SnapshotError> {
    let is_old = |capture: &&ListedCapture| sweep.now.since(capture.time) >= sweep.keep;
    let mut groups = BTreeMap::<String, Vec<ListedCapture>>::new();
    for capture in shadow.list_all_captures()? {
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
            shadow.expire_before(&PinGroup::new(name), &oldest.id)?;
        }
    }
    Ok(count)
}

/// Upkeep of a bounded size: what is lent is given back, what is old goes, small packs become one.
pub(super) fn run_maintenance(
    shadow: &SnapshotStore,
    sweep: &GcRequest,
) -> Result<GcOutcome, SnapshotError> {
    if shadow.usage()?.lent <= sweep.effort {
        shadow.release_borrowed_packs()?;
    }
    let swept = collect_garbage(shadow, sweep)?;
    shadow.repack(sweep.effort)?;
    Ok(swept)
}
