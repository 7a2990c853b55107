//! The work of a store owner: one function for its own requests and for those of other processes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use turnstone_core::time::EpochMillis;

use super::error::SnapshotError;
use super::protocol::{GcOutcome, GcRequest, StoreRequest, StoreResponse};
use super::store_status::StoreStatus;
use crate::capture::CaptureOutcome;
use crate::capture_expiry::ExpiryStep;
use crate::capture_listing::ListedCapture;
use crate::capture_pins::copy_captures_from;
use crate::eviction::{EvictionReport, EvictionRequest};
use crate::foreign_snapshots::adopt_steps;
use crate::gc::GcOptions;
use crate::object_store::Oid;
use crate::path::RelPath;
use crate::pin_group::PinGroup;
use crate::restore::{GROUP_PREFIX, RestoreOperationId, RestorePlan};
use crate::snapshot_store::SnapshotStore;
use crate::written_capture::capture_written;

/// The group of captures that were made only to see what is there now.
pub(crate) const PREVIEW_GROUP: &str = "look";

/// The group of the first capture of a worktree, which belongs to no session.
pub const BASELINE_GROUP: &str = "baseline";

/// Does what was asked.
pub(super) fn handle_request(
    store: &SnapshotStore,
    request: &StoreRequest,
) -> Result<StoreResponse, SnapshotError> {
    Ok(match request {
        StoreRequest::Hello => StoreResponse::Hello,
        StoreRequest::Status => StoreResponse::Status(StoreStatus::read(store)),
        StoreRequest::Capture { group, now } => {
            respond_captured(&store.capture(&PinGroup::new(group), *now)?)
        }
        StoreRequest::CaptureNamed { group, paths, keep, now } => {
            let paths = paths.iter().cloned().collect();
            respond_captured(&store.capture_named(&PinGroup::new(group), &paths, *keep, *now)?)
        }
        StoreRequest::CaptureWritten { group, written, now } => {
            respond_captured(&capture_written(store, &PinGroup::new(group), written, *now)?)
        }
        StoreRequest::PlanRestore { target, paths, keep_added, now } => {
            respond_planned(plan_restore(store, target, paths.as_deref(), *keep_added, *now)?)
        }
        StoreRequest::Plan { targets } => respond_planned(store.planner().plan_targets(targets)?),
        StoreRequest::PlanUndo { operation } => respond_planned(plan_undo(store, operation)?),
        StoreRequest::Apply { operation, now } => {
            StoreResponse::Applied(Box::new(store.restores().apply_once(operation, *now)?))
        }
        StoreRequest::Write { writes, guard } => {
            StoreResponse::Applied(Box::new(store.restores().write_files(writes, guard)?))
        }
        StoreRequest::Gc(request) => {
            StoreResponse::Collected(Box::new(collect_garbage(store, request)?))
        }
        StoreRequest::Relieve(need) => {
            StoreResponse::Relieved(Box::new(store.eviction().reclaim_unpinned(need)?))
        }
        StoreRequest::Measure { steps } => {
            StoreResponse::Measured { freed: store.expiry().measure(steps)? }
        }
        StoreRequest::Expire { steps, need } => {
            StoreResponse::Relieved(Box::new(expire_captures(store, steps, need)?))
        }
        StoreRequest::BeginForget { patterns } => {
            store.forgetter().begin(patterns).map(|()| StoreResponse::Hello)?
        }
        StoreRequest::FinishForget { now } => {
            StoreResponse::Forgotten { captures: store.forgetter().finish(*now)? }
        }
        StoreRequest::Pin { captures, group } => {
            StoreResponse::Pinned { missing: store.pins().pin(captures, &PinGroup::new(group))? }
        }
        StoreRequest::Copy { store: folder, root, captures, group } => {
            copy_captures(store, (folder, root), captures, group)?
        }
        StoreRequest::Adopt { repositories, steps, group, now } => StoreResponse::Adopted {
            steps: adopt_steps(store, repositories, steps, &PinGroup::new(group), *now)?,
        },
    })
}

fn respond_captured(captured: &CaptureOutcome) -> StoreResponse {
    StoreResponse::Captured(captured.into())
}

fn respond_planned(plan: RestorePlan) -> StoreResponse {
    StoreResponse::Planned(Box::new(plan))
}

fn copy_captures(
    store: &SnapshotStore,
    (folder, root): (&Path, &Path),
    captures: &[Oid],
    group: &str,
) -> Result<StoreResponse, SnapshotError> {
    copy_captures_from(store, folder, root, captures, &PinGroup::new(group))?;
    Ok(StoreResponse::Pinned { missing: Vec::new() })
}

fn plan_undo(
    store: &SnapshotStore,
    operation: &RestoreOperationId,
) -> Result<RestorePlan, SnapshotError> {
    let found = store.operations().find(operation)?;
    let found = found.ok_or_else(|| SnapshotError::no_operation(operation))?;
    Ok(store.planner().plan_undo(&found)?)
}

/// Expires captures, and removes the operations whose pin groups are gone with them.
fn expire_captures(
    store: &SnapshotStore,
    steps: &[ExpiryStep],
    need: &EvictionRequest,
) -> Result<EvictionReport, SnapshotError> {
    let report = store.eviction().expire_captures(steps, need)?;
    let whole = steps.iter().filter(|step| step.keep_from.is_none());
    let gone: BTreeSet<&str> = whole.map(|step| step.group.name()).collect();
    remove_operations_of_groups(store, |name| gone.contains(name))?;
    Ok(report)
}

fn plan_restore(
    store: &SnapshotStore,
    target: &Oid,
    paths: Option<&[RelPath]>,
    keep_added: bool,
    now: EpochMillis,
) -> Result<RestorePlan, SnapshotError> {
    let target = store.captures().get(target)?;
    let present = store.capture(&PinGroup::new(PREVIEW_GROUP), now)?.capture;
    let paths = paths.map(|paths| paths.iter().cloned().collect());
    Ok(store.planner().plan_restore(&target, &present, paths.as_ref(), keep_added)?)
}

/// Expires old captures of groups that are not live, and drops objects that no group pins then.
fn collect_garbage(store: &SnapshotStore, request: &GcRequest) -> Result<GcOutcome, SnapshotError> {
    let live: BTreeSet<PinGroup> = request.live.iter().map(|name| PinGroup::new(name)).collect();
    let GcRequest { now, keep, effort, dry_run, .. } = *request;
    let is_erasing = !dry_run && (!request.deleted.is_empty() || store.packs().is_erasing());
    if is_erasing {
        store.packs().begin_erasing()?;
        store.expiry().expire_deleted_groups(&request.deleted)?;
    }
    let expired = expire_old_captures(store, request)?;
    // Captures of a deleted session are removed at once, however much has to be copied.
    let effort = if is_erasing { u64::MAX } else { effort };
    let wanted = GcOptions { live: &live, now, keep, effort, dry_run };
    let gc = store.collector().collect(&wanted)?;
    if !dry_run {
        remove_operations_of_groups(store, |name| {
            gc.dropped_groups.iter().any(|group| group == name)
                || request.deleted.iter().any(|group| group == name)
        })?;
    }
    if is_erasing && gc.is_done {
        store.packs().end_erasing()?;
    }
    Ok(GcOutcome { expired, gc })
}

/// Forgets operations whose guard is gone, by the name of its group.
fn remove_operations_of_groups(
    store: &SnapshotStore,
    gone: impl Fn(&str) -> bool,
) -> Result<(), SnapshotError> {
    Ok(store.operations().remove(|it| gone(&format!("{GROUP_PREFIX}{}", it.id)))?)
}

/// Lets captures go that are too old while younger ones of their group stay; returns how many.
fn expire_old_captures(store: &SnapshotStore, request: &GcRequest) -> Result<usize, SnapshotError> {
    let is_old = |capture: &&ListedCapture| request.now.since(capture.time) >= request.keep;
    let mut groups = BTreeMap::<String, Vec<ListedCapture>>::new();
    for capture in store.captures().list_all()? {
        groups.entry(capture.group.clone()).or_default().push(capture);
    }
    let mut count = 0;
    for (name, captures) in groups.iter().filter(|(name, _)| !request.live.contains(*name)) {
        let old = captures.iter().filter(is_old).count();
        let Some(oldest) = captures.iter().rfind(|capture| !is_old(capture)) else {
            continue;
        };
        count += old;
        if old > 0 && !request.dry_run {
            store.expiry().expire_before(&PinGroup::new(name), &oldest.id)?;
        }
    }
    Ok(count)
}

/// Maintenance of bounded size: borrowed packs are released, old captures expire, small packs merge.
pub(super) fn run_maintenance(
    store: &SnapshotStore,
    request: &GcRequest,
) -> Result<GcOutcome, SnapshotError> {
    if store.inspection().usage()?.borrowed <= request.effort {
        store.packs().release_borrowed_packs()?;
    }
    let swept = collect_garbage(store, request)?;
    store.packs().repack(request.effort)?;
    Ok(swept)
}
