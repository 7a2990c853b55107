//! Handing values to the application, once every promise inside is a value.

use std::sync::Arc;

use super::command_queue::QueuedCommand;
use super::memory_account::MemoryCharge;
use super::promise_cell::{PromiseCell, PromiseState};
use super::promise_settling::{add_waiter, localize_promise};
use super::rpc_session::{RpcSession, RunningCall};
use super::stream_pipe::{StreamChunk, WriteEnd};
use super::work_queue::{DeliveryTarget, PromiseWaiter, ValueDelivery, WorkItem};
use crate::error::RpcError;
use crate::memory_cost;
use crate::value::Value;

/// Values that are looked at for promises before one call or one result.
const MAX_VISITS: usize = 10_000_000;

pub(super) fn run_delivery(session: &mut RpcSession, mut delivery: ValueDelivery) {
    let limits = &session.options.limits;
    let mut room =
        SubstitutionBudget { values: limits.substituted_values, bytes: limits.substituted_bytes };
    let mut visits = MAX_VISITS;
    loop {
        let waiting = match delivery.waiting.take() {
            Some(waiting) => Ok(waiting),
            None => collect_promises(session, &mut delivery.values, &mut visits),
        };
        let mut waiting = match waiting {
            Ok(waiting) => waiting,
            Err(error) => {
                reject_delivery(session, delivery, error);
                return;
            }
        };
        if waiting.is_empty() {
            hand_over(session, delivery);
            return;
        }
        while let Some(cell) = waiting.last().map(PromiseCell::resolve_forwards) {
            let state = cell.lock();
            match &*state {
                PromiseState::Done(Ok(_)) => {
                    drop(state);
                    waiting.pop();
                }
                PromiseState::Done(Err(error)) => {
                    let error = error.clone();
                    drop(state);
                    reject_delivery(session, delivery, error);
                    return;
                }
                PromiseState::Pending(_) | PromiseState::Forward(_) => {
                    drop(state);
                    delivery.waiting = Some(waiting);
                    add_waiter(session, &cell, PromiseWaiter::Deliver(Box::new(delivery)));
                    return;
                }
            }
        }
        let depth = session.options.limits.wire.depth;
        let before = room.bytes;
        let values = delivery.values.iter_mut();
        let put = values.map(|value| substitute_promises(value, depth, &mut room));
        let mut paid = put.collect::<Result<(), _>>();
        if let (Ok(()), Some(charge)) = (&paid, &mut delivery.charge) {
            paid = charge.grow(before - room.bytes);
        }
        if let Err(error) = paid {
            reject_delivery(session, delivery, error);
            return;
        }
    }
}

/// Collects the promises in the values; those of other sessions become ours.
///
/// Stubs that belong to no session yet belong to this one.
///
/// Every round of promises inside promises looks at all values again, so the visits are counted.
fn collect_promises(
    session: &mut RpcSession,
    values: &mut [Value],
    visits: &mut usize,
) -> Result<Vec<PromiseCell>, RpcError> {
    let mut found = Vec::new();
    let mut left: Vec<_> = values.iter_mut().filter(|value| !value.is_leaf()).collect();
    while let Some(value) = left.pop() {
        let Some(rest) = visits.checked_sub(1) else {
            return Err(super::rpc_session::limit_error(
                "promises inside promises take too many steps",
            ));
        };
        *visits = rest;
        if let Value::Promise(promise) = value {
            promise.cell = localize_promise(session, promise);
            promise.home = Some(Arc::clone(&session.mailbox));
            found.push(promise.cell.clone());
        } else if let Value::Stub(stub) = value {
            // An object of ours that has come around: from here on it can be called.
            stub.home.get_or_insert_with(|| Arc::clone(&session.mailbox));
        } else {
            left.extend(value.children_mut());
        }
    }
    Ok(found)
}

fn hand_over(session: &mut RpcSession, delivery: ValueDelivery) {
    let mut values = delivery.values;
    match delivery.then {
        DeliveryTarget::Call { target, member, result } => {
            let held = RunningCall { result, charge: delivery.charge };
            session.emit_call(target, member, values, held);
        }
        DeliveryTarget::Write { sink, result } => {
            write_chunk(session, &sink, values, result, delivery.charge)
        }
        DeliveryTarget::End { sink, good, result } => {
            let reason = values.drain(..).next().unwrap_or(Value::Undefined);
            let end = if good { Ok(()) } else { Err(RpcError::from_reason(reason)) };
            let refused = sink.pipe().lock().refusal.clone();
            sink.pipe().finish(end);
            let outcome = refused.filter(|_| good).map_or(Ok(Value::Undefined), Err);
            session.work.push_back(WorkItem::Settle(result, outcome));
        }
        DeliveryTarget::Receiver(answer) => {
            answer.send(Ok(values.pop().unwrap_or(Value::Undefined)))
        }
        DeliveryTarget::Bridge(mailbox, cell) => {
            let value = values.pop().unwrap_or(Value::Undefined);
            mailbox.push(QueuedCommand::Settle(cell, Ok(value)));
        }
    }
}

fn write_chunk(
    session: &mut RpcSession,
    sink: &WriteEnd,
    mut values: Vec<Value>,
    result: PromiseCell,
    charge: Option<MemoryCharge>,
) {
    let value = values.drain(..).next().unwrap_or(Value::Undefined);
    let pipe = sink.pipe().clone();
    let mut flow = pipe.lock();
    let refused = match (&flow.refusal, &flow.end) {
        (Some(reason), _) => Some(reason.clone()),
        (None, Some(_)) => Some(RpcError::type_error("the stream was closed before")),
        (None, None) => None,
    };
    if let Some(reason) = refused {
        drop(flow);
        session.work.push_back(WorkItem::Settle(result, Err(reason)));
        return;
    }
    let taken = Some(result);
    flow.chunks.push_back(StreamChunk { value, taken, charge });
    drop(flow);
    pipe.wake();
    session.work.push_back(WorkItem::Pump(pipe));
}

fn reject_delivery(session: &mut RpcSession, delivery: ValueDelivery, error: RpcError) {
    match delivery.then {
        DeliveryTarget::Call { result, .. }
        | DeliveryTarget::Write { result, .. }
        | DeliveryTarget::End { result, .. } => {
            session.work.push_back(WorkItem::Settle(result, Err(error)));
        }
        DeliveryTarget::Receiver(answer) => answer.send(Err(error)),
        DeliveryTarget::Bridge(mailbox, cell) => {
            mailbox.push(QueuedCommand::Settle(cell, Err(error)))
        }
    }
}

/// What promises may still put into values.
pub(super) struct SubstitutionBudget {
    pub(super) values: usize,
    pub(super) bytes: usize,
}

impl SubstitutionBudget {
    /// Pays for a copy of a value before it is made.
    pub(super) fn charge(&mut self, value: &Value) -> Result<(), RpcError> {
        let values = self.values.checked_sub(count_values(value, self.values));
        let bytes = self.bytes.checked_sub(memory_cost::value_bytes(value));
        match (values, bytes) {
            (Some(values @ 1..), Some(bytes)) => {
                *self = Self { values, bytes };
                Ok(())
            }
            _ => Err(super::rpc_session::limit_error("promises made a value too large")),
        }
    }
}

/// Puts values where promises stood: not deeper and not more than the limits say.
fn substitute_promises(
    value: &mut Value,
    depth: usize,
    room: &mut SubstitutionBudget,
) -> Result<(), RpcError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(super::rpc_session::limit_error("promises made a value too deep"));
    };
    if let Value::Promise(promise) = value {
        let root = promise.cell.resolve_forwards();
        if let PromiseState::Done(Ok(settled)) = &*root.lock() {
            room.charge(settled)?;
            *value = settled.clone();
        }
        // What it holds may hold promises again; they are found in the next round.
        return Ok(());
    }
    for child in value.children_mut() {
        substitute_promises(child, depth, room)?;
    }
    Ok(())
}

/// Counts values inside a value, up to a limit.
fn count_values(value: &Value, limit: usize) -> usize {
    let mut count = 0;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        count += 1;
        if count > limit {
            break;
        }
        left.extend(value.children());
    }
    count
}
