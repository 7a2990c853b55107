//! The work of a keeper: one function for its own requests and for those of others.

use std::collections::BTreeSet;

use turnstone_core::time::Millis;

use super::error::VaultError;
use super::request::{Answer, Request};
use crate::gc::GcReport;
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
        Request::Gc { keep, now, dry_run } => {
            Answer::Collected(collect(shadow, *keep, *now, *dry_run)?)
        }
    })
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

/// Drops the groups whose newest capture is older than `keep`, and the operations they belonged to.
fn collect(shadow: &Shadow, keep: i64, now: Millis, dry_run: bool) -> Result<GcReport, VaultError> {
    let mut live = BTreeSet::new();
    for tip in shadow.list_tips()? {
        if now.since(tip.time) <= keep {
            live.insert(Group::new(&tip.group));
        }
    }
    let report = shadow.gc(&live, now, dry_run)?;
    if !dry_run {
        let gone = |name: &str| report.dropped_groups.iter().any(|group| group == name);
        shadow.forget_operations(|operation| gone(&format!("{GROUP_PREFIX}{}", operation.id)))?;
    }
    Ok(report)
}
