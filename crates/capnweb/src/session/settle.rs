//! Settling promises, and running what waited for them.

use std::sync::Arc;

use super::account::ENTRY_BYTES;
use super::cell::{Cell, Outcome, Pending, State};
use super::hook::RemoteRef;
use super::mailbox::Command;
use super::stub::Promise;
use super::turn::Session;
use super::work::{Bridge, Delivery, Then, Waiter, Work, gone};
use crate::cost;
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::Message;

impl Session {
    pub(super) fn step(&mut self, work: Work) {
        match work {
            Work::Access(access) => self.access(*access),
            Work::Settle(cell, outcome) => self.settle(&cell, outcome),
            Work::Run(waiter, cell) => self.run(waiter, &cell),
            Work::Deliver(delivery) => self.deliver(*delivery),
            Work::Pump(pipe) => self.pump(&pipe),
        }
    }

    /// Settles a promise once; what waited for it becomes work.
    pub(super) fn settle(&mut self, cell: &Cell, outcome: Outcome) {
        let cell = cell.root();
        if !matches!(&*cell.lock(), State::Pending(_)) {
            return;
        }
        let state = match outcome {
            Ok(Value::Promise(promise)) => {
                let next = self.local(&promise).root();
                if next.is(&cell) {
                    let message = "the promise resolves to itself";
                    State::Done(Err(RpcError::type_error(message)))
                } else {
                    State::Forward(next)
                }
            }
            outcome => State::Done(self.charge_outcome(&cell, outcome)),
        };
        let old = std::mem::replace(&mut *cell.lock(), state);
        if let State::Pending(Pending { waiters, .. }) = old {
            for waiter in waiters {
                self.wait(&cell, waiter);
            }
        }
    }

    /// Charges the session for what a promise holds from now on; what is too much becomes an error.
    pub(super) fn charge_outcome(&self, cell: &Cell, outcome: Outcome) -> Outcome {
        let bytes = cost::of_outcome(&outcome);
        // Little is part of what the promise itself costs.
        if bytes <= ENTRY_BYTES {
            return outcome;
        }
        cell.keep(self.account.charge(bytes)?);
        outcome
    }

    /// Lets the waiter run when the promise has settled; asks the peer for it if need be.
    pub(super) fn wait(&mut self, cell: &Cell, waiter: Waiter) {
        let cell = cell.root();
        let mut state = cell.lock();
        match &mut *state {
            State::Done(_) => match waiter {
                // These look at the promise themselves: no copy for them.
                Waiter::Access(access) => self.work.push_back(Work::Access(access)),
                Waiter::Deliver(delivery) => self.work.push_back(Work::Deliver(delivery)),
                waiter @ (Waiter::Resolve(_) | Waiter::Answer(_) | Waiter::Bridge(_)) => {
                    drop(state);
                    self.work.push_back(Work::Run(waiter, cell));
                }
            },
            State::Pending(pending) => {
                pending.waiters.push(waiter);
                let wanted = pending.remote.as_ref().filter(|_| !pending.pulled);
                let wanted = wanted.map(RemoteRef::id);
                let from_peer = pending.remote.is_some();
                pending.pulled |= wanted.is_some();
                drop(state);
                if from_peer && self.running.input_ended {
                    self.work.push_back(Work::Settle(cell, Err(one_way())));
                } else if let Some(id) = wanted {
                    self.send(&Message::Pull(id)).ok();
                }
            }
            State::Forward(_) => {}
        }
    }

    fn run(&mut self, waiter: Waiter, cell: &Cell) {
        let outcome = || cell.settled().unwrap_or_else(|| Err(gone()));
        let deliver = |outcome: Outcome, then: Then| {
            let (values, waiting) = match outcome {
                Ok(value) => (vec![value], None),
                Err(error) => (Vec::new(), Some(vec![Cell::done(Err(error))])),
            };
            Work::Deliver(Box::new(Delivery { values, waiting, then, charge: None }))
        };
        match waiter {
            Waiter::Access(access) => self.work.push_back(Work::Access(access)),
            Waiter::Resolve(id) => self.answer(id, outcome()),
            Waiter::Deliver(delivery) => self.work.push_back(Work::Deliver(delivery)),
            Waiter::Answer(answer) => self.work.push_back(deliver(outcome(), Then::Answer(answer))),
            Waiter::Bridge(bridge) => {
                let then = Then::Bridge(bridge.home, bridge.follower);
                self.work.push_back(deliver(outcome(), then));
            }
        }
    }

    /// Returns the promise as one of this session.
    pub(super) fn local(&mut self, promise: &Promise) -> Cell {
        match &promise.home {
            Some(home) if !home.is(&self.mailbox) => {
                let cell = Cell::pending();
                let bridge = Waiter::Bridge(Bridge {
                    home: Arc::clone(&self.mailbox),
                    follower: cell.clone(),
                    followed: promise.cell.clone(),
                });
                home.push(Command::Wait(promise.cell.clone(), bridge));
                cell
            }
            _ => promise.cell.clone(),
        }
    }
}

/// Nothing comes from the peer any more.
pub(super) fn one_way() -> RpcError {
    let message = "a batch cannot wait for the peer that sent it";
    RpcError::coded("batch", message)
}
