//! Stored operations: the only code that writes and reads the JSON of a plan and of a report.
//!
//! What cannot be read is an error. It is never taken for an operation that did nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnstone_core::change::Root;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::path::RelPath;
use turnstone_snapshot::OperationId as OrderId;
use turnstone_store::OperationRow;

use super::words::{OperationReport, RootReport, UndoPlan};
use crate::branch::BranchPlan;
use crate::error::{EngineError, Result};

/// A plan as it is stored: what is looked for often, and all of it.
#[derive(Serialize, Deserialize)]
struct WrittenPlan {
    turns: Vec<TurnId>,
    #[serde(default)]
    also: Vec<(SessionId, TurnId)>,
    #[serde(default)]
    switched: bool,
    /// The orders, each with the store that carries it out; plans of old do not say it apart.
    #[serde(default)]
    orders: Option<Vec<(String, OrderId)>>,
    /// One text, so that a long plan is a value of its own.
    whole: String,
}

/// What the plans of an expiry and of a forgetting have in common.
#[derive(Deserialize)]
struct WrittenTurns {
    turns: Vec<TurnId>,
    #[serde(default)]
    guards: Vec<OperationId>,
}

/// A report as it is stored.
#[derive(Serialize, Deserialize)]
struct WrittenReport {
    whole: String,
}

/// The plan of a checkpoint: a point gets a name, or names are given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The name.
    pub name: String,
    /// The checkpoints whose name this operation gives up; empty: it names the point it was made at.
    #[serde(rename = "givesUp", default, skip_serializing_if = "Vec::is_empty")]
    pub gives_up: Vec<OperationId>,
}

/// True for operations that bring files and the conversation somewhere: those with a plan.
#[must_use]
pub(crate) const fn moves_files(kind: OperationKind) -> bool {
    match kind {
        OperationKind::Undo | OperationKind::Redo | OperationKind::Jump => true,
        OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Expire
        | OperationKind::Forget => false,
    }
}

pub(crate) fn write_plan(plan: &UndoPlan) -> Result<Value> {
    let written = WrittenPlan {
        turns: plan.turns.clone(),
        also: plan.also.clone(),
        switched: plan.switch.is_some(),
        orders: Some(orders(plan)),
        whole: serde_json::to_string(plan).map_err(std::io::Error::from)?,
    };
    Ok(serde_json::to_value(written).map_err(std::io::Error::from)?)
}

pub(crate) fn write_report(report: &OperationReport) -> Result<Value> {
    let whole = serde_json::to_string(report).map_err(std::io::Error::from)?;
    Ok(serde_json::to_value(WrittenReport { whole }).map_err(std::io::Error::from)?)
}

pub(crate) fn write_branch(plan: &BranchPlan) -> Result<Value> {
    Ok(serde_json::to_value(plan).map_err(std::io::Error::from)?)
}

pub(crate) fn write_mark(name: &str, gives_up: Vec<OperationId>) -> Result<Value> {
    let written = Mark { name: name.to_owned(), gives_up };
    Ok(serde_json::to_value(written).map_err(std::io::Error::from)?)
}

/// What an undo, a redo or a jump was to do.
pub(crate) fn plan_of(operation: &OperationRow) -> Result<UndoPlan> {
    let written: WrittenPlan = read(operation, &operation.plan)?;
    serde_json::from_str(&written.whole).map_err(unreadable(operation))
}

/// The orders an undo, a redo or a jump gave, each with its store, from how its plan is stored.
pub(crate) fn orders_of(operation: &OperationId, plan: &Value) -> Result<Vec<(String, OrderId)>> {
    let unreadable = |source| EngineError::Unreadable { operation: operation.clone(), source };
    let written = WrittenPlan::deserialize(plan).map_err(unreadable)?;
    match written.orders {
        Some(orders) => Ok(orders),
        None => Ok(orders(&serde_json::from_str(&written.whole).map_err(unreadable)?)),
    }
}

fn orders(plan: &UndoPlan) -> Vec<(String, OrderId)> {
    plan.roots.iter().map(|root| (root.root.store.clone(), root.order.clone())).collect()
}

/// What an operation did; nothing while it is not over, and of one that moves no files.
///
/// # Errors
///
/// [`EngineError::Unreadable`].
pub fn report_of(operation: &OperationRow) -> Result<Option<OperationReport>> {
    let Some(done) = operation.done.as_ref().filter(|_| moves_files(operation.kind)) else {
        return Ok(None);
    };
    let written: WrittenReport = read(operation, &done.report)?;
    serde_json::from_str(&written.whole).map(Some).map_err(unreadable(operation))
}

/// The turns an operation was about.
///
/// # Errors
///
/// [`EngineError::Unreadable`].
pub fn turns_of(operation: &OperationRow) -> Result<Vec<TurnId>> {
    match operation.kind {
        OperationKind::Undo | OperationKind::Redo | OperationKind::Jump => {
            Ok(read::<WrittenPlan>(operation, &operation.plan)?.turns)
        }
        OperationKind::Expire | OperationKind::Forget => {
            Ok(read::<WrittenTurns>(operation, &operation.plan)?.turns)
        }
        OperationKind::Branch | OperationKind::Checkpoint => Ok(Vec::new()),
    }
}

/// The operations whose guards an expiry gave up (R14); none of any other operation.
///
/// # Errors
///
/// [`EngineError::Unreadable`].
pub fn guards_of(operation: &OperationRow) -> Result<Vec<OperationId>> {
    match operation.kind == OperationKind::Expire {
        true => Ok(read::<WrittenTurns>(operation, &operation.plan)?.guards),
        false => Ok(Vec::new()),
    }
}

/// The turns of other sessions an operation took along.
pub(crate) fn also_of(operation: &OperationRow) -> Result<Vec<(SessionId, TurnId)>> {
    match moves_files(operation.kind) {
        true => Ok(read::<WrittenPlan>(operation, &operation.plan)?.also),
        false => Ok(Vec::new()),
    }
}

/// True if the session changed to another line.
pub(crate) fn is_switch(operation: &OperationRow) -> Result<bool> {
    let switched =
        moves_files(operation.kind) && read::<WrittenPlan>(operation, &operation.plan)?.switched;
    Ok(switched && !is_idle(operation)?)
}

/// True if an operation is over and changed nothing, because no file could follow.
pub(crate) fn is_idle(operation: &OperationRow) -> Result<bool> {
    match &operation.done {
        Some(done) if done.taken.is_empty() => {
            Ok(report_of(operation)?.is_some_and(|report| report.without_effect))
        }
        Some(_) | None => Ok(false),
    }
}

/// What a branch was to hide.
pub(crate) fn branch_of(operation: &OperationRow) -> Result<BranchPlan> {
    read(operation, &operation.plan)
}

/// The name a checkpoint gave, or gave up; nothing for any other operation.
///
/// # Errors
///
/// [`EngineError::Unreadable`].
pub fn mark_of(operation: &OperationRow) -> Result<Option<Mark>> {
    match operation.kind {
        OperationKind::Checkpoint => Ok(Some(read(operation, &operation.plan)?)),
        OperationKind::Undo
        | OperationKind::Redo
        | OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Expire
        | OperationKind::Forget => Ok(None),
    }
}

/// What an operation wrote in a root; of one that is not over, what it may have written.
pub(crate) fn written_in(operation: &OperationRow, root: &Root) -> Result<Vec<RelPath>> {
    if !moves_files(operation.kind) {
        return Ok(Vec::new());
    }
    if let Some(report) = report_of(operation)? {
        let here = report.roots.into_iter().filter(|it| it.root.store == root.store);
        return Ok(here.flat_map(|it| written(&it).cloned().collect::<Vec<_>>()).collect());
    }
    let here = plan_of(operation)?.roots.into_iter().filter(|it| it.root.store == root.store);
    Ok(here.flat_map(|it| it.plan.steps).map(|step| step.path).collect())
}

/// The paths that hold something else since.
pub(crate) fn written(done: &RootReport) -> impl Iterator<Item = &RelPath> {
    let report = &done.report;
    report.restored.iter().chain(&report.removed).chain(&report.merged)
}

fn read<T: serde::de::DeserializeOwned>(operation: &OperationRow, value: &Value) -> Result<T> {
    T::deserialize(value).map_err(unreadable(operation))
}

fn unreadable(operation: &OperationRow) -> impl Fn(serde_json::Error) -> EngineError {
    let operation = operation.id.clone();
    move |source| EngineError::Unreadable { operation: operation.clone(), source }
}
