//! Stored operations: the only code that writes and reads the JSON of a plan and of a report.
//!
//! What cannot be read is an error. It is never taken for an operation that did nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnstone_core::change::ChangeRoot;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::rel_path::RelPath;
use turnstone_snapshot::RestoreOperationId as OrderId;
use turnstone_store::OperationRow;

use super::types::{OperationReport, RootReport, UndoPlan};
use crate::captures::root_overlap::RootOverlap;
use crate::error::{EngineError, Result};
use crate::history::timeline_branch::SessionBranchPlan;

/// A plan as it is stored: what is looked for often, and all of it.
#[derive(Serialize, Deserialize)]
struct StoredPlan {
    turns: Vec<TurnId>,
    #[serde(default)]
    also: Vec<(SessionId, TurnId)>,
    #[serde(default)]
    switched: bool,
    /// The operation of another session that this one belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leader: Option<(SessionId, OperationId)>,
    /// The orders, each with the store that carries it out; plans of old do not say it apart.
    #[serde(default)]
    orders: Option<Vec<(String, OrderId)>>,
    /// One text, so that a long plan is stored as a separate value.
    whole: String,
}

/// What the plans of an expiry and of a forgetting have in common.
#[derive(Deserialize)]
struct StoredTurns {
    turns: Vec<TurnId>,
    #[serde(default)]
    guards: Vec<OperationId>,
}

/// A report as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredReport {
    whole: String,
}

/// The plan of a checkpoint: a point gets a name, or names are given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointChange {
    /// The name.
    pub name: String,
    /// The checkpoints whose name this operation gives up; empty: it names the point it was made at.
    #[serde(rename = "givesUp", default, skip_serializing_if = "Vec::is_empty")]
    pub gives_up: Vec<OperationId>,
}

/// True for operations that bring files and the conversation somewhere: those with a plan.
#[must_use]
pub(crate) const fn can_move_files(kind: OperationKind) -> bool {
    match kind {
        OperationKind::Undo | OperationKind::Redo | OperationKind::Jump => true,
        OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Expire
        | OperationKind::Forget => false,
    }
}

pub(crate) fn encode_plan(plan: &UndoPlan) -> Result<Value> {
    encode_plan_of(plan, None)
}

/// The plan of an operation by which a session records what an operation of another one moved.
pub(super) fn encode_member_plan(
    plan: &UndoPlan,
    leader: (SessionId, OperationId),
) -> Result<Value> {
    encode_plan_of(plan, Some(leader))
}

fn encode_plan_of(plan: &UndoPlan, leader: Option<(SessionId, OperationId)>) -> Result<Value> {
    let written = StoredPlan {
        turns: plan.turns.clone(),
        also: plan.also.clone(),
        switched: plan.switch.is_some(),
        leader,
        orders: Some(list_store_operations(plan)),
        whole: serde_json::to_string(plan).map_err(std::io::Error::from)?,
    };
    Ok(serde_json::to_value(written).map_err(std::io::Error::from)?)
}

pub(crate) fn encode_report(report: &OperationReport) -> Result<Value> {
    let whole = serde_json::to_string(report).map_err(std::io::Error::from)?;
    Ok(serde_json::to_value(StoredReport { whole }).map_err(std::io::Error::from)?)
}

pub(crate) fn encode_branch(plan: &SessionBranchPlan) -> Result<Value> {
    Ok(serde_json::to_value(plan).map_err(std::io::Error::from)?)
}

pub(crate) fn encode_checkpoint(name: &str, gives_up: Vec<OperationId>) -> Result<Value> {
    let written = CheckpointChange { name: name.to_owned(), gives_up };
    Ok(serde_json::to_value(written).map_err(std::io::Error::from)?)
}

/// What an undo, a redo or a jump was to do.
pub(crate) fn decode_plan(operation: &OperationRow) -> Result<UndoPlan> {
    let written: StoredPlan = decode_json(operation, &operation.plan)?;
    serde_json::from_str(&written.whole).map_err(unreadable(operation))
}

/// The orders an undo, a redo or a jump gave, each with its store, from how its plan is stored.
pub(crate) fn decode_store_operations(
    operation: &OperationId,
    plan: &Value,
) -> Result<Vec<(String, OrderId)>> {
    let unreadable =
        |source| EngineError::UnreadableOperation { operation: operation.clone(), source };
    let written = StoredPlan::deserialize(plan).map_err(unreadable)?;
    match written.orders {
        Some(orders) => Ok(orders),
        None => {
            Ok(list_store_operations(&serde_json::from_str(&written.whole).map_err(unreadable)?))
        }
    }
}

fn list_store_operations(plan: &UndoPlan) -> Vec<(String, OrderId)> {
    plan.roots.iter().map(|root| (root.root.store.clone(), root.order.clone())).collect()
}

/// What an operation did; nothing while it is not over, and of one that moves no files.
///
/// # Errors
///
/// [`EngineError::UnreadableOperation`].
pub fn decode_report(operation: &OperationRow) -> Result<Option<OperationReport>> {
    let Some(done) = operation.done.as_ref().filter(|_| can_move_files(operation.kind)) else {
        return Ok(None);
    };
    let written: StoredReport = decode_json(operation, &done.report)?;
    serde_json::from_str(&written.whole).map(Some).map_err(unreadable(operation))
}

/// The turns an operation was about.
///
/// # Errors
///
/// [`EngineError::UnreadableOperation`].
pub fn decode_turns(operation: &OperationRow) -> Result<Vec<TurnId>> {
    match operation.kind {
        OperationKind::Undo | OperationKind::Redo | OperationKind::Jump => {
            Ok(decode_json::<StoredPlan>(operation, &operation.plan)?.turns)
        }
        OperationKind::Expire | OperationKind::Forget => {
            Ok(decode_json::<StoredTurns>(operation, &operation.plan)?.turns)
        }
        OperationKind::Branch | OperationKind::Checkpoint => Ok(Vec::new()),
    }
}

/// The operations whose guards an expiry gave up (R14); none of any other operation.
///
/// # Errors
///
/// [`EngineError::UnreadableOperation`].
pub fn decode_expired_guards(operation: &OperationRow) -> Result<Vec<OperationId>> {
    match operation.kind == OperationKind::Expire {
        true => Ok(decode_json::<StoredTurns>(operation, &operation.plan)?.guards),
        false => Ok(Vec::new()),
    }
}

/// The turns of other sessions an operation took along.
pub(crate) fn decode_other_turns(operation: &OperationRow) -> Result<Vec<(SessionId, TurnId)>> {
    match can_move_files(operation.kind) {
        true => Ok(decode_json::<StoredPlan>(operation, &operation.plan)?.also),
        false => Ok(Vec::new()),
    }
}

/// The operation of another session that an operation belongs to: its turns are among the other turns of that one,
/// which changed their files.
///
/// # Errors
///
/// [`EngineError::UnreadableOperation`].
pub fn decode_leader(operation: &OperationRow) -> Result<Option<(SessionId, OperationId)>> {
    match can_move_files(operation.kind) {
        true => Ok(decode_json::<StoredPlan>(operation, &operation.plan)?.leader),
        false => Ok(None),
    }
}

/// True if the session changed to another line.
pub(crate) fn is_timeline_switch(operation: &OperationRow) -> Result<bool> {
    let switched = can_move_files(operation.kind)
        && decode_json::<StoredPlan>(operation, &operation.plan)?.switched;
    Ok(switched && !is_without_effect(operation)?)
}

/// True if an operation is complete and changed nothing, because no file could be changed.
pub(crate) fn is_without_effect(operation: &OperationRow) -> Result<bool> {
    match &operation.done {
        Some(done) if done.taken.is_empty() => {
            Ok(decode_report(operation)?.is_some_and(|report| report.without_effect))
        }
        Some(_) | None => Ok(false),
    }
}

/// What a branch was to hide.
pub(crate) fn decode_branch(operation: &OperationRow) -> Result<SessionBranchPlan> {
    decode_json(operation, &operation.plan)
}

/// The name a checkpoint gave, or gave up; nothing for any other operation.
///
/// # Errors
///
/// [`EngineError::UnreadableOperation`].
pub fn decode_checkpoint(operation: &OperationRow) -> Result<Option<CheckpointChange>> {
    match operation.kind {
        OperationKind::Checkpoint => Ok(Some(decode_json(operation, &operation.plan)?)),
        OperationKind::Undo
        | OperationKind::Redo
        | OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Expire
        | OperationKind::Forget => Ok(None),
    }
}

/// What an operation wrote in a root, also by way of a directory inside or around it; of one that is not over, what
/// it may have written.
pub(crate) fn paths_written_in(
    operation: &OperationRow,
    root: &ChangeRoot,
) -> Result<Vec<RelPath>> {
    if !can_move_files(operation.kind) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut add = |other: &ChangeRoot, paths: Vec<RelPath>| {
        let overlap = match other.store == root.store {
            true => Some(RootOverlap::Same),
            false => RootOverlap::find(Path::new(&root.path), Path::new(&other.path)),
        };
        let paths = paths.iter();
        found.extend(overlap.iter().flat_map(|it| paths.clone().filter_map(|p| it.translate(p))));
    };
    match decode_report(operation)? {
        Some(report) => {
            report.roots.iter().for_each(|it| add(&it.root, written_paths(it).cloned().collect()));
        }
        None => {
            for planned in decode_plan(operation)?.roots {
                let paths = planned.plan.steps.into_iter().map(|step| step.path);
                add(&planned.root, paths.collect());
            }
        }
    }
    Ok(found)
}

/// The paths that hold something else since.
pub(crate) fn written_paths(done: &RootReport) -> impl Iterator<Item = &RelPath> {
    let report = &done.report;
    let files = report.restored.iter().chain(&report.removed).chain(&report.merged);
    files.chain(&report.directories)
}

fn decode_json<T: serde::de::DeserializeOwned>(
    operation: &OperationRow,
    value: &Value,
) -> Result<T> {
    T::deserialize(value).map_err(unreadable(operation))
}

fn unreadable(operation: &OperationRow) -> impl Fn(serde_json::Error) -> EngineError {
    let operation = operation.id.clone();
    move |source| EngineError::UnreadableOperation { operation: operation.clone(), source }
}
