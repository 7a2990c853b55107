//! Settling promises, and running what waited for them.

use std::sync::Arc;

use super::command_queue::QueuedCommand;
use super::memory_account::TABLE_ENTRY_BYTES;
use super::object_ref::RemoteRef;
use super::outgoing::queue_message;
use super::path_access::run_access;
use super::promise_cell::{PendingPromise, PromiseCell, PromiseOutcome, PromiseState};
use super::rpc_session::RpcSession;
use super::stream_flow::pump_stream;
use super::stub::Promise;
use super::value_delivery::run_delivery;
use super::value_export::send_outcome;
use super::work_queue::{
    DeliveryTarget, PromiseWaiter, SessionBridge, ValueDelivery, WorkItem, disconnected_error,
};
use crate::error::RpcError;
use crate::memory_cost;
use crate::value::Value;
use crate::wire::WireMessage;

pub(super) fn run_work(session: &mut RpcSession, work: WorkItem) {
    match work {
        WorkItem::Access(access) => run_access(session, *access),
        WorkItem::Settle(cell, outcome) => settle_promise(session, &cell, outcome),
        WorkItem::Run(waiter, cell) => run_waiter(session, waiter, &cell),
        WorkItem::Deliver(delivery) => run_delivery(session, *delivery),
        WorkItem::Pump(pipe) => pump_stream(session, &pipe),
    }
}

/// Settles a promise once; what waited for it becomes work.
pub(super) fn settle_promise(
    session: &mut RpcSession,
    cell: &PromiseCell,
    outcome: PromiseOutcome,
) {
    let cell = cell.resolve_forwards();
    if !matches!(&*cell.lock(), PromiseState::Pending(_)) {
        return;
    }
    let state = match outcome {
        Ok(Value::Promise(promise)) => {
            let next = localize_promise(session, &promise).resolve_forwards();
            if next.is_same(&cell) {
                let message = "the promise resolves to itself";
                PromiseState::Done(Err(RpcError::type_error(message)))
            } else {
                PromiseState::Forward(next)
            }
        }
        outcome => PromiseState::Done(charge_outcome(session, &cell, outcome)),
    };
    let old = std::mem::replace(&mut *cell.lock(), state);
    if let PromiseState::Pending(PendingPromise { waiters, .. }) = old {
        for waiter in waiters {
            add_waiter(session, &cell, waiter);
        }
    }
}

/// Charges the session for what a promise holds from now on; what is too much becomes an error.
pub(super) fn charge_outcome(
    session: &RpcSession,
    cell: &PromiseCell,
    outcome: PromiseOutcome,
) -> PromiseOutcome {
    let bytes = memory_cost::outcome_bytes(&outcome);
    // Little is part of what the promise itself costs.
    if bytes <= TABLE_ENTRY_BYTES {
        return outcome;
    }
    cell.attach_charge(session.account.charge(bytes)?);
    outcome
}

/// Lets the waiter run when the promise has settled; asks the peer for it if need be.
pub(super) fn add_waiter(session: &mut RpcSession, cell: &PromiseCell, waiter: PromiseWaiter) {
    let cell = cell.resolve_forwards();
    let mut state = cell.lock();
    match &mut *state {
        PromiseState::Done(_) => match waiter {
            // These look at the promise themselves: no copy for them.
            PromiseWaiter::Access(access) => session.work.push_back(WorkItem::Access(access)),
            PromiseWaiter::Deliver(delivery) => session.work.push_back(WorkItem::Deliver(delivery)),
            waiter @ (PromiseWaiter::Resolve(_)
            | PromiseWaiter::Receiver(_)
            | PromiseWaiter::Bridge(_)) => {
                drop(state);
                session.work.push_back(WorkItem::Run(waiter, cell));
            }
        },
        PromiseState::Pending(pending) => {
            pending.waiters.push(waiter);
            let wanted = pending.remote.as_ref().filter(|_| !pending.pulled);
            let wanted = wanted.map(RemoteRef::id);
            let from_peer = pending.remote.is_some();
            pending.pulled |= wanted.is_some();
            drop(state);
            if from_peer && session.activity.input_ended {
                session.work.push_back(WorkItem::Settle(cell, Err(batch_wait_error())));
            } else if let Some(id) = wanted {
                queue_message(session, &WireMessage::Pull(id)).ok();
            }
        }
        PromiseState::Forward(_) => {}
    }
}

fn run_waiter(session: &mut RpcSession, waiter: PromiseWaiter, cell: &PromiseCell) {
    let outcome = || cell.outcome().unwrap_or_else(|| Err(disconnected_error()));
    let deliver = |outcome: PromiseOutcome, then: DeliveryTarget| {
        let (values, waiting) = match outcome {
            Ok(value) => (vec![value], None),
            Err(error) => (Vec::new(), Some(vec![PromiseCell::already_settled(Err(error))])),
        };
        WorkItem::Deliver(Box::new(ValueDelivery { values, waiting, then, charge: None }))
    };
    match waiter {
        PromiseWaiter::Access(access) => session.work.push_back(WorkItem::Access(access)),
        PromiseWaiter::Resolve(id) => send_outcome(session, id, outcome()),
        PromiseWaiter::Deliver(delivery) => session.work.push_back(WorkItem::Deliver(delivery)),
        PromiseWaiter::Receiver(answer) => {
            session.work.push_back(deliver(outcome(), DeliveryTarget::Receiver(answer)))
        }
        PromiseWaiter::Bridge(bridge) => {
            let then = DeliveryTarget::Bridge(bridge.home, bridge.follower);
            session.work.push_back(deliver(outcome(), then));
        }
    }
}

/// Returns the promise as one of this session.
pub(super) fn localize_promise(session: &mut RpcSession, promise: &Promise) -> PromiseCell {
    match &promise.home {
        Some(home) if !home.is_same(&session.mailbox) => {
            let cell = PromiseCell::pending();
            let bridge = PromiseWaiter::Bridge(SessionBridge {
                home: Arc::clone(&session.mailbox),
                follower: cell.clone(),
                followed: promise.cell.clone(),
            });
            home.push(QueuedCommand::Wait(promise.cell.clone(), bridge));
            cell
        }
        _ => promise.cell.clone(),
    }
}

/// Nothing comes from the peer any more.
pub(super) fn batch_wait_error() -> RpcError {
    let message = "a batch cannot wait for the peer that sent it";
    RpcError::with_code("batch", message)
}
