//! Handing values to the application, once every promise inside is a value.

use std::sync::Arc;

use super::account::Charge;
use super::cell::{Cell, State};
use super::mailbox::Command;
use super::pipe::{Chunk, WriteEnd};
use super::turn::{HeldCall, Session};
use super::work::{Delivery, Then, Waiter, Work};
use crate::cost;
use crate::error::RpcError;
use crate::value::Value;

/// Values that are looked at for promises before one call or one result.
const MOST_VISITS: usize = 10_000_000;

impl Session {
    pub(super) fn deliver(&mut self, mut delivery: Delivery) {
        let limits = &self.options.limits;
        let mut room = Room { values: limits.substituted_values, bytes: limits.substituted_bytes };
        let mut visits = MOST_VISITS;
        loop {
            let waiting = match delivery.waiting.take() {
                Some(waiting) => Ok(waiting),
                None => self.promises(&mut delivery.values, &mut visits),
            };
            let mut waiting = match waiting {
                Ok(waiting) => waiting,
                Err(error) => {
                    self.refuse(delivery, error);
                    return;
                }
            };
            if waiting.is_empty() {
                self.hand_over(delivery);
                return;
            }
            while let Some(cell) = waiting.last().map(Cell::root) {
                let state = cell.lock();
                match &*state {
                    State::Done(Ok(_)) => {
                        drop(state);
                        waiting.pop();
                    }
                    State::Done(Err(error)) => {
                        let error = error.clone();
                        drop(state);
                        self.refuse(delivery, error);
                        return;
                    }
                    State::Pending(_) | State::Forward(_) => {
                        drop(state);
                        delivery.waiting = Some(waiting);
                        self.wait(&cell, Waiter::Deliver(Box::new(delivery)));
                        return;
                    }
                }
            }
            let depth = self.options.limits.wire.depth;
            let before = room.bytes;
            let values = delivery.values.iter_mut();
            let put = values.map(|value| substitute(value, depth, &mut room));
            let mut paid = put.collect::<Result<(), _>>();
            if let (Ok(()), Some(charge)) = (&paid, &mut delivery.charge) {
                paid = charge.grow(before - room.bytes);
            }
            if let Err(error) = paid {
                self.refuse(delivery, error);
                return;
            }
        }
    }

    /// Collects the promises in the values; those of other sessions become ours.
    ///
    /// Stubs that belong to no session yet belong to this one.
    ///
    /// Every round of promises inside promises looks at all values again, so the visits are counted.
    fn promises(
        &mut self,
        values: &mut [Value],
        visits: &mut usize,
    ) -> Result<Vec<Cell>, RpcError> {
        let mut found = Vec::new();
        let mut left: Vec<_> = values.iter_mut().filter(|value| !value.is_plain()).collect();
        while let Some(value) = left.pop() {
            let Some(rest) = visits.checked_sub(1) else {
                return Err(super::turn::limit("promises inside promises take too many steps"));
            };
            *visits = rest;
            if let Value::Promise(promise) = value {
                promise.cell = self.local(promise);
                promise.home = Some(Arc::clone(&self.mailbox));
                found.push(promise.cell.clone());
            } else if let Value::Stub(stub) = value {
                // An object of ours that has come around: from here on it can be called.
                stub.home.get_or_insert_with(|| Arc::clone(&self.mailbox));
            } else {
                left.extend(value.children_mut());
            }
        }
        Ok(found)
    }

    fn hand_over(&mut self, delivery: Delivery) {
        let mut values = delivery.values;
        match delivery.then {
            Then::Call { target, member, result } => {
                let held = HeldCall { result, charge: delivery.charge };
                self.call(target, member, values, held);
            }
            Then::Write { sink, result } => self.write(&sink, values, result, delivery.charge),
            Then::End { sink, good, result } => {
                let reason = values.drain(..).next().unwrap_or(Value::Undefined);
                let end = if good { Ok(()) } else { Err(RpcError::from_reason(reason)) };
                let refused = sink.pipe().lock().refused.clone();
                sink.pipe().finish(end);
                let outcome = refused.filter(|_| good).map_or(Ok(Value::Undefined), Err);
                self.work.push_back(Work::Settle(result, outcome));
            }
            Then::Answer(answer) => answer.give(Ok(values.pop().unwrap_or(Value::Undefined))),
            Then::Bridge(mailbox, cell) => {
                let value = values.pop().unwrap_or(Value::Undefined);
                mailbox.push(Command::Settle(cell, Ok(value)));
            }
        }
    }

    fn write(
        &mut self,
        sink: &WriteEnd,
        mut values: Vec<Value>,
        result: Cell,
        charge: Option<Charge>,
    ) {
        let value = values.drain(..).next().unwrap_or(Value::Undefined);
        let pipe = sink.pipe().clone();
        let mut flow = pipe.lock();
        let refused = match (&flow.refused, &flow.end) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some(_)) => Some(RpcError::type_error("the stream was closed before")),
            (None, None) => None,
        };
        if let Some(reason) = refused {
            drop(flow);
            self.work.push_back(Work::Settle(result, Err(reason)));
            return;
        }
        let taken = Some(result);
        flow.chunks.push_back(Chunk { value, taken, charge });
        drop(flow);
        pipe.wake();
        self.work.push_back(Work::Pump(pipe));
    }

    fn refuse(&mut self, delivery: Delivery, error: RpcError) {
        match delivery.then {
            Then::Call { result, .. } | Then::Write { result, .. } | Then::End { result, .. } => {
                self.work.push_back(Work::Settle(result, Err(error)));
            }
            Then::Answer(answer) => answer.give(Err(error)),
            Then::Bridge(mailbox, cell) => mailbox.push(Command::Settle(cell, Err(error))),
        }
    }
}

/// What promises may still put into values.
pub(super) struct Room {
    pub(super) values: usize,
    pub(super) bytes: usize,
}

impl Room {
    /// Pays for a copy of a value before it is made.
    pub(super) fn pay(&mut self, value: &Value) -> Result<(), RpcError> {
        let values = self.values.checked_sub(count(value, self.values));
        let bytes = self.bytes.checked_sub(cost::of_value(value));
        match (values, bytes) {
            (Some(values @ 1..), Some(bytes)) => {
                *self = Self { values, bytes };
                Ok(())
            }
            _ => Err(super::turn::limit("promises made a value too large")),
        }
    }
}

/// Puts values where promises stood: not deeper and not more than the limits say.
fn substitute(value: &mut Value, depth: usize, room: &mut Room) -> Result<(), RpcError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(super::turn::limit("promises made a value too deep"));
    };
    if let Value::Promise(promise) = value {
        let root = promise.cell.root();
        if let State::Done(Ok(settled)) = &*root.lock() {
            room.pay(settled)?;
            *value = settled.clone();
        }
        // What it holds may hold promises again; they are found in the next round.
        return Ok(());
    }
    for child in value.children_mut() {
        substitute(child, depth, room)?;
    }
    Ok(())
}

/// Counts values inside a value, up to a limit.
fn count(value: &Value, limit: usize) -> usize {
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
