//! Promises: shared places that settle once.
//!
//! A cell that resolves to another promise forwards to it, so that chains are walked, never
//! followed in circles. Long chains are dropped one by one, not one inside the other.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::account::Charge;
use super::hook::RemoteRef;
use super::work::Waiter;
use crate::error::RpcError;
use crate::value::Value;

/// How something settled.
pub(crate) type Outcome = Result<Value, RpcError>;

/// One promise; a clone is the same promise.
#[derive(Clone)]
pub(crate) struct Cell(Arc<Slot>);

struct Slot {
    state: Mutex<State>,
    /// What the value costs its session, if that is much.
    charge: OnceLock<Charge>,
}

pub(crate) enum State {
    Pending(Pending),
    Forward(Cell),
    Done(Outcome),
}

/// Who waits for a promise, and where it comes from.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) waiters: Vec<Waiter>,
    /// The import that will resolve it, if the peer does.
    pub(crate) remote: Option<RemoteRef>,
    pub(crate) pulled: bool,
}

impl Cell {
    pub(crate) fn pending() -> Self {
        Self::of(State::Pending(Pending::default()))
    }

    pub(crate) fn done(outcome: Outcome) -> Self {
        match outcome {
            Ok(Value::Promise(promise)) => promise.cell.clone(),
            outcome => Self::of(State::Done(outcome)),
        }
    }

    pub(crate) fn remote(remote: RemoteRef, pulled: bool) -> Self {
        Self::of(State::Pending(Pending { waiters: Vec::new(), remote: Some(remote), pulled }))
    }

    fn of(state: State) -> Self {
        Self(Arc::new(Slot { state: Mutex::new(state), charge: OnceLock::new() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cell that this one stands for.
    pub(crate) fn root(&self) -> Self {
        let mut cell = self.clone();
        loop {
            let next = match &*cell.lock() {
                State::Forward(next) => next.clone(),
                State::Pending(_) | State::Done(_) => break,
            };
            cell = next;
        }
        cell
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn downgrade(&self) -> WeakCell {
        WeakCell(Arc::downgrade(&self.0))
    }

    /// Returns how the promise settled, if it has.
    pub(crate) fn settled(&self) -> Option<Outcome> {
        if let State::Done(outcome) = &*self.lock() {
            return Some(outcome.clone());
        }
        None
    }

    /// Charges the session for the value as long as the promise lives.
    pub(crate) fn keep(&self, charge: Charge) {
        // A second charge is returned: a promise settles once.
        self.0.charge.set(charge).ok();
    }

    /// Forgets what the cell holds: the session is over.
    pub(crate) fn clear(&self, error: &RpcError) {
        let old = std::mem::replace(&mut *self.lock(), State::Done(Err(error.clone())));
        drop(old);
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Cell")
    }
}

/// A cell that does not keep itself alive.
pub(crate) struct WeakCell(Weak<Slot>);

impl WeakCell {
    pub(crate) fn upgrade(&self) -> Option<Cell> {
        self.0.upgrade().map(Cell)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// What is being dropped on one thread.
struct Dropping {
    /// Something is: whatever is dropped meanwhile waits in the list.
    busy: bool,
    list: Vec<State>,
}

thread_local! {
    static DROPPING: RefCell<Dropping> =
        const { RefCell::new(Dropping { busy: false, list: Vec::new() }) };
}

/// States for which a thread keeps room.
const MOST_ROOM: usize = 64;

impl State {
    /// Tells whether dropping it drops no other cell.
    fn is_flat(&self) -> bool {
        match self {
            Self::Pending(pending) => pending.waiters.is_empty(),
            Self::Forward(_) => false,
            Self::Done(Ok(value)) => value.is_plain(),
            Self::Done(Err(error)) => error.props.iter().all(|(_, value)| value.is_plain()),
        }
    }
}

impl Drop for Slot {
    /// Hands the contents to the outermost drop, so that a chain needs no deep stack.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.is_flat() {
            return;
        }
        let state = std::mem::replace(state, State::Done(Ok(Value::Undefined)));
        let outermost = DROPPING.try_with(|dropping| {
            let mut dropping = dropping.borrow_mut();
            dropping.list.push(state);
            !std::mem::replace(&mut dropping.busy, true)
        });
        if !outermost.unwrap_or(false) {
            return;
        }
        let pop = || DROPPING.with(|dropping| dropping.borrow_mut().list.pop());
        while let Some(state) = pop() {
            drop(state);
        }
        DROPPING.with(|dropping| {
            let mut dropping = dropping.borrow_mut();
            dropping.busy = false;
            dropping.list.shrink_to(MOST_ROOM);
        });
    }
}
