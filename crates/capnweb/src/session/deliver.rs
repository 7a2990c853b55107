//! Handing values to the application, once every promise inside is a value.

use std::sync::Arc;

use super::cell::{Cell, State};
use super::mailbox::Command;
use super::pipe::{Chunk, WriteEnd};
use super::turn::Session;
use super::work::{Delivery, Then, Waiter, Work};
use crate::error::RpcError;
use crate::value::Value;

impl Session {
    pub(super) fn deliver(&mut self, mut delivery: Delivery) {
        let mut budget = self.options.limits.substituted_values;
        loop {
            let mut waiting = match delivery.waiting.take() {
                Some(waiting) => waiting,
                None => self.promises(&mut delivery.values),
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
            for value in &mut delivery.values {
                if let Err(error) = substitute(value, depth, &mut budget) {
                    self.refuse(delivery, error);
                    return;
                }
            }
        }
    }

    /// Collects the promises in the values; those of other sessions become ours.
    ///
    /// Stubs that belong to no session yet belong to this one.
    fn promises(&mut self, values: &mut [Value]) -> Vec<Cell> {
        let mut found = Vec::new();
        let mut left: Vec<_> = values.iter_mut().filter(|value| !value.is_plain()).collect();
        while let Some(value) = left.pop() {
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
        found
    }

    fn hand_over(&mut self, delivery: Delivery) {
        let mut values = delivery.values;
        match delivery.then {
            Then::Call { target, member, result } => self.call(target, member, values, result),
            Then::Write { sink, result } => self.write(&sink, values, result),
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

    fn write(&mut self, sink: &WriteEnd, mut values: Vec<Value>, result: Cell) {
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
        flow.chunks.push_back(Chunk { value, taken });
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

/// Puts values where promises stood: not deeper and not more than the limits say.
fn substitute(value: &mut Value, depth: usize, budget: &mut usize) -> Result<(), RpcError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(super::turn::limit("promises made a value too deep"));
    };
    if let Value::Promise(promise) = value {
        let settled = promise.cell.root().settled();
        if let Some(Ok(settled)) = settled {
            *value = settled;
            *budget = budget.saturating_sub(size(value, *budget));
        }
        if *budget == 0 {
            return Err(super::turn::limit("promises made a value too large"));
        }
        // What it holds may hold promises again; they are found in the next round.
        return Ok(());
    }
    for child in value.children_mut() {
        substitute(child, depth, budget)?;
    }
    Ok(())
}

/// Counts values inside a value, up to a limit.
pub(super) fn size(value: &mut Value, limit: usize) -> usize {
    let mut count = 0;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        count += 1;
        if count > limit {
            break;
        }
        left.extend(value.children_mut());
    }
    count
}
